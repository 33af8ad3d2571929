"""Figures as text, payloads of the live panel, escaped HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.vlm.ui.fakes import INFO, FakePipeline
from vlm.metrics import EndReason
from vlm.requests import ChatMessage, GenerationRequest
from vlm.trace import Mode, TraceEnd, TraceRun, assemble, from_line
from vlm.trace_recording import TraceRecorder
from vlm.ui import panels
from vlm.ui.examples import Example, load_examples


def recorded(*, accepted: Sequence[int] = (2, 0, 4), use_eagle: bool = True) -> TraceRecorder:
    recorder = TraceRecorder()
    question = ChatMessage("user", "Hello", (Path("/a.png"),))
    for event in FakePipeline(accepted=accepted).perform(
        GenerationRequest((question,), use_eagle=use_eagle)
    ):
        recorder.add(event)
    return recorder


def ended(reason: EndReason = "eos", **changes: float | None) -> TraceEnd:
    """An end with round figures."""
    end = recorded().end()
    summary = replace(
        end.summary,
        decode_tokens_per_second=36.0,
        time_to_first_token_seconds=0.42,
        mean_acceptance_length=3.0,
    )
    return replace(end, reason=reason, elapsed_seconds=0.67, summary=replace(summary, **changes))


def run(mode: Mode = "eagle") -> TraceRun:
    found = recorded(use_eagle=mode == "eagle").run
    assert found is not None
    return found


def state(phase: str = "decoding") -> panels.PanelState:
    return panels.PanelState(3, phase, "a mode", max_tokens_per_step=5, base_step_seconds=0.02)


def test_the_line_under_an_answer() -> None:
    assert panels.figures_line(run(), (64,), ended()) == (
        "10 tokens · 36.0 tok/s · 3.0 tokens per step · first token 0.42\N{NO-BREAK SPACE}s · "
        "64 image tokens · EAGLE-3"
    )


def test_the_line_without_draft_or_picture_says_so() -> None:
    end = ended(mean_acceptance_length=None)
    line = panels.figures_line(run("base"), (), end)
    assert line == "10 tokens · 36.0 tok/s · first token 0.42\N{NO-BREAK SPACE}s · base alone"


def test_the_line_of_an_answer_of_one_token_has_no_speed() -> None:
    recorder = recorded(accepted=())
    line = panels.figures_line(run(), (), recorder.end())
    assert line.startswith("1 token · first token")
    assert "tok/s" not in line


@pytest.mark.parametrize(
    ("reason", "ending"),
    [("length", "cut at the longest answer allowed"), ("cancelled", "stopped"), ("eos", "EAGLE-3")],
)
def test_the_line_says_why_an_answer_ended_early(reason: EndReason, ending: str) -> None:
    assert panels.figures_line(run(), (), ended(reason)).endswith(ending)


def test_a_payload_holds_only_the_new_lines() -> None:
    recorder = recorded()
    end = recorder.end()
    whole = panels.panel_payload(state(), recorder.records, end)
    assert assemble(map(from_line, whole["lines"].splitlines())) == recorder.trace()
    rest = panels.panel_payload(state(), recorder.records, end, first=3)
    assert rest["from"] == 3
    assert rest["lines"].splitlines() == whole["lines"].splitlines()[3:]
    assert rest["run"] == 3
    assert rest["summary"]["mean_acceptance_length"] == 3.0
    assert rest["announcement"] == ""
    json.dumps(rest)


def test_a_payload_before_the_first_token() -> None:
    payload = panels.panel_payload(state("waiting"))
    assert payload["lines"] == ""
    assert payload["summary"] is None
    assert payload["phase_text"] == "Waiting for the engine"


def test_the_end_is_announced_once_as_a_sentence() -> None:
    payload = panels.panel_payload(state("done"), end=ended())
    assert payload["announcement"] == "Answer ready: 10 tokens in 0.7 s, 3.0 tokens per step."
    stopped = panels.panel_payload(state("stopped"), end=ended("cancelled"))
    assert stopped["announcement"].startswith("Answer stopped")


def test_the_mode_says_plainly_when_nothing_speculates() -> None:
    assert "EAGLE-3 is on" in panels.mode_sentence(INFO, use_eagle=True)
    assert "EAGLE-3 is off" in panels.mode_sentence(INFO, use_eagle=False)
    without = replace(INFO, draft_name=None)
    assert "No EAGLE-3 draft" in panels.mode_sentence(without, use_eagle=True)
    assert "no draft" in panels.model_chip(without, use_eagle=True)
    misfit = replace(without, draft_problem="The draft was made for another base.")
    sentence = "EAGLE-3 is off: The draft was made for another base."
    assert panels.mode_sentence(misfit, use_eagle=True) == sentence
    assert 'another base.">draft refused' in panels.model_chip(misfit, use_eagle=True)


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
