"""Any picture a person may hand in becomes 8-bit RGB, as they see it.

In: a path, the bytes of a file or a PIL image. Out: an RGB image with the EXIF orientation
applied, transparency laid over white, 16 bits scaled to 8 and only the first frame of an animation.
Knows nothing of patches or token limits. Whatever cannot be read is refused in a sentence.
"""

from __future__ import annotations

import io
import logging
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from visual_encoder.errors import ImageRefused

logger = logging.getLogger(__name__)

ImageSource = Path | str | bytes | Image.Image

MAX_SOURCE_PIXELS = 89_478_485  # where Pillow suspects a decompression bomb: 256 MiB of RGB

# Raster formats people send. A closed list, because Pillow would otherwise start Ghostscript for
# EPS and try dozens of rare decoders on hostile bytes.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "ICO", "AVIF")

DECODE_ERRORS = (
    OSError,
    SyntaxError,  # Pillow's word for a broken PNG
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    struct.error,
    zlib.error,
)

# EXIF orientation -> what turns the stored pixels upright (EXIF 2.3, tag 0x0112).
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
SWAPS_SIDES = frozenset({5, 6, 7, 8})


def load_image(source: ImageSource) -> Image.Image:
    """Open and decode a picture. Raises `ImageRefused`; never changes the source's pixels."""
    return decode_image(open_image(source))


def open_image(source: ImageSource) -> Image.Image:
    """Read a picture's header only, so that its size can be judged before decoding costs time.

    Raises `ImageRefused` for anything that is no supported picture or has too many pixels.
    """
    image = source if isinstance(source, Image.Image) else _open_file(source)
    if min(image.size) < 1:
        raise ImageRefused("The picture has no pixels.")
    if image.width * image.height > MAX_SOURCE_PIXELS:
        raise _too_many_pixels(f"{image.width}x{image.height} pixels", image.width * image.height)
    return image


def upright_size(image: Image.Image) -> tuple[int, int]:
    """(height, width) once upright, as far as the header tells.

    A PNG may carry EXIF data behind its pixels, which only `decode_image` sees.
    """
    width, height = image.size
    untold = image.format == "PNG" and "exif" not in image.info
    swapped = not untold and _orientation(image) in SWAPS_SIDES
    return (width, height) if swapped else (height, width)


def decode_image(image: Image.Image) -> Image.Image:
    """Decode an opened picture into upright 8-bit RGB. Raises `ImageRefused` for broken data."""
    with _decoding("The picture's data is damaged or incomplete"):
        if getattr(image, "is_animated", False):
            image.seek(0)
        image.load()
        rgb = _to_rgb(image)
        transpose = UPRIGHT.get(_orientation(image))
        return rgb if transpose is None else rgb.transpose(transpose)


def _open_file(source: Path | str | bytes) -> Image.Image:
    data = source if isinstance(source, bytes) else _read_file(Path(source))
    if not data:
        raise ImageRefused("The picture's file is empty.")
    if _looks_like_svg(data):
        raise ImageRefused(
            "SVG drawings are not supported, because they have no pixels: save it as PNG first."
        )
    Image.init()  # a format whose decoder this Pillow was built without is not in its table
    formats = [name for name in FORMATS if name in Image.OPEN]
    with _decoding(f"The file is not a picture that can be read ({', '.join(formats)})"):
        return Image.open(io.BytesIO(data), formats=formats)


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ImageRefused(f"The picture {path} cannot be read: {error.strerror}.") from error


def _looks_like_svg(data: bytes) -> bool:
    head = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return head.startswith(b"<") and b"<svg" in head


@contextmanager
def _decoding(what: str) -> Iterator[None]:
    """Turn whatever Pillow raises on bad input into `ImageRefused`."""
    try:
        yield
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_many_pixels("too many pixels", None) from error
    except UnidentifiedImageError as error:
        raise ImageRefused(f"{what}.") from error
    except DECODE_ERRORS as error:
        raise ImageRefused(f"{what}: {error}.") from error
    except MemoryError as error:
        raise ImageRefused("The picture needs more memory than there is.") from error


def _too_many_pixels(what: str, actual: int | None) -> ImageRefused:
    return ImageRefused(
        f"The picture has {what}; at most {MAX_SOURCE_PIXELS / 1e6:.0f} million are accepted: "
        "scale it down first.",
        actual=actual,
        limit=MAX_SOURCE_PIXELS,
    )


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 (upright) where there is none or it cannot be read."""
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except DECODE_ERRORS as error:
        logger.warning("Ignoring unreadable EXIF data of a picture: %s", error)
        return 1


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        return _eight_bits(image).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scale deep greyscale to 8 bits; Pillow's own conversion would clip it to white.

    Integers are taken as 16-bit and floats as 0 to 1, as Pillow's readers deliver them. Where the
    values leave that range, the darkest becomes black and the brightest white.
    """
    values = np.nan_to_num(np.asarray(image).astype(np.float64))
    low, high = 0.0, 1.0 if image.mode == "F" else 65535.0
    if values.min() < low or values.max() > high:
        low, high = values.min(), values.max()
    scaled = (values - low) * 255.0 / max(high - low, 1e-12)
    return Image.fromarray(np.rint(scaled).astype(np.uint8))
