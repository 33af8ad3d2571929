"""Colours, and the grounds that scenes are drawn on: plain, graded, textured.

In: a random generator and a size in image tokens. Out: pixels, and the name of the colour under
every image token.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

PIXELS_PER_TOKEN = 28
"""One image token covers 28x28 pixels: a 2x2 block of 14-pixel patches."""

COLORS: dict[str, tuple[int, int, int]] = {
    "red": (214, 52, 46),
    "orange": (246, 146, 40),
    "yellow": (250, 222, 70),
    "green": (66, 164, 74),
    "blue": (56, 110, 218),
    "purple": (138, 72, 186),
    "pink": (247, 156, 196),
    "brown": (130, 86, 52),
    "gray": (140, 142, 146),
    "white": (246, 246, 244),
    "black": (24, 24, 28),
}
_SHADE = 14  # how far one surface may stray from its colour, per channel
Pixels = npt.NDArray[np.uint8]


def contrasting(rng: np.random.Generator, background: tuple[str, ...]) -> tuple[int, int, int]:
    """A colour that can be read on the background, by brightness."""
    brightness = [float(np.mean(COLORS[name])) for name in background]
    readable = [
        name
        for name, color in COLORS.items()
        if all(abs(float(np.mean(color)) - ground) > 70 for ground in brightness)
    ]
    return shade(rng, choose(rng, readable) if readable else "black")


def shade(rng: np.random.Generator, color: str) -> tuple[int, int, int]:
    red, green, blue = (
        int(np.clip(channel + rng.uniform(-_SHADE, _SHADE), 0, 255)) for channel in COLORS[color]
    )
    return red, green, blue


def choose(rng: np.random.Generator, names: Sequence[str]) -> str:
    return names[int(rng.integers(len(names)))]


def draw_background(
    rng: np.random.Generator, rows: int, columns: int
) -> tuple[tuple[str, ...], Pixels, tuple[str, ...]]:
    """Plain, a gradient, or textured; its colour names, pixels, and colour by cell."""
    height, width = rows * PIXELS_PER_TOKEN, columns * PIXELS_PER_TOKEN
    names = list(COLORS)
    form = rng.choice(3, p=(0.6, 0.2, 0.2))
    number = 2 if form == 1 else 1
    chosen = tuple(names[i] for i in rng.choice(len(names), number, replace=False))
    ends = [np.asarray(shade(rng, name), np.float32) for name in (chosen[0], chosen[-1])]
    ramp = _ramp(rng.uniform(0, 2 * np.pi), width, height)
    blend = ends[0] + ramp[..., None] * (ends[1] - ends[0])
    if form == 2:
        blend = blend + _texture(rng, width, height)[..., None]
    nearest = cell_means(ramp) >= 0.5
    cells = tuple(chosen[-1] if second else chosen[0] for second in nearest)
    in_reading_order = tuple(dict.fromkeys(cells))
    return in_reading_order, np.clip(blend, 0, 255).astype(np.uint8), cells


def _texture(rng: np.random.Generator, width: int, height: int) -> npt.NDArray[np.float32]:
    """Stripes or grain, faint enough to leave the colour its name."""
    if rng.random() < 0.5:
        wave = _ramp(rng.uniform(0, np.pi), width, height) * rng.uniform(6, 24)
        return np.asarray(14 * np.sign(np.sin(2 * np.pi * wave)), np.float32)
    return rng.normal(0, 9, (height, width)).astype(np.float32)


def _ramp(angle: float, width: int, height: int) -> npt.NDArray[np.float32]:
    """A linear ramp from 0 to 1 across the picture in the direction of `angle`."""
    x = np.linspace(-1, 1, width, dtype=np.float32) * np.float32(np.cos(angle))
    y = np.linspace(-1, 1, height, dtype=np.float32) * np.float32(np.sin(angle))
    ramp: npt.NDArray[np.float32] = y[:, None] + x[None, :]
    ramp -= ramp.min()
    ramp /= ramp.max()
    return ramp


def cell_means(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    rows, columns = (side // PIXELS_PER_TOKEN for side in values.shape)
    tiles = values.reshape(rows, PIXELS_PER_TOKEN, columns, PIXELS_PER_TOKEN)
    means: npt.NDArray[np.float32] = tiles.mean((1, 3)).reshape(-1)
    return means
