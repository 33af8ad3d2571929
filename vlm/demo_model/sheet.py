"""A picture being drawn, and what it is known to show once it is drawn.

In: a background and stamps pasted on it. Out: a `Scene`, the pixels with everything that they show.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from PIL import Image

from vlm.demo_model.objects import NamedObject
from vlm.demo_model.surfaces import PIXELS_PER_TOKEN, Pixels, cell_means, draw_background

_MIN_COVERAGE = 0.12  # of a cell, for the cell to show the item


@dataclass(frozen=True, slots=True)
class PrintedLetter:
    """A letter, in lower case, and the box around it in pixels."""

    letter: str
    left: float
    top: float
    right: float
    bottom: float


Kind = Literal["object", "shape", "word", "number", "bar", "letters"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in a picture.

    `name` is the object's or the shape's name, the word or the digit as printed in lower case, the
    letters that make no word, or "bar". `cells` are the image tokens that show it (at least one),
    row by row.
    """

    kind: Kind
    name: str
    cells: tuple[int, ...]
    center: tuple[float, float]  # x, y as shares of width and height
    color: str | None = None
    named: NamedObject | None = None
    height: float = 0.0  # of a bar, as a share of the picture
    letters: tuple[PrintedLetter, ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """One picture and what it shows."""

    pixels: Pixels  # (height, width, 3)
    items: tuple[Item, ...]
    cell_colors: tuple[str, ...]  # of the background, one a cell
    background: tuple[str, ...]  # one colour name, or two for a gradient between them

    @property
    def rows(self) -> int:
        """Image tokens from top to bottom."""
        return int(self.pixels.shape[0]) // PIXELS_PER_TOKEN

    @property
    def columns(self) -> int:
        """Image tokens from left to right."""
        return int(self.pixels.shape[1]) // PIXELS_PER_TOKEN

    def counts(self) -> Counter[str]:
        """How many items of each name there are."""
        return Counter(item.name for item in self.items)


@dataclass(frozen=True, slots=True)
class Place:
    left: float
    top: float
    width: float
    height: float


class Sheet:
    """A picture being drawn."""

    def __init__(self, background: tuple[str, ...], pixels: Pixels, cells: tuple[str, ...]) -> None:
        self.background = background
        self._cell_colors = cells
        self._canvas = Image.fromarray(pixels)
        self.width, self.height = self._canvas.size
        self._items: list[Item] = []

    @classmethod
    def blank(cls, rng: np.random.Generator, rows: int, columns: int) -> "Sheet":
        return cls(*draw_background(rng, rows, columns))

    def paste(
        self,
        stamp: Image.Image,
        place: Place,
        item: Item,
        letters: Sequence[tuple[str, float, float]] = (),
    ) -> None:
        """Put `stamp` into the middle of `place`; `letters` with their ends from its left."""
        left = round(place.left + (place.width - stamp.width) / 2)
        top = round(place.top + (place.height - stamp.height) / 2)
        self._canvas.paste(stamp, (left, top), stamp)
        mask = Image.new("L", (self.width, self.height))
        mask.paste(stamp.getchannel("A"), (left, top))
        coverage = cell_means(np.asarray(mask, np.float32) / np.float32(255))
        cells = np.flatnonzero(coverage >= min(_MIN_COVERAGE, float(coverage.max())))
        center = (
            (left + stamp.width / 2) / self.width,
            (top + stamp.height / 2) / self.height,
        )
        _, ink_top, _, ink_bottom = stamp.getchannel("A").getbbox() or (0, 0, *stamp.size)
        printed = tuple(
            PrintedLetter(letter, left + begin, top + ink_top, left + end, top + ink_bottom)
            for letter, begin, end in letters
        )
        found = replace(item, cells=tuple(map(int, cells)), center=center, letters=printed)
        self._items.append(found)

    def scene(self) -> Scene:
        return Scene(
            np.asarray(self._canvas), tuple(self._items), self._cell_colors, self.background
        )
