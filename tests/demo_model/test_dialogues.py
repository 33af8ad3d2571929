"""Questions fit their picture, and every answer passes its own check."""

import numpy as np
import pytest

from vlm.demo_model.dialogues import Turn, ask
from vlm.demo_model.material import Material
from vlm.demo_model.objects import OBJECTS
from vlm.demo_model.scenes import draw_these
from vlm.demo_model.tower_stage import SCENE_KINDS
from vlm.demo_model.wording import plural


def _turns(material: Material, kind: str, seed: int = 0, number: int = 60) -> list[Turn]:
    rng = np.random.default_rng(seed)
    draw = SCENE_KINDS[kind]
    return [turn for _ in range(number) for turn in ask(rng, draw(rng, material, 4, 4), 9)]


@pytest.mark.parametrize("kind", SCENE_KINDS)
def test_right_answers_pass_and_questions_are_whole_sentences(
    material: Material, kind: str
) -> None:
    turns = _turns(material, kind)
    assert len({turn.question for turn in turns}) > 20
    for turn in turns:
        assert turn.is_right(turn.answer), turn
        assert turn.question[0].isupper()
        assert turn.question[-1] in "?."
        assert "{" not in turn.question + turn.answer


@pytest.mark.parametrize("kind", SCENE_KINDS)
def test_a_seed_fixes_every_question(material: Material, kind: str) -> None:
    assert _turns(material, kind, 5, 5) == _turns(material, kind, 5, 5)
    assert _turns(material, kind, 5, 5) != _turns(material, kind, 6, 5)


def test_both_answers_to_yes_or_no_are_about_as_frequent(material: Material) -> None:
    turns = [turn for turn in _turns(material, "objects", number=300) if turn.kind == "yes/no"]
    yes = sum(turn.answer.startswith("Yes") for turn in turns)
    assert 0.35 < yes / len(turns) < 0.65


def test_what_is_absent_is_not_shown_under_another_name(material: Material) -> None:
    for turn in _turns(material, "objects", number=200):
        if turn.answer.startswith("No, I can't see"):
            assert turn.is_right("No.")
            assert not turn.is_right("Yes, there is one.")


def test_counting_counts(material: Material) -> None:
    cat = next(shown for shown in OBJECTS if shown.name == "cat")
    scene = draw_these(np.random.default_rng(0), material, [cat] * 3, 4, 4)
    rng = np.random.default_rng(1)
    asked = [turn for _ in range(60) for turn in ask(rng, scene, 9) if "cats" in turn.question]
    assert asked
    for turn in asked:
        if turn.kind == "count":
            assert turn.is_right("There are three cats.")
            assert turn.is_right("I count 3.")
            assert not turn.is_right("There are two cats.")


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("a cat", "cats"),
        ("a loaf of bread", "loaves of bread"),
        ("a wolf", "wolves"),
        ("a computer mouse", "computer mice"),
        ("a pair of scissors", "pairs of scissors"),
    ],
)
def test_plurals(phrase: str, expected: str) -> None:
    assert plural(phrase) == expected


def test_things_are_named_in_the_order_of_their_image_tokens(material: Material) -> None:
    rng = np.random.default_rng(0)
    cat, dog = (next(o for o in OBJECTS if o.name == name) for name in ("cat", "dog"))
    for _ in range(20):
        scene = draw_these(rng, material, [cat, dog, cat], 4, 4)
        first = min(scene.items, key=lambda item: item.cells[0])
        named = "two cats and a dog" if first.name == "cat" else "a dog and two cats"
        answers = [turn.answer for turn in ask(rng, scene, 9)]
        assert f"I see {named}." in answers
