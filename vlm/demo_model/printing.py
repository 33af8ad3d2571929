"""Print words, numbers and letters into pictures, and say where every letter stands.

In: a random generator, fonts, a size. Out: a `Scene`.
"""

from functools import cache
from itertools import pairwise

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from vlm.demo_model.material import Material
from vlm.demo_model.sheet import Item, Place, Scene, Sheet
from vlm.demo_model.surfaces import choose, contrasting
from vlm.demo_model.words import WORDS

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_LOWEST_LINE = 18  # pixels, as low as a word of eight letters across 112 pixels
_MOST_LETTERS = 12


def draw_word(rng: np.random.Generator, material: Material, rows: int, columns: int) -> Scene:
    """One printed word."""
    return write_word(rng, material, WORDS[rng.integers(len(WORDS))], rows, columns)


def write_word(
    rng: np.random.Generator, material: Material, word: str, rows: int, columns: int
) -> Scene:
    """`word`, in lower case, capitalised or in capitals."""
    sheet = Sheet.blank(rng, rows, columns)
    _write(rng, material, sheet, [(_in_some_case(rng, word), _word_item(word))])
    return sheet.scene()


def draw_number(rng: np.random.Generator, material: Material, rows: int, columns: int) -> Scene:
    """A number from 0 to 99: every digit an item of its own."""
    digits = str(rng.integers(100)) if rng.random() < 0.7 else str(rng.integers(10))
    sheet = Sheet.blank(rng, rows, columns)
    _write(rng, material, sheet, [(d, Item("number", d, (), (0, 0))) for d in digits])
    return sheet.scene()


def draw_letters(rng: np.random.Generator, material: Material, rows: int, columns: int) -> Scene:
    """A sheet of random letters and digits, one line or several under each other."""
    sheet = Sheet.blank(rng, rows, columns)
    for band in _bands(rng, sheet, max(1, int(sheet.height / _LOWEST_LINE))):
        fitting = int(sheet.width / (0.6 * band.height))
        number = int(rng.integers(1, min(max(1, fitting), _MOST_LETTERS) + 1))
        line = "".join(LETTERS[int(i)] for i in rng.integers(len(LETTERS), size=number))
        printed = line.upper() if rng.random() < 0.5 else line
        _write(rng, material, sheet, [(printed, Item("letters", line, (), (0, 0)))], band)
    return sheet.scene()


def draw_lines(rng: np.random.Generator, material: Material, rows: int, columns: int) -> Scene:
    """Several words, each on a line of its own that is at least an image token high."""
    sheet = Sheet.blank(rng, rows, columns)
    for band in _bands(rng, sheet, rows):
        word = WORDS[rng.integers(len(WORDS))]
        _write(rng, material, sheet, [(_in_some_case(rng, word), _word_item(word))], band)
    return sheet.scene()


def _in_some_case(rng: np.random.Generator, word: str) -> str:
    return (word, word.capitalize(), word.upper())[rng.integers(3)]


def _word_item(word: str) -> Item:
    return Item("word", word, (), (0, 0))


def _bands(rng: np.random.Generator, sheet: Sheet, most: int) -> list[Place]:
    """The sheet cut into lines of one height, at most so many."""
    number = int(rng.integers(1, most + 1))
    height = sheet.height / number
    return [Place(0.0, height * at, sheet.width, height) for at in range(number)]


def _write(
    rng: np.random.Generator,
    material: Material,
    sheet: Sheet,
    parts: list[tuple[str, Item]],
    band: Place | None = None,
) -> None:
    """Print the parts one behind the other on one line, in one font and colour, in a part of the
    sheet or anywhere.
    """
    band = band or Place(0.0, 0.0, sheet.width, sheet.height)
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
        place = Place(left, top, stamp.width, stamp.height)
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
