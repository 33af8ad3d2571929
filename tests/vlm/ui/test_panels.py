"""Figures as text, payloads of the live panel, escaped HTML."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from eagle.types import DecodeStep
from tests.vlm.ui.fakes import INFO, plain_steps, scripted_steps
from vlm.metrics import RunStats
from vlm.ui import panels
from vlm.ui.examples import Example, load_examples


def stats(
    steps: tuple[DecodeStep, ...] = scripted_steps((2, 0, 4)),
    image_tokens: tuple[int, ...] = (64,),
    finish_reason: str = "eos",
) -> RunStats:
    ids = tuple(token for step in steps for token in step.token_ids)
    return RunStats("text", ids, 94, image_tokens, steps, 0.42, 0.25, 0.67, finish_reason)


def state(phase: str = "decoding") -> panels.PanelState:
    return panels.PanelState(run=3, phase=phase, mode="a mode", max_tokens_per_step=5)


def test_the_line_under_an_answer() -> None:
    line = panels.figures_line(stats(), speculative=True)
    assert line == (
        "10 tokens · 36.0 tok/s · 3.0 tokens per step · first token 0.42 s · "
        "64 image tokens · EAGLE-3"
    )


def test_the_line_without_draft_or_picture_says_so() -> None:
    steps = plain_steps(scripted_steps((1,)))
    line = panels.figures_line(stats(steps, image_tokens=()), speculative=False)
    assert line == "3 tokens · 8.0 tok/s · first token 0.42 s · base alone"


def test_the_line_of_an_answer_of_one_token_has_no_speed() -> None:
    line = panels.figures_line(stats(scripted_steps(()), ()), speculative=True)
    assert line == "1 token · first token 0.42 s · EAGLE-3"


@pytest.mark.parametrize(
    ("reason", "ending"),
    [("length", "cut at the longest answer allowed"), ("cancelled", "stopped"), ("eos", "EAGLE-3")],
)
def test_the_line_says_why_an_answer_ended_early(reason: str, ending: str) -> None:
    assert panels.figures_line(stats(finish_reason=reason), speculative=True).endswith(ending)


def test_a_step_is_split_into_base_and_draft_tokens() -> None:
    steps = [panels.step_tokens(step) for step in scripted_steps((2, 0))]
    assert steps == [[1, 0], [1, 2], [1, 0]]
    cut = DecodeStep(5, (7, 8), 7, 2, 0.0, 0.0, "length")
    assert panels.step_tokens(cut) == [0, 2]  # the base's own token was cut off


def test_a_payload_holds_only_the_new_steps() -> None:
    payload = panels.panel_payload(state(), stats(), first_step=2)
    assert payload["from"] == 2
    assert payload["steps"] == [[1, 0], [1, 4]]
    assert payload["run"] == 3
    assert payload["figures"]["per_step"] == "3.00"
    assert payload["announcement"] == ""
    json.dumps(payload)


def test_payload_without_figures() -> None:
    payload = panels.panel_payload(state("waiting"), None)
    assert payload["steps"] == []
    assert payload["phase_text"] == "Waiting for the engine"
    assert set(payload["figures"]) == set(panels.panel_figures(stats()))
    assert set(payload["figures"].values()) == {panels.MISSING}


def test_the_end_is_announced_once_as_a_sentence() -> None:
    payload = panels.panel_payload(state("done"), stats())
    assert payload["announcement"] == "Answer ready: 10 tokens in 0.7 s, 3.0 tokens per step."
    stopped = panels.panel_payload(state("stopped"), stats(finish_reason="cancelled"))
    assert stopped["announcement"].startswith("Answer stopped")


def test_image_tokens_of_several_pictures_are_added_up() -> None:
    assert panels.image_tokens_text((), 0) == "none"
    assert panels.image_tokens_text((64,), 0) == "64"
    assert panels.image_tokens_text((64, 80), 0) == "64 + 80 = 144"


def test_the_panel_says_which_pictures_were_not_encoded_again() -> None:
    assert panels.image_tokens_text((64,), 1) == "64 (cached)"
    assert panels.image_tokens_text((64, 80), 2) == "64 + 80 = 144 (cached)"
    assert panels.image_tokens_text((64, 80), 1) == "64 + 80 = 144 (1 of 2 cached)"


def test_the_mode_says_plainly_when_nothing_speculates() -> None:
    assert "EAGLE-3 is on" in panels.mode_sentence(INFO, use_eagle=True)
    assert "EAGLE-3 is off" in panels.mode_sentence(INFO, use_eagle=False)
    without = replace(INFO, draft_name=None)
    assert "No EAGLE-3 draft" in panels.mode_sentence(without, use_eagle=True)
    assert "no draft" in panels.model_chip(without, use_eagle=True)


def test_names_and_questions_are_escaped() -> None:
    info = replace(INFO, base_name="<b>&", no_images_reason="<i>")
    assert "&lt;b&gt;&amp;" in panels.model_chip(info, use_eagle=True)
    example = Example(Path('/a"b.png'), "<script>")
    page = panels.welcome([example], info)
    assert "&lt;script&gt;" in page
    assert "&lt;i&gt;" in page
    assert 'a"b' not in page
    assert "&lt;a&gt;" in panels.notice("<a>")
    assert panels.notice("") == ""


def test_examples_are_read_where_there_are_any(tmp_path: Path) -> None:
    assert load_examples(tmp_path) == ()
    entry = {"image": "cat.png", "question": "What is this?", "expects": ["cat"]}
    (tmp_path / "examples.json").write_text(json.dumps([entry]), encoding="utf-8")
    assert load_examples(tmp_path) == (Example(tmp_path / "cat.png", "What is this?"),)
