"""Gather artwork and fonts for training and for evaluation, and keep the two apart.

In: a cache folder. Out: `Material`. Only the training commands need any of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from vlm.demo_model.artwork import HELD_OUT_SETS, TRAINING_SETS, load_artwork
from vlm.demo_model.objects import OBJECTS

_FONTS = Path("/usr/share/fonts/truetype")
TRAINING_FONTS = tuple(
    str(_FONTS / name)
    for name in (
        "dejavu/DejaVuSans.ttf",
        "dejavu/DejaVuSans-Bold.ttf",
        "dejavu/DejaVuSansMono.ttf",
        "dejavu/DejaVuSerif.ttf",
        "dejavu/DejaVuSerif-Bold.ttf",
        "dejavu/DejaVuSansCondensed-Bold.ttf",
        "liberation/LiberationSans-Regular.ttf",
        "liberation/LiberationSans-Bold.ttf",
        "liberation/LiberationSerif-Regular.ttf",
        "liberation/LiberationSerif-Bold.ttf",
        "liberation/LiberationMono-Bold.ttf",
        "liberation/LiberationSansNarrow-Bold.ttf",
    )
)
HELD_OUT_FONTS = tuple(
    str(_FONTS / name)
    for name in (
        "dejavu/DejaVuSansCondensed.ttf",
        "dejavu/DejaVuSerifCondensed-Italic.ttf",
        "liberation/LiberationSerif-BoldItalic.ttf",
        "liberation/LiberationMono-Regular.ttf",
    )
)
Drawings = Mapping[str, Sequence[Image.Image]]
"""Of one artwork set: every drawing of an object, by the object's name."""


@dataclass(frozen=True, slots=True)
class Material:
    """What pictures are drawn from."""

    artworks: Sequence[Drawings]
    fonts: Sequence[str]  # paths


def training_material(cache: Path) -> Material:
    """What the model learns from."""
    return _material(TRAINING_SETS, TRAINING_FONTS, cache)


def held_out_material(set_name: str, cache: Path) -> Material:
    """Artwork of `set_name`, one of `HELD_OUT_SETS`, and fonts never trained on."""
    if set_name not in HELD_OUT_SETS:
        raise ValueError(f"{set_name} is not kept out of training: {', '.join(HELD_OUT_SETS)} are")
    return _material((set_name,), HELD_OUT_FONTS, cache)


def _material(set_names: tuple[str, ...], fonts: tuple[str, ...], cache: Path) -> Material:
    codepoints = [codepoint for shown in OBJECTS for codepoint in shown.codepoints]
    artworks = [drawings_by_name(load_artwork(name, codepoints, cache)) for name in set_names]
    return Material(artworks, fonts)


def drawings_by_name(artwork: Mapping[int, Image.Image]) -> Drawings:
    """Sort one set's images by object; objects that the set lacks are left out."""
    found = {
        shown.name: [artwork[c] for c in shown.codepoints if c in artwork] for shown in OBJECTS
    }
    return {name: images for name, images in found.items() if images}
