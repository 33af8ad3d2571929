"""The picture world: draw objects, shapes and charts, and say what is where.

In: a random generator, artwork, a size. Out: a `Scene`. The same generator state gives the same
picture. Nothing here knows a sentence.
"""

from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance

from vlm.demo_model.material import Material
from vlm.demo_model.objects import OBJECTS, NamedObject
from vlm.demo_model.sheet import Item, Place, Scene, Sheet
from vlm.demo_model.surfaces import COLORS, choose, shade

SHAPES = ("circle", "square", "triangle", "rectangle", "diamond", "cross", "ring")
_MAX_ROTATION_DEGREES = 18.0
_REPAINT_SHARE = 0.3
_REPAINT_RANGE = (0.5, 1.5)
SceneMaker = Callable[[np.random.Generator, Material, int, int], Scene]


def draw_these(
    rng: np.random.Generator,
    material: Material,
    shown: Sequence[NamedObject],
    rows: int,
    columns: int,
) -> Scene:
    """One to six objects at random sizes and tilts; a single one at a random place."""
    sheet = Sheet.blank(rng, rows, columns)
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
    sheet = Sheet.blank(rng, rows, columns)
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


def draw_chart(rng: np.random.Generator, _: Material, rows: int, columns: int) -> Scene:
    """Two to five upright bars of different colours and clearly different heights."""
    sheet = Sheet.blank(rng, rows, columns)
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
        place = Place(left, sheet.height - bar_height, bar_width, bar_height)
        item = Item("bar", "bar", (), (0, 0), color, height=float(level))
        sheet.paste(stamp, place, item)
    return sheet.scene()


def _paste_objects(
    rng: np.random.Generator, material: Material, sheet: Sheet, shown: Sequence[NamedObject]
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
            place = Place(left, top, stamp.width, stamp.height)
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


def _places(rng: np.random.Generator, number: int, sheet: Sheet) -> list[Place]:
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
        places.append(Place(left, top, width * share, height * share))
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
