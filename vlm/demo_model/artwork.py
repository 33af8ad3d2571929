"""Fetch and decode the artwork the training pictures are drawn from.

In: the name of an artwork set and a cache folder. Out: RGBA images by codepoint. This module
knows neither the objects' names nor how a picture is laid out.

Only the training commands call it; the running application needs no artwork.
"""

import io
import json
import logging
import re
import subprocess
import tarfile
import tempfile
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

logger = logging.getLogger(__name__)

Artwork = Mapping[int, Image.Image]
"""One set: its drawing of every codepoint that it has."""

# The bitmap font holds its glyphs at this one size.
_FONT_PIXELS = 109
_FONT_CANVAS = (136, 128)
NOTO_FONT = Path("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")
_MAX_PIXELS = 136  # no picture shows more, and smaller images are quicker to turn and scale


@dataclass(frozen=True, slots=True)
class NpmPackage:
    """A pinned package, and where its image of a codepoint lies."""

    name: str
    path_form: str
    upper_case: bool = False


NPM_PACKAGES = {
    "noto-blob": NpmPackage("emoji-datasource-google@3.0.0", "package/img/google/64/{}.png"),
    "fluent-3d": NpmPackage("@lobehub/fluent-emoji-3d@1.1.0", "package/assets/{}.webp"),
    "fluent-flat": NpmPackage("@lobehub/fluent-emoji-flat@1.1.0", "package/assets/{}.svg"),
    "fluent-modern": NpmPackage("@lobehub/fluent-emoji-modern@1.0.0", "package/assets/{}.svg"),
    "twemoji": NpmPackage("emoji-datasource-twitter@16.0.0", "package/img/twitter/64/{}.png"),
    "openmoji": NpmPackage("openmoji@17.0.0", "package/color/svg/{}.svg", upper_case=True),
}
ICONIFY_PACKAGES = {
    "emojione": "@iconify-json/emojione@1.2.3",
    "fxemoji": "@iconify-json/fxemoji@1.2.2",
    "streamline": "@iconify-json/streamline-emojis@1.2.4",
}
"""As Iconify packs sets: one file with all drawings, named by words and not by codepoints."""
TRAINING_SETS = (
    "noto",
    "noto-blob",
    "fluent-3d",
    "fluent-flat",
    "fluent-modern",
    *ICONIFY_PACKAGES,
)
HELD_OUT_SETS = ("twemoji", "openmoji")


def load_artwork(set_name: str, codepoints: Iterable[int], cache: Path) -> Artwork:
    """Every drawing that the set has among `codepoints`."""
    if set_name == "noto":
        return _load_font(codepoints)
    if set_name in ICONIFY_PACKAGES:
        return _load_iconify(ICONIFY_PACKAGES[set_name], codepoints, cache)
    return _load_package(NPM_PACKAGES[set_name], codepoints, cache)


def _load_font(codepoints: Iterable[int]) -> Artwork:
    """Draw with the Noto Color Emoji font (Debian: fonts-noto-color-emoji)."""
    font = ImageFont.truetype(str(NOTO_FONT), _FONT_PIXELS)
    artwork = {}
    for codepoint in codepoints:
        canvas = Image.new("RGBA", _FONT_CANVAS)
        ImageDraw.Draw(canvas).text((0, 0), chr(codepoint), font=font, embedded_color=True)
        artwork[codepoint] = _trim(canvas)
    return artwork


def _load_package(package: NpmPackage, codepoints: Iterable[int], cache: Path) -> Artwork:
    """Read images out of an npm package, packed into `cache` on the first call."""
    wanted = {}
    for codepoint in codepoints:
        for suffix in ("", "-fe0f"):
            name = f"{codepoint:04x}{suffix}"
            path = package.path_form.format(name.upper() if package.upper_case else name)
            wanted[path] = codepoint
    artwork = {}
    with tarfile.open(_pack_once(package.name, cache)) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.name in wanted else None
            if stream is not None:
                artwork[wanted[member.name]] = _trim(_decode(member.name, stream.read()))
    return artwork


def _load_iconify(package: str, codepoints: Iterable[int], cache: Path) -> Artwork:
    """Those codepoints whose Unicode name is the name of an icon."""
    with tarfile.open(_pack_once(package, cache)) as archive:
        stream = archive.extractfile("package/icons.json")
        assert stream is not None
        content = json.load(stream)
    icons = {_plain(name): icon for name, icon in reversed(content["icons"].items())}
    named = {codepoint: _plain(unicodedata.name(chr(codepoint))) for codepoint in codepoints}
    return {
        codepoint: _trim(_decode("icon.svg", _svg({**content, **icons[name]})))
        for codepoint, name in named.items()
        if name in icons
    }


def _svg(icon: Mapping[str, Any]) -> bytes:
    """An icon has a size of its own where it is not the set's."""
    width, height = icon.get("width", icon["height"]), icon["height"]
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
    return f"{opening}{icon['body']}</svg>".encode()


def _plain(name: str) -> str:
    """ "birthday-cake-2" and "BIRTHDAY CAKE" -> "birthdaycake"."""
    return re.sub(r"[^a-z]", "", name.lower())


def _decode(name: str, data: bytes) -> Image.Image:
    if name.endswith(".svg"):
        # Imported here: only the training commands need it (see docs/demo-model.md).
        import resvg_py

        data = bytes(resvg_py.svg_to_bytes(svg_string=data.decode("utf-8"), width=_MAX_PIXELS))
    return Image.open(io.BytesIO(data)).convert("RGBA")


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


def _trim(image: Image.Image) -> Image.Image:
    """Cut off the transparent border, so that size and position mean the same in every set."""
    trimmed = image.crop(image.getchannel("A").getbbox())
    trimmed.thumbnail((_MAX_PIXELS, _MAX_PIXELS))
    return trimmed
