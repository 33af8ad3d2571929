"""Questions are drawn by seed, answered through the pipeline, and counted by kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tests.vlm.conftest import write_pair
from vlm.config import Settings
from vlm.demo_model.evaluation import (
    Accuracy,
    Answered,
    answer_all,
    by_kind,
    conversation_questions,
    draw_questions,
    naming_questions,
    wilson_interval,
    write_samples,
)
from vlm.demo_model.material import Material
from vlm.demo_model.objects import OBJECTS
from vlm.events import GenerationFinished
from vlm.loading import load_pipeline
from vlm.pipeline import VlmPipeline
from vlm.requests import ChatMessage, GenerationRequest


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> VlmPipeline:
    base, draft = write_pair(tmp_path_factory.mktemp("pair"), "qwen2_5_vl")
    small = {"dtype": "float32", "device": "cpu", "visual_engine": "torch"}
    return load_pipeline(Settings(base=base, draft=draft, threads=1, **small), lambda _: None)


def test_questions_follow_from_the_seed(material: Material) -> None:
    first, again = (draw_questions(material, 4) for _ in range(2))
    assert [one.turn for one in first] == [one.turn for one in again]
    assert {one.scene_kind for one in first} == {
        "object", "objects", "shapes", "word", "number", "chart",
    }  # fmt: skip


def test_every_object_is_asked_for_once(material: Material) -> None:
    questions = naming_questions(material)
    assert len(questions) == len(OBJECTS)
    for shown, question in zip(OBJECTS, questions, strict=True):
        assert question.turn.is_right(f"This is {shown.phrase}.")


def test_answers_are_counted_by_kind_and_shown(
    material: Material, pipeline: VlmPipeline, tmp_path: Path
) -> None:
    questions = draw_questions(material, 2)
    answered = list(answer_all(pipeline, questions))
    assert [one.question for one in answered] == questions
    counted = by_kind([Answered(one, one.turn.answer, None) for one in questions])
    assert sum(accuracy.total for accuracy in counted.values()) == len(questions)
    assert all(accuracy.right == accuracy.total for accuracy in counted.values())
    write_samples(answered, tmp_path / "samples.html", number=5)
    page = (tmp_path / "samples.html").read_text()
    assert page.count("<figure") == 5
    assert page.count("data:image/png;base64,") == 5


def test_a_conversation_is_asked_turn_by_turn(material: Material, pipeline: VlmPipeline) -> None:
    questions = conversation_questions(material, 12)
    assert {one.kind for one in questions} == {"later turn", "second picture"}
    question = next(one for one in questions if one.kind == "second picture")
    (answered,) = answer_all(pipeline, [question])
    # The same conversation by hand: each picture once, the model's own answers between.
    messages: list[ChatMessage] = []
    for number, asked in enumerate((*question.earlier, question)):
        before = question.earlier[number - 1].scene if number else None
        pictures = () if asked.scene is before else (Image.fromarray(asked.scene.pixels),)
        messages.append(ChatMessage("user", asked.turn.question, pictures))
        *_, last = pipeline.run(GenerationRequest(tuple(messages), max_new_tokens=60))
        assert isinstance(last, GenerationFinished)
        messages.append(ChatMessage("assistant", last.stats.text))
    assert answered.answer == messages[-1].text
    assert sum(len(message.images) for message in messages) == 2


def test_wilson_interval_of_a_known_share() -> None:
    low, high = wilson_interval(9, 10)
    assert low == pytest.approx(0.596, abs=1e-3)
    assert high == pytest.approx(0.982, abs=1e-3)
    assert str(Accuracy(9, 10)) == "90.0 % (9 of 10; 59.6 to 98.2)"
