"""The race: one prompt, every order, the same text, figures that agree with the legs' own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from eagle.types import SamplingParams
from tests.vlm.conftest import SMALL
from tests.vlm.test_pipeline import picture
from vlm.__main__ import main
from vlm.compare import CompareRequest, Comparison, LegEvent, Order, compare, summary
from vlm.config import Settings
from vlm.errors import VlmError
from vlm.events import GenerationFinished
from vlm.loading import load_pipeline
from vlm.metrics import RunStats
from vlm.pipeline import VlmPipeline
from vlm.requests import ChatMessage, GenerationRequest
from vlm.trace import read_traces
from vlm.trace_check import check_trace
from vlm.trace_recording import TraceRecorder

REQUEST = GenerationRequest(
    (ChatMessage("user", "What is it?", (picture(),)),), max_new_tokens=20, ignore_eos=True
)


def race(
    pipeline: VlmPipeline, asked: CompareRequest
) -> tuple[dict[int, list[LegEvent]], Comparison]:
    *events, last = compare(pipeline, asked)
    assert isinstance(last, Comparison)
    legs: dict[int, list[LegEvent]] = {}
    for event in events:
        assert isinstance(event, LegEvent)
        legs.setdefault(event.leg, []).append(event)
    return legs, last


def stats(leg: list[LegEvent]) -> RunStats:
    assert isinstance(leg[-1].event, GenerationFinished)
    return leg[-1].event.stats


@pytest.mark.parametrize("order", ["AB", "BA", "ABBA"])
def test_both_ways_give_the_same_text_in_every_order(
    tiny_pipeline: VlmPipeline, order: Order
) -> None:
    legs, result = race(tiny_pipeline, CompareRequest(REQUEST, order))
    assert [leg[0].mode[0] for leg in legs.values()] == [
        {"A": "b", "B": "e"}[letter] for letter in order
    ]
    assert result.verdict.sentence() == "IDENTICAL 20/20 tokens"
    rates = [stats(leg).decode_tokens_per_second for leg in legs.values() if leg[0].mode == "base"]
    assert min(r for r in rates if r) <= result.base.decode_tokens_per_second <= max(rates)  # type: ignore[operator,type-var]
    eagle = next(stats(leg) for leg in legs.values() if leg[0].mode == "eagle")
    assert result.acceptance == eagle.acceptance
    assert result.eagle.num_steps <= result.base.num_steps == 19


def test_every_leg_is_a_sound_trace_of_the_same_prompt(tiny_pipeline: VlmPipeline) -> None:
    legs, _ = race(tiny_pipeline, CompareRequest(REQUEST, "ABBA"))
    traces = []
    for leg in legs.values():
        recorder = TraceRecorder()
        for event in leg:
            recorder.add(event.event)
        traces.append(recorder.trace())
    assert [problem for trace in traces for problem in check_trace(trace)] == []
    assert len({trace.run.prompt_sha256 for trace in traces}) == 1
    vision = {phase.seconds for trace in traces for phase in trace.phases if phase.name == "vision"}
    assert len(vision) == 1, "the picture is encoded once, and its time counts in every leg"


def test_a_picture_seen_before_is_encoded_anew(tiny_pipeline: VlmPipeline) -> None:
    """What the encoder takes belongs to the time of an answer, in the tenth round too."""
    for _ in range(2):
        list(tiny_pipeline.run(REQUEST))
    legs, _ = race(tiny_pipeline, CompareRequest(REQUEST))
    assert [stats(leg).num_cached_images for leg in legs.values()] == [0, 0]


def test_figures_follow_from_each_other(tiny_pipeline: VlmPipeline) -> None:
    _, result = race(tiny_pipeline, CompareRequest(REQUEST))
    length, cost = result.acceptance.mean_acceptance_length, result.step_cost
    assert length is not None
    assert cost is not None
    assert result.decode_speedup == pytest.approx(length / cost, rel=0.06)  # the last step is cut
    assert result.seconds_saved == result.base.total_seconds - result.eagle.total_seconds
    assert f"{length:.2f} ÷ {cost:.2f}" in result.explanation()


def test_an_answer_of_one_token_has_no_speedup(tiny_pipeline: VlmPipeline) -> None:
    _, result = race(tiny_pipeline, CompareRequest(replace(REQUEST, max_new_tokens=1)))
    assert result.verdict.is_identical
    assert result.decode_speedup is None
    assert "nothing to speed up" in result.explanation()


def test_with_sampling_texts_may_differ(tiny_pipeline: VlmPipeline) -> None:
    sampled = replace(REQUEST, sampling=SamplingParams(1.0, seed=5))
    _, result = race(tiny_pipeline, CompareRequest(sampled))
    assert result.verdict.kind in ("identical", "sampled")


def test_a_race_that_is_left_frees_the_engine(tiny_pipeline: VlmPipeline) -> None:
    events = compare(tiny_pipeline, CompareRequest(REQUEST))
    for _ in range(5):
        next(events)
    events.close()  # type: ignore[attr-defined]
    assert not tiny_pipeline.lock.locked()


def test_without_a_draft_there_is_no_race(pair: tuple[str, str]) -> None:
    alone = load_pipeline(Settings(base=pair[0], **SMALL), lambda _: None)
    with pytest.raises(VlmError, match="nothing to compare: no draft is loaded"):
        list(compare(alone, CompareRequest(REQUEST)))


def test_from_the_shell(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    path = tmp_path / "race.jsonl"
    argv = ["compare", "--prompt", "What?", "--base", pair[0], "--max-new-tokens", "8", *options]
    assert main([*argv, "--draft", pair[1], "--ignore-eos", "--trace", str(path)]) == 0
    output = capsys.readouterr().out
    assert "IDENTICAL 8/8 tokens" in output
    assert "A step with the draft gives" in output
    traces = read_traces(path)
    assert [trace.run.mode for trace in traces] == ["base", "eagle", "eagle", "base"]
    assert main(argv) == 2
    assert "nothing to compare" in capsys.readouterr().err


def test_identity_from_the_shell(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"turns": ["one?", "unused"]}\n\n{"turns": ["two?"]}\n')
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    argv = ["identity", "--questions", str(questions), "--base", pair[0], "--draft", pair[1]]
    assert main([*argv, "--max-new-tokens", "8", *options]) == 0
    output = capsys.readouterr()
    figures = json.loads(output.out.strip().splitlines()[-1])
    assert figures["prompts"] == figures["identical"] == 2
    assert figures["logit_gaps"] == []
    assert "2/2: IDENTICAL" in output.err
    assert summary([])["median_decode_speedup"] is None
