"""Pictures of every kind become upright 8-bit RGB; everything else is refused in a sentence."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

from visual_encoder import ImageRefused, load_image
from visual_encoder.image_loading import MAX_SOURCE_PIXELS, open_image, upright_size

RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)


def encode(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def two_colours() -> Image.Image:
    """32 wide, 16 high, left half red, right half blue."""
    image = Image.new("RGB", (32, 16), RED)
    image.paste(BLUE, (16, 0, 32, 16))
    return image


def close(pixel: object, expected: tuple[int, int, int], tolerance: int = 12) -> bool:
    return bool(np.abs(np.subtract(pixel, expected)).max() <= tolerance)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "PPM", "ICO"])
def test_common_formats(kind: str, tmp_path: Path) -> None:
    picture = two_colours().resize((32, 32)) if kind == "ICO" else two_colours()
    data = encode(picture, kind)
    path = tmp_path / "picture"
    path.write_bytes(data)
    for source in (data, path, str(path), Image.open(io.BytesIO(data))):
        image = load_image(source)
        assert image.mode == "RGB"
        assert close(image.getpixel((2, 8)), RED)
        assert close(image.getpixel((29, 8)), BLUE)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_exif_orientation_is_applied(kind: str, orientation: int) -> None:
    """Store the picture as a camera would that was held so; it must come back upright."""
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    upright = two_colours()
    upright.paste((0, 255, 0), (0, 0, 16, 8))
    stored = upright.transpose(undo[orientation]) if orientation > 1 else upright
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    lossless = {} if kind == "PNG" else {"quality": 100}
    data = encode(stored, kind, exif=exif, **lossless)
    assert upright_size(open_image(data)) == (16, 32)
    image = load_image(data)
    assert image.size == (32, 16)
    for place in ((3, 2), (3, 13), (28, 8)):
        assert close(image.getpixel(place), upright.getpixel(place), 60)


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_a_senseless_orientation_is_ignored(orientation: int) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    assert load_image(encode(two_colours(), "JPEG", exif=exif)).size == (32, 16)


def test_transparency_lies_over_white() -> None:
    image = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    image.putpixel((1, 1), (255, 0, 0, 255))
    image.putpixel((2, 2), (255, 0, 0, 128))
    loaded = load_image(encode(image, "PNG"))
    assert loaded.getpixel((0, 0)) == WHITE
    assert loaded.getpixel((1, 1)) == RED
    assert close(loaded.getpixel((2, 2)), (255, 127, 127), 1)


def test_grey_with_transparency() -> None:
    image = Image.new("LA", (4, 4), (10, 0))
    image.putpixel((1, 1), (10, 255))
    loaded = load_image(encode(image, "PNG"))
    assert (loaded.getpixel((0, 0)), loaded.getpixel((1, 1))) == (WHITE, (10, 10, 10))


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_palette_with_a_transparent_colour(kind: str) -> None:
    image = two_colours().quantize(4)
    data = encode(image, kind, transparency=image.getpixel((0, 0)))
    loaded = load_image(data)
    assert (loaded.getpixel((0, 0)), loaded.getpixel((30, 0))) == (WHITE, BLUE)


def test_palette_with_alpha_per_colour() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putdata([0, 1])
    loaded = load_image(encode(image, "PNG", transparency=bytes([0, 255])))
    assert (loaded.getpixel((0, 0)), loaded.getpixel((1, 0))) == (WHITE, BLUE)


def test_rgb_with_a_transparent_colour() -> None:
    loaded = load_image(encode(two_colours(), "PNG", transparency=RED))
    assert (loaded.getpixel((0, 0)), loaded.getpixel((30, 0))) == (WHITE, BLUE)


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "HSV", "LAB"])
def test_every_mode_becomes_rgb(mode: str) -> None:
    image = Image.new("RGB", (8, 8), WHITE)
    source = image.convert("LAB") if mode == "LAB" else image.convert(mode)
    loaded = load_image(source)
    assert loaded.mode == "RGB"
    assert mode == "LAB" or close(loaded.getpixel((4, 4)), WHITE, 1)


def test_cmyk_jpeg_keeps_its_colours() -> None:
    loaded = load_image(encode(two_colours().convert("CMYK"), "JPEG", quality=95))
    assert close(loaded.getpixel((2, 8)), RED, 10)
    assert close(loaded.getpixel((29, 8)), BLUE, 10)


def grey16() -> np.ndarray:
    return np.array([[0, 257, 32896, 65535]], dtype=np.uint16)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_not_clipped(kind: str) -> None:
    loaded = load_image(encode(Image.fromarray(grey16()), kind))
    assert [loaded.getpixel((x, 0)) for x in range(4)] == [(v,) * 3 for v in (0, 1, 128, 255)]


def test_big_endian_sixteen_bits() -> None:
    image = Image.frombytes("I;16B", (4, 1), grey16().astype(">u2").tobytes())
    assert [load_image(image).getpixel((x, 0))[0] for x in range(4)] == [0, 1, 128, 255]


def test_sixteen_bit_pgm() -> None:
    data = b"P5 4 1 65535\n" + grey16().astype(">u2").tobytes()
    assert [load_image(data).getpixel((x, 0))[0] for x in range(4)] == [0, 1, 128, 255]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([[0, 32896, 65535]], dtype=np.int32), [0, 128, 255]),
        (np.array([[-100, 0, 100]], dtype=np.int32), [0, 128, 255]),
        (np.array([[0, 10_000_000, 20_000_000]], dtype=np.int32), [0, 128, 255]),
        (np.array([[0.0, 0.5, 1.0]], dtype=np.float32), [0, 128, 255]),
        (np.array([[0.0, 50.0, np.nan]], dtype=np.float32), [0, 255, 0]),
        (np.array([[7.0, 7.0, 7.0]], dtype=np.float32), [0, 0, 0]),
    ],
)
def test_deep_greyscale(values: np.ndarray, expected: list[int]) -> None:
    loaded = load_image(Image.fromarray(values))
    assert [loaded.getpixel((x, 0))[0] for x in range(3)] == expected


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_of_an_animation(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, BLUE)]
    data = encode(frames[0], kind, save_all=True, append_images=frames[1:])
    assert close(load_image(data).getpixel((4, 4)), RED)
    animation = Image.open(io.BytesIO(data))
    animation.seek(1)
    assert close(load_image(animation).getpixel((4, 4)), RED)


def test_the_callers_image_keeps_its_pixels() -> None:
    image = Image.new("RGBA", (4, 4), (1, 2, 3, 100))
    load_image(image).putpixel((0, 0), WHITE)
    assert (image.mode, image.getpixel((0, 0))) == ("RGBA", (1, 2, 3, 100))
    plain = Image.new("RGB", (4, 4), RED)
    load_image(plain).putpixel((0, 0), WHITE)
    assert plain.getpixel((0, 0)) == RED


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        crc = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


SVG = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"><rect/></svg>'


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "file is empty"),
        (b"hello, I am a text", "not a picture that can be read"),
        (b"%PDF-1.7\n%stuff", "not a picture that can be read"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"),
        (SVG, "SVG"),
        (b"\xef\xbb\xbf  <!-- drawn --> <SVG></SVG>", "SVG"),
        (encode(two_colours(), "PNG")[:60], "damaged or incomplete|not a picture"),
        (encode(two_colours(), "JPEG")[:-4], "damaged or incomplete"),
        (encode(two_colours(), "GIF")[:30], "damaged or incomplete|not a picture"),
        (png_header(8, 8), "damaged or incomplete"),
        (png_header(12_000, 8_000), "12000x8000|too many pixels"),
        (png_header(60_000, 60_000), "too many pixels"),
    ],
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_what_cannot_be_read_is_refused_in_a_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(ImageRefused, match=sentence) as caught:
        load_image(data)
    assert str(caught.value).endswith(".")


def test_a_bomb_names_the_limit() -> None:
    with pytest.raises(ImageRefused, match="89 million") as caught:
        load_image(png_header(60_000, 60_000))
    assert caught.value.limit == MAX_SOURCE_PIXELS


@pytest.mark.filterwarnings("ignore:::PIL")  # remarks on damaged files
def test_every_prefix_of_a_file_is_read_or_refused() -> None:
    """Whatever a broken upload looks like, nothing but ImageRefused comes out."""
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"):
        data = encode(two_colours(), kind)
        for length in range(0, len(data), 7):
            try:
                load_image(data[:length])
            except ImageRefused:
                continue


@pytest.mark.filterwarnings("ignore:::PIL")  # remarks on damaged files
def test_damaged_bytes_are_read_or_refused() -> None:
    random = np.random.default_rng(0)
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"):
        clean = np.frombuffer(encode(two_colours(), kind), dtype=np.uint8)
        for _ in range(60):
            broken = clean.copy()
            places = random.integers(0, len(broken), 4)
            broken[places] = random.integers(0, 256, 4)
            try:
                load_image(broken.tobytes())
            except ImageRefused:
                continue


@pytest.mark.parametrize("name", ["absent.png", "."])
def test_a_path_that_is_no_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ImageRefused, match=f"{tmp_path}.* cannot be read"):
        load_image(tmp_path / name)
