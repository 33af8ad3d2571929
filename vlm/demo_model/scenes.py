"""Draw a picture of one object on a coloured background.

In: a random generator, the artwork, a picture size. Out: a `Scene`, the pixels with what
they show. The same generator state gives the same picture. Nothing here knows a sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from vlm.demo_model.artwork import Artwork
from vlm.demo_model.objects import NamedObject

PIXELS_PER_TOKEN = 28
"""One image token covers 28x28 pixels: a 2x2 block of 14-pixel patches."""

BACKGROUND_COLORS: dict[str, tuple[int, int, int]] = {
    "red": (214, 58, 52),
    "orange": (244, 150, 54),
    "yellow": (247, 222, 84),
    "green": (84, 172, 84),
    "blue": (72, 126, 222),
    "purple": (142, 84, 186),
    "pink": (245, 160, 196),
    "brown": (134, 92, 60),
    "gray": (140, 142, 146),
    "white": (246, 246, 244),
    "black": (24, 24, 28),
}
_SHADE = 14  # how far one background may stray from its colour, per channel
_MAX_ROTATION_DEGREES = 18.0


@dataclass(frozen=True, slots=True)
class Scene:
    """One picture and what it shows."""

    pixels: npt.NDArray[np.uint8]  # (height, width, 3)
    shown: NamedObject
    background: tuple[str, ...]  # one colour name, or two for a gradient between them


def draw_scene(
    rng: np.random.Generator,
    artworks: Sequence[Artwork],
    shown: NamedObject,
    width: int,
    height: int,
) -> Scene:
    """Draw `shown` once, at a random place, size and tilt."""
    background, pixels = _draw_background(rng, width, height)
    glyph = _vary(rng, artworks[int(rng.integers(len(artworks)))][shown.codepoint])
    extent = min(width, height) * rng.uniform(0.5, 0.95)
    scale = extent / max(glyph.size)
    glyph = glyph.resize(
        (max(1, round(glyph.width * scale)), max(1, round(glyph.height * scale))),
        Image.Resampling.BICUBIC,
        reducing_gap=2.0,
    )
    canvas = Image.fromarray(pixels)
    left = int(rng.integers(min(0, width - glyph.width), max(0, width - glyph.width) + 1))
    top = int(rng.integers(min(0, height - glyph.height), max(0, height - glyph.height) + 1))
    canvas.paste(glyph, (left, top), glyph)
    return Scene(np.asarray(canvas), shown, background)


def _vary(rng: np.random.Generator, glyph: Image.Image) -> Image.Image:
    if rng.random() < 0.5:
        glyph = glyph.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    angle = rng.uniform(-_MAX_ROTATION_DEGREES, _MAX_ROTATION_DEGREES)
    return glyph.rotate(angle, Image.Resampling.BILINEAR, expand=True)


def _draw_background(
    rng: np.random.Generator, width: int, height: int
) -> tuple[tuple[str, ...], npt.NDArray[np.uint8]]:
    names = list(BACKGROUND_COLORS)
    num_colors = 1 if rng.random() < 0.65 else 2
    chosen = tuple(names[i] for i in rng.choice(len(names), num_colors, replace=False))
    ends = [
        np.asarray(BACKGROUND_COLORS[name], np.float32)
        + rng.uniform(-_SHADE, _SHADE, 3).astype(np.float32)
        for name in (chosen[0], chosen[-1])
    ]
    ramp = _ramp(rng.uniform(0, 2 * np.pi), width, height)[..., None]
    blend = ends[0] + ramp * (ends[1] - ends[0])
    return chosen, np.clip(blend, 0, 255).astype(np.uint8)


def _ramp(angle: float, width: int, height: int) -> npt.NDArray[np.float32]:
    """A linear ramp from 0 to 1 across the picture in the direction of `angle`."""
    x = np.linspace(-1, 1, width, dtype=np.float32) * np.float32(np.cos(angle))
    y = np.linspace(-1, 1, height, dtype=np.float32) * np.float32(np.sin(angle))
    ramp: npt.NDArray[np.float32] = y[:, None] + x[None, :]
    ramp -= ramp.min()
    ramp /= ramp.max()
    return ramp
