"""The picture world: draw a scene, and say what is where.

In: a random generator, artwork, fonts, a size. Out: a `Scene`, the pixels with everything that
they show. The same generator state gives the same picture. Nothing here knows a sentence.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFont

from vlm.demo_model.objects import OBJECTS, NamedObject
from vlm.demo_model.surfaces import (
    COLORS,
    PIXELS_PER_TOKEN,
    Pixels,
    cell_means,
    choose,
    contrasting,
    draw_background,
    shade,
)
from vlm.demo_model.words import WORDS

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
SHAPES = ("circle", "square", "triangle", "rectangle", "diamond", "cross", "ring")
_MAX_ROTATION_DEGREES = 18.0
_REPAINT_SHARE = 0.3
_REPAINT_RANGE = (0.5, 1.5)
_LOWEST_LINE = 18  # pixels, as low as a word of eight letters across 112 pixels
_MOST_LETTERS = 12
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
Drawings = Mapping[str, Sequence[Image.Image]]
"""Of one artwork set: every drawing of an object, by the object's name."""


@dataclass(frozen=True, slots=True)
class Material:
    """What pictures are drawn from."""

    artworks: Sequence[Drawings]
    fonts: Sequence[str]  # paths


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


SceneMaker = Callable[[np.random.Generator, Material, int, int], Scene]


def draw_these(
    rng: np.random.Generator,
    material: Material,
    shown: Sequence[NamedObject],
    rows: int,
    columns: int,
) -> Scene:
    """One to six objects at random sizes and tilts; a single one at a random place."""
    sheet = _Sheet.blank(rng, rows, columns)
    _paste_objects(rng, material, sheet, shown)
    return sheet.scene()


def draw_objects(rng: np.random.Generator, material: Material, rows: int, columns: int) -> Scene:
    """Two to six objects, as many as there is room for, some of them alike."""
    most = min(6, max(2, rows * columns // 4))
    number = int(rng.integers(2, most + 1))
    num_kinds = int(rng.integers(1, min(number, 3) + 1))
    kinds = [OBJECTS[i] for i in rng.choice(len(OBJECTS), num_kinds, replace=False)]
    shown = kinds + [kinds[int(i)] for i in rng.integers(num_kinds, size=number - num_kinds)]
    return draw_these(rng, material, [shown[i] for i in rng.permutation(number)], rows, columns)


def draw_shapes(rng: np.random.Generator, _: Material, rows: int, columns: int) -> Scene:
    """One to six plain coloured shapes."""
    sheet = _Sheet.blank(rng, rows, columns)
    colors = [name for name in COLORS if name not in sheet.background]
    most = min(6, max(1, rows * columns // 3))
    number = int(rng.integers(1, most + 1))
    num_kinds = int(rng.integers(1, min(number, 3) + 1))
    kinds = [(SHAPES[rng.integers(len(SHAPES))], choose(rng, colors)) for _ in range(num_kinds)]
    for place in _places(rng, number, sheet):
        shape, color = kinds[int(rng.integers(num_kinds))]
        side = min(place.width, place.height) * rng.uniform(0.65, 0.95)
        stamp = _shape_stamp(rng, shape, shade(rng, color), max(8, round(side)))
        sheet.paste(stamp, place, Item("shape", shape, (), (0, 0), color))
    return sheet.scene()


def draw_word(rng: np.random.Generator, material: Material, rows: int, columns: int) -> Scene:
    """One printed word."""
    return write_word(rng, material, WORDS[rng.integers(len(WORDS))], rows, columns)


def write_word(
    rng: np.random.Generator, material: Material, word: str, rows: int, columns: int
) -> Scene:
    """`word`, in lower case, capitalised or in capitals."""
    sheet = _Sheet.blank(rng, rows, columns)
    _write(rng, material, sheet, [(_in_some_case(rng, word), _word_item(word))])
    return sheet.scene()


def _in_some_case(rng: np.random.Generator, word: str) -> str:
    return (word, word.capitalize(), word.upper())[rng.integers(3)]


def _word_item(word: str) -> Item:
    return Item("word", word, (), (0, 0))


def draw_number(rng: np.random.Generator, material: Material, rows: int, columns: int) -> Scene:
    """A number from 0 to 99: every digit an item of its own."""
    digits = str(rng.integers(100)) if rng.random() < 0.7 else str(rng.integers(10))
    sheet = _Sheet.blank(rng, rows, columns)
    _write(rng, material, sheet, [(d, Item("number", d, (), (0, 0))) for d in digits])
    return sheet.scene()


def draw_letters(rng: np.random.Generator, material: Material, rows: int, columns: int) -> Scene:
    """A sheet of random letters and digits, one line or several under each other."""
    sheet = _Sheet.blank(rng, rows, columns)
    for band in _bands(rng, sheet, max(1, int(sheet.height / _LOWEST_LINE))):
        fitting = int(sheet.width / (0.6 * band.height))
        number = int(rng.integers(1, min(max(1, fitting), _MOST_LETTERS) + 1))
        line = "".join(LETTERS[int(i)] for i in rng.integers(len(LETTERS), size=number))
        printed = line.upper() if rng.random() < 0.5 else line
        _write(rng, material, sheet, [(printed, Item("letters", line, (), (0, 0)))], band)
    return sheet.scene()


def draw_lines(rng: np.random.Generator, material: Material, rows: int, columns: int) -> Scene:
    """Several words, each on a line of its own that is at least an image token high."""
    sheet = _Sheet.blank(rng, rows, columns)
    for band in _bands(rng, sheet, rows):
        word = WORDS[rng.integers(len(WORDS))]
        _write(rng, material, sheet, [(_in_some_case(rng, word), _word_item(word))], band)
    return sheet.scene()


def draw_chart(rng: np.random.Generator, _: Material, rows: int, columns: int) -> Scene:
    """Two to five upright bars of different colours and clearly different heights."""
    sheet = _Sheet.blank(rng, rows, columns)
    colors = [name for name in COLORS if name not in sheet.background]
    number = int(rng.integers(2, min(5, columns) + 1))
    chosen = [colors[i] for i in rng.choice(len(colors), number, replace=False)]
    levels = rng.choice(np.linspace(0.2, 0.92, 7), number, replace=False)
    slot = sheet.width / number
    for index, (color, level) in enumerate(zip(chosen, levels, strict=True)):
        bar_width = max(4, round(slot * rng.uniform(0.6, 0.8)))
        bar_height = max(4, round(sheet.height * level))
        stamp = Image.new("RGBA", (bar_width, bar_height), (*shade(rng, color), 255))
        left = slot * index + (slot - bar_width) / 2
        place = _Place(left, sheet.height - bar_height, bar_width, bar_height)
        item = Item("bar", "bar", (), (0, 0), color, height=float(level))
        sheet.paste(stamp, place, item)
    return sheet.scene()


def drawings_by_name(artwork: Mapping[int, Image.Image]) -> Drawings:
    """Sort one set's images by object; objects that the set lacks are left out."""
    found = {
        shown.name: [artwork[c] for c in shown.codepoints if c in artwork] for shown in OBJECTS
    }
    return {name: images for name, images in found.items() if images}


@dataclass(frozen=True, slots=True)
class _Place:
    left: float
    top: float
    width: float
    height: float


class _Sheet:
    """A picture being drawn."""

    def __init__(self, background: tuple[str, ...], pixels: Pixels, cells: tuple[str, ...]) -> None:
        self.background = background
        self._cell_colors = cells
        self._canvas = Image.fromarray(pixels)
        self.width, self.height = self._canvas.size
        self._items: list[Item] = []

    @classmethod
    def blank(cls, rng: np.random.Generator, rows: int, columns: int) -> "_Sheet":
        return cls(*draw_background(rng, rows, columns))

    def paste(
        self,
        stamp: Image.Image,
        place: _Place,
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


def _paste_objects(
    rng: np.random.Generator, material: Material, sheet: _Sheet, shown: Sequence[NamedObject]
) -> None:
    low = 0.5 if len(shown) == 1 else 0.7
    for place, named in zip(_places(rng, len(shown), sheet), shown, strict=True):
        extent = min(place.width, place.height) * rng.uniform(low, 0.97)
        stamp = _vary(rng, _choose_drawing(rng, material, named))
        scale = extent / max(stamp.size)
        stamp = stamp.resize(
            (max(1, round(stamp.width * scale)), max(1, round(stamp.height * scale))),
            Image.Resampling.BICUBIC,
            reducing_gap=2.0,
        )
        if len(shown) == 1:  # anywhere, whole
            left = rng.uniform(0, sheet.width - stamp.width)
            top = rng.uniform(0, sheet.height - stamp.height)
            place = _Place(left, top, stamp.width, stamp.height)
        sheet.paste(stamp, place, Item("object", named.name, (), (0, 0), named=named))


def _choose_drawing(
    rng: np.random.Generator, material: Material, named: NamedObject
) -> Image.Image:
    having = [drawings for drawings in material.artworks if named.name in drawings]
    drawings = having[int(rng.integers(len(having)))][named.name]
    return drawings[int(rng.integers(len(drawings)))]


def _vary(rng: np.random.Generator, glyph: Image.Image) -> Image.Image:
    """Turned, mirrored, and in other colours, as another artist might have chosen them."""
    for enhance in (ImageEnhance.Color, ImageEnhance.Brightness, ImageEnhance.Contrast):
        if rng.random() < _REPAINT_SHARE:
            glyph = enhance(glyph).enhance(rng.uniform(*_REPAINT_RANGE))
    if rng.random() < 0.5:
        glyph = glyph.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    angle = rng.uniform(-_MAX_ROTATION_DEGREES, _MAX_ROTATION_DEGREES)
    return glyph.rotate(angle, Image.Resampling.BILINEAR, expand=True)


def _places(rng: np.random.Generator, number: int, sheet: _Sheet) -> list[_Place]:
    """`number` places that do not overlap, in random order, jittered."""
    across = sheet.width >= sheet.height
    long_side = {1: 1, 2: 2, 3: 2 if rng.random() < 0.6 else 3, 4: 2, 5: 3, 6: 3}[number]
    short_side = -(-number // long_side)
    columns, rows = (long_side, short_side) if across else (short_side, long_side)
    width, height = sheet.width / columns, sheet.height / rows
    chosen = rng.choice(rows * columns, number, replace=False)
    share = 0.9
    places = []
    for cell in chosen:
        row, column = divmod(int(cell), columns)
        left = (column + rng.uniform(0, 1 - share)) * width
        top = (row + rng.uniform(0, 1 - share)) * height
        places.append(_Place(left, top, width * share, height * share))
    return places


def _shape_stamp(
    rng: np.random.Generator, shape: str, color: tuple[int, int, int], side: int
) -> Image.Image:
    scale = 4  # drawn large and reduced, for smooth edges
    big = side * scale
    mask = Image.new("L", (big, big))
    pen = ImageDraw.Draw(mask)
    end = big - 1
    match shape:
        case "circle":
            pen.ellipse((0, 0, end, end), fill=255)
        case "square":
            pen.rectangle((big * 0.06, big * 0.06, end * 0.94, end * 0.94), fill=255)
        case "rectangle":
            pen.rectangle((0, big * 0.25, end, end * 0.75), fill=255)
        case "triangle":
            pen.polygon(((end / 2, 0), (0, end), (end, end)), fill=255)
        case "diamond":
            pen.polygon(((end / 2, 0), (end, end / 2), (end / 2, end), (0, end / 2)), fill=255)
        case "cross":
            pen.rectangle((big * 0.35, 0, end * 0.65, end), fill=255)
            pen.rectangle((0, big * 0.35, end, end * 0.65), fill=255)
        case _:  # ring
            pen.ellipse((0, 0, end, end), fill=255)
            pen.ellipse((big * 0.25, big * 0.25, end * 0.75, end * 0.75), fill=0)
    mask = mask.rotate(rng.uniform(-8, 8), Image.Resampling.BILINEAR, expand=True)
    mask = mask.resize((max(1, mask.width // scale), max(1, mask.height // scale)))
    stamp = Image.new("RGBA", mask.size, (*color, 255))
    stamp.putalpha(mask)
    return stamp


def _bands(rng: np.random.Generator, sheet: _Sheet, most: int) -> list[_Place]:
    """The sheet cut into lines of one height, at most so many."""
    number = int(rng.integers(1, most + 1))
    height = sheet.height / number
    return [_Place(0.0, height * at, sheet.width, height) for at in range(number)]


def _write(
    rng: np.random.Generator,
    material: Material,
    sheet: _Sheet,
    parts: list[tuple[str, Item]],
    band: _Place | None = None,
) -> None:
    """Print the parts one behind the other on one line, in one font and colour, in a part of the
    sheet or anywhere.
    """
    band = band or _Place(0.0, 0.0, sheet.width, sheet.height)
    path = choose(rng, material.fonts)
    line = "".join(printed for printed, _ in parts)
    widest = band.width * rng.uniform(0.7, 0.96)
    tallest = band.height * rng.uniform(0.4 if band.height == sheet.height else 0.7, 0.95)
    reference = _font(path, 64)
    _, _, right, bottom = reference.getbbox(line)
    size = max(8, int(64 * min(widest / right, tallest / bottom)))
    font = _font(path, size)
    ink = contrasting(rng, sheet.background)
    lengths = [font.getlength(printed) for printed, _ in parts]
    left = band.left + rng.uniform(0, max(0.0, band.width - sum(lengths)))
    height = font.getbbox(line)[3]
    top = band.top + rng.uniform(0, max(0.0, band.height - height))
    for (printed, item), length in zip(parts, lengths, strict=True):
        stamp = _text_stamp(printed, font, ink, max(1, round(length)), max(1, round(height)))
        place = _Place(left, top, stamp.width, stamp.height)
        ends = [font.getlength(printed[:end]) for end in range(len(printed) + 1)]
        letters = [
            (letter, begin, end)
            for letter, (begin, end) in zip(printed.lower(), pairwise(ends), strict=True)
        ]
        sheet.paste(stamp, place, item, letters)
        left += length


def _text_stamp(
    printed: str, font: ImageFont.FreeTypeFont, ink: tuple[int, int, int], width: int, height: int
) -> Image.Image:
    mask = Image.new("L", (width, height))
    ImageDraw.Draw(mask).text((0, 0), printed, font=font, fill=255)
    stamp = Image.new("RGBA", mask.size, (*ink, 255))
    stamp.putalpha(mask)
    return stamp


@cache
def _font(path: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(path, size)
