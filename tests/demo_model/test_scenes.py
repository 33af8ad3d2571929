"""Pictures and questions: the same seed gives the same ones, and they are well formed."""

from collections.abc import Mapping

import numpy as np
import pytest
from PIL import Image

from vlm.demo_model.objects import OBJECTS, NamedObject
from vlm.demo_model.questions import QuestionAnswer, ask_each
from vlm.demo_model.scenes import BACKGROUND_COLORS, Scene, draw_scene


@pytest.fixture(scope="module")
def artwork() -> Mapping[int, Image.Image]:
    """Coloured blocks in place of the real artwork, which is not part of the repository."""
    rng = np.random.default_rng(0)
    return {
        shown.codepoint: Image.fromarray(rng.integers(0, 256, (40, 30, 4), dtype=np.uint8))
        for shown in OBJECTS
    }


def _scenes(artwork: Mapping[int, Image.Image], seed: int, number: int) -> list[Scene]:
    rng = np.random.default_rng(seed)
    return [draw_scene(rng, [artwork], OBJECTS[i], 112, 84) for i in range(number)]


def _exchanges(scenes: list[Scene], seed: int) -> list[QuestionAnswer]:
    rng = np.random.default_rng(seed)
    return [exchange for _ in range(40) for exchange in ask_each(rng, scenes)]


def test_a_seed_fixes_every_pixel(artwork: Mapping[int, Image.Image]) -> None:
    first, again, other = (_scenes(artwork, seed, 5) for seed in (1, 1, 2))
    assert all(np.array_equal(a.pixels, b.pixels) for a, b in zip(first, again, strict=True))
    assert [a.background for a in first] == [b.background for b in again]
    assert not np.array_equal(first[0].pixels, other[0].pixels)


def test_a_scene_has_the_size_asked_for_and_a_known_background(
    artwork: Mapping[int, Image.Image],
) -> None:
    for scene in _scenes(artwork, 3, 20):
        assert scene.pixels.shape == (84, 112, 3)
        assert scene.pixels.dtype == np.uint8
        assert len(scene.background) in (1, 2)
        assert set(scene.background) <= set(BACKGROUND_COLORS)


def test_a_seed_fixes_every_question(artwork: Mapping[int, Image.Image]) -> None:
    scenes = _scenes(artwork, 1, 4)
    assert _exchanges(scenes, 5) == _exchanges(scenes, 5)
    assert _exchanges(scenes, 5) != _exchanges(scenes, 6)


def test_questions_and_answers_are_whole_sentences(artwork: Mapping[int, Image.Image]) -> None:
    exchanges = _exchanges(_scenes(artwork, 1, 12), 7)
    assert len({exchange.question for exchange in exchanges}) > 30
    for exchange in exchanges:
        assert exchange.question[0].isupper()
        assert exchange.question[-1] in "?."
        assert exchange.answer[0].isupper()
        assert exchange.answer.endswith(".")
        assert "{" not in exchange.question + exchange.answer


def test_every_answer_names_the_object(artwork: Mapping[int, Image.Image]) -> None:
    for scene in _scenes(artwork, 1, 8):
        for exchange in _exchanges([scene], 9):
            assert scene.shown.is_named_in(exchange.answer)
            if exchange.answer.startswith("Yes"):
                assert scene.shown.phrase in exchange.question
            if exchange.answer.startswith("No,"):
                assert scene.shown.phrase not in exchange.question


def test_objects_differ_in_name_and_codepoint() -> None:
    assert len(OBJECTS) >= 80
    assert len({shown.codepoint for shown in OBJECTS}) == len(OBJECTS)
    assert len({shown.name for shown in OBJECTS}) == len(OBJECTS)
    for shown in OBJECTS:
        article, noun = shown.phrase.split(" ", 1)
        assert article in ("a", "an")
        assert shown.is_named_in(f"I see {shown.phrase}.")
        assert noun


def test_a_name_counts_only_as_whole_words() -> None:
    car = NamedObject(0, "a car", "car", ("motor-car",))
    assert car.is_named_in("This is a Car.")
    assert car.is_named_in("A motor-car!")
    assert not car.is_named_in("This is a carrot.")
