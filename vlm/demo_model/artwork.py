"""Fetch and decode the artwork the training pictures are drawn from.

In: the name of an artwork set and a cache folder. Out: one RGBA image per codepoint.
This module knows neither the objects' names nor how a picture is laid out.

Only the training commands call it; the running application needs no artwork.
"""

import io
import logging
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

logger = logging.getLogger(__name__)

Artwork = Mapping[int, Image.Image]

# The bitmap font holds its glyphs at this one size.
_FONT_PIXELS = 109
_FONT_CANVAS = (136, 128)
NOTO_FONT = Path("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")
# Set name -> package, and where an image lies in it, by codepoint.
NPM_PACKAGES = {
    "noto": ("emoji-datasource-google@16.0.0", "package/img/google/64/{}.png"),
    "fluent": ("@lobehub/fluent-emoji-3d@1.1.0", "package/assets/{}.webp"),
    "twemoji": ("emoji-datasource-twitter@16.0.0", "package/img/twitter/64/{}.png"),
}
_MAX_PIXELS = 136  # no picture shows more, and smaller images are quicker to turn and scale


def load_font_artwork(codepoints: Iterable[int], font_path: Path = NOTO_FONT) -> Artwork:
    """Draw every codepoint with the Noto Color Emoji font (Debian: fonts-noto-color-emoji)."""
    font = ImageFont.truetype(str(font_path), _FONT_PIXELS)
    artwork = {}
    for codepoint in codepoints:
        canvas = Image.new("RGBA", _FONT_CANVAS)
        ImageDraw.Draw(canvas).text((0, 0), chr(codepoint), font=font, embedded_color=True)
        artwork[codepoint] = _trim(canvas, codepoint)
    return artwork


def load_npm_artwork(set_name: str, codepoints: Iterable[int], cache: Path) -> Artwork:
    """Read images out of an npm package, packed into `cache` on the first call."""
    package, path_form = NPM_PACKAGES[set_name]
    archive_path = _pack_once(package, cache)
    wanted = {
        path_form.format(f"{codepoint:04x}{suffix}"): codepoint
        for codepoint in codepoints
        for suffix in ("", "-fe0f")
    }
    artwork = {}
    with tarfile.open(archive_path) as archive:
        for member in archive:
            codepoint = wanted.get(member.name)
            stream = archive.extractfile(member) if codepoint is not None else None
            if codepoint is not None and stream is not None:
                image = Image.open(io.BytesIO(stream.read())).convert("RGBA")
                artwork[codepoint] = _trim(image, codepoint)
    missing = sorted(set(wanted.values()) - artwork.keys())
    if missing:
        raise LookupError(f"{package} has no image for {[f'U+{c:04X}' for c in missing]}")
    return artwork


def _pack_once(package: str, cache: Path) -> Path:
    archive_path = cache / (package.strip("@").replace("/", "-").replace("@", "-") + ".tgz")
    if archive_path.exists():
        return archive_path
    cache.mkdir(parents=True, exist_ok=True)
    logger.info("fetching %s from the npm registry", package)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        subprocess.run(["npm", "pack", "--silent", package], cwd=scratch, check=True)
        (packed,) = Path(scratch).glob("*.tgz")
        packed.replace(archive_path)
    return archive_path


def _trim(image: Image.Image, codepoint: int) -> Image.Image:
    """Cut off the transparent border, so that size and position mean the same in every set."""
    box = image.getchannel("A").getbbox()
    if box is None:
        raise LookupError(f"the artwork has no glyph for U+{codepoint:04X}")
    trimmed = image.crop(box)
    trimmed.thumbnail((_MAX_PIXELS, _MAX_PIXELS))
    return trimmed
