"""Pictures: the same seed gives the same ones, and they show what they say."""

import numpy as np
import pytest

from vlm.demo_model.material import Material
from vlm.demo_model.objects import OBJECTS, NamedObject
from vlm.demo_model.printing import draw_letters, draw_lines, write_word
from vlm.demo_model.scenes import draw_chart, draw_these
from vlm.demo_model.sheet import Scene
from vlm.demo_model.surfaces import COLORS, PIXELS_PER_TOKEN
from vlm.demo_model.tower_stage import SCENE_KINDS, SIZES, draw_any
from vlm.demo_model.words import WORDS


def _scenes(material: Material, kind: str, seed: int, number: int) -> list[Scene]:
    rng = np.random.default_rng(seed)
    return [SCENE_KINDS[kind](rng, material, 4, 5) for _ in range(number)]


@pytest.mark.parametrize("kind", SCENE_KINDS)
def test_a_seed_fixes_every_pixel_and_item(material: Material, kind: str) -> None:
    first, again, other = (_scenes(material, kind, seed, 5) for seed in (1, 1, 2))
    assert all(np.array_equal(a.pixels, b.pixels) for a, b in zip(first, again, strict=True))
    assert [scene.items for scene in first] == [scene.items for scene in again]
    assert not np.array_equal(first[0].pixels, other[0].pixels)


@pytest.mark.parametrize("kind", SCENE_KINDS)
def test_every_item_lies_in_cells_of_its_own_picture(material: Material, kind: str) -> None:
    for scene in _scenes(material, kind, 3, 30):
        assert scene.pixels.shape == (4 * PIXELS_PER_TOKEN, 5 * PIXELS_PER_TOKEN, 3)
        assert len(scene.cell_colors) == 20
        assert {*scene.background, *scene.cell_colors} <= set(COLORS)
        assert 1 <= len(scene.items) <= 6
        for item in scene.items:
            assert item.cells
            assert all(0 <= cell < 20 for cell in item.cells)
            row, column = divmod(item.cells[len(item.cells) // 2], 5)
            assert abs((column + 0.5) / 5 - item.center[0]) < 0.5
            assert abs((row + 0.5) / 4 - item.center[1]) < 0.5


def test_any_size_has_room_for_something(material: Material) -> None:
    rng = np.random.default_rng(0)
    for rows, columns in SIZES:
        scene = draw_any(rng, material, rows, columns)
        assert (scene.rows, scene.columns) == (rows, columns)


def test_the_objects_asked_for_are_drawn(material: Material) -> None:
    shown = [OBJECTS[0], OBJECTS[0], OBJECTS[5]]
    scene = draw_these(np.random.default_rng(0), material, shown, 4, 4)
    assert scene.counts() == {OBJECTS[0].name: 2, OBJECTS[5].name: 1}


def test_a_word_is_printed_letter_by_letter_from_left_to_right(material: Material) -> None:
    scene = write_word(np.random.default_rng(4), material, "window", 4, 4)
    (item,) = scene.items
    assert "".join(printed.letter for printed in item.letters) == "window"
    ends = [end for printed in item.letters for end in (printed.left, printed.right)]
    assert ends == sorted(ends)
    assert all(0 <= printed.top < printed.bottom <= 112 for printed in item.letters)


def test_lines_of_words_share_no_cell(material: Material) -> None:
    rng = np.random.default_rng(0)
    scenes = [draw_lines(rng, material, 4, 4) for _ in range(20)]
    assert {len(scene.items) for scene in scenes} == {1, 2, 3, 4}
    for scene in scenes:
        assert all(item.name in WORDS for item in scene.items)
        # Three lines across four rows of cells meet inside a cell.
        if len(scene.items) != 3:
            cells = [cell for item in scene.items for cell in item.cells]
            assert len(set(cells)) == len(cells)


def test_a_sheet_of_letters_is_filled_line_by_line(material: Material) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        scene = draw_letters(rng, material, 4, 4)
        tops = [item.letters[0].top for item in scene.items]
        assert tops == sorted(tops)
        assert 1 <= len(tops) <= 6
        for item in scene.items:
            assert "".join(printed.letter for printed in item.letters) == item.name


def test_a_chart_is_as_high_as_it_says(material: Material) -> None:
    for seed in range(20):
        scene = draw_chart(np.random.default_rng(seed), material, 5, 5)
        heights = [item.height for item in scene.items]
        assert len(set(heights)) == len(heights)
        assert all(item.color not in scene.background for item in scene.items)
        cells = [len({cell // 5 for cell in item.cells}) for item in scene.items]
        assert cells[int(np.argmax(heights))] == max(cells)


def test_objects_differ_in_name_and_codepoint() -> None:
    codepoints = [codepoint for shown in OBJECTS for codepoint in shown.codepoints]
    assert len(OBJECTS) >= 400
    assert len(set(codepoints)) == len(codepoints)
    assert len({shown.name for shown in OBJECTS}) == len(OBJECTS)
    for shown in OBJECTS:
        article, noun = shown.phrase.split(" ", 1)
        assert article in ("a", "an")
        assert shown.is_named_in(f"I see {shown.phrase}.")
        assert noun


def test_a_name_counts_only_as_whole_words() -> None:
    car = NamedObject((0,), "a car", "car", ("motor-car",))
    assert car.is_named_in("This is a Car.")
    assert car.is_named_in("A motor-car!")
    assert not car.is_named_in("This is a carrot.")


def test_words_are_short_and_plain() -> None:
    assert len(WORDS) > 500
    assert all(3 <= len(word) <= 8 and word.isascii() and word.islower() for word in WORDS)
