"""The trace: sound for every kind of run, the same after a file, and strict about what it reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle.types import DecodeStep, SamplingParams, TreeShape
from tests.vlm.test_pipeline import picture
from vlm.errors import TraceError
from vlm.events import Event, PromptReady, StepDecoded
from vlm.metrics import Acceptance
from vlm.pipeline import VlmPipeline
from vlm.requests import ChatMessage, GenerationRequest
from vlm.trace import FORMAT, Trace, from_line, read_traces, write_traces
from vlm.trace_check import check_trace
from vlm.trace_recording import TraceRecorder

QUESTION = ChatMessage("user", "What is it?")


def request(**options: object) -> GenerationRequest:
    arguments: dict[str, object] = {"max_new_tokens": 24, "ignore_eos": True}
    return GenerationRequest((QUESTION,), **(arguments | options))  # type: ignore[arg-type]


def recorded(events: Iterable[Event]) -> Trace:
    recorder = TraceRecorder()
    for event in events:
        recorder.add(event)
    return recorder.trace()


@pytest.fixture(scope="module")
def trace(tiny_pipeline: VlmPipeline) -> Trace:
    message = ChatMessage("user", "Wie heißt das?", (picture(), picture(50, 90)))
    return recorded(tiny_pipeline.run(replace(request(), messages=(message,))))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_eagle": False},
        {"record_trees": False},
        {"sampling": SamplingParams(1.0, seed=3)},
        {"tree": TreeShape(3, 2, 9)},
        {"ignore_eos": False},
        {"max_new_tokens": 1},
        {"stop": ("e",)},
    ],
    ids=str,
)
def test_every_kind_of_run_is_sound(
    tiny_pipeline: VlmPipeline, options: dict[str, object], tmp_path: Path
) -> None:
    trace = recorded(tiny_pipeline.run(request(**options)))
    assert check_trace(trace) == ()
    path = tmp_path / "run.jsonl"
    write_traces(path, [trace, trace])
    assert read_traces(path) == (trace, trace)


def test_a_trace_tells_what_was_asked_and_seen(trace: Trace) -> None:
    assert check_trace(trace) == ()
    assert trace.run.question == "Wie heißt das?"
    assert trace.run.mode == "eagle"
    assert [image.index for image in trace.images] == [0, 1]
    assert trace.images[1].height > trace.images[1].width
    assert (trace.images[1].source_width, trace.images[1].source_height) == (50, 90)
    names = [phase.name for phase in trace.phases]
    assert names == ["pictures", "prompt", "vision", "merge", "prefill_base", "prefill_draft"]
    assert trace.end.reason == "length"
    assert trace.end.num_tokens == 24
    tree = trace.steps[1].tree
    assert tree is not None
    assert len(tree.texts) == len(tree.token_ids) == 8


def test_a_run_stopped_midway_leaves_a_sound_trace(tiny_pipeline: VlmPipeline) -> None:
    for steps in (0, 1, 3):
        recorder = TraceRecorder()
        events = tiny_pipeline.run(request())
        while len(recorder.steps) < steps or not recorder.has_begun:
            recorder.add(next(events))
        events.close()  # type: ignore[attr-defined]
        trace = recorder.trace("cancelled")
        assert check_trace(trace) == ()
        assert trace.end.reason == "cancelled"
        assert len(trace.steps) == steps
    with pytest.raises(TraceError, match="left no trace"):
        TraceRecorder().trace()


def test_reasons_why_no_draft_takes_part(tiny_pipeline: VlmPipeline) -> None:
    first = next(iter(tiny_pipeline.run(request(use_eagle=False))))
    assert isinstance(first, PromptReady)
    assert first.run.speculation_off_reason == "The draft is switched off for this answer."
    assert first.run.tree is None


def test_pieces_join_to_the_text(tiny_pipeline: VlmPipeline) -> None:
    """A token that ends inside a character has no piece; the last of its tokens has it all."""
    steps = [event for event in tiny_pipeline.run(request()) if isinstance(event, StepDecoded)]
    pieces = "".join(piece for event in steps for piece in event.pieces)
    text = "".join(event.text for event in steps)
    assert text.startswith(pieces)


def broken(trace: Trace) -> dict[str, Trace]:
    """Traces with one fault each, by a part of the sentence that names it."""
    first, second, *rest = trace.steps
    tree = second.tree
    assert tree is not None
    long = replace(trace.run, mode="base")

    def with_step(**changes: object) -> Trace:
        return replace(trace, steps=(first, replace(second, **changes), *rest))  # type: ignore[arg-type]

    def with_tree(**changes: object) -> Trace:
        return with_step(tree=replace(tree, **changes))  # type: ignore[type-var]

    return {
        "not numbered": with_step(index=7),
        "follow each other": with_step(elapsed_seconds=0.0),
        "parts take longer": with_step(verify_seconds=1e6),
        "The end counts": replace(trace, end=replace(trace.end, num_tokens=1)),
        "text of the end": replace(trace, end=replace(trace.end, text="other")),
        "summary is not": replace(
            trace, end=replace(trace.end, summary=replace(trace.end.summary, num_spec_steps=1))
        ),
        "tokens for": with_step(num_accepted=second.num_accepted + 1),
        "pieces of text": with_step(pieces=()),
        "not those of the accepted path": with_tree(target_token=tree.target_token + 1),
        "stands before its parent": with_tree(parents=(-1, 5, *tree.parents[2:])),
        "does not lead down": with_tree(path=(0, 99)),
        "lists of its tree": with_tree(texts=()),
        "outside 0 to 1": with_tree(target_probability=1.5),
        "base alone has drafted": replace(trace, run=long),
        "The end comes before": replace(trace, end=replace(trace.end, elapsed_seconds=0.0)),
        "pixels before resizing": replace(
            trace, images=(replace(trace.images[0], source_width=None),)
        ),
        "for a grid": replace(trace, images=(replace(trace.images[0], num_tokens=1),)),
    }


def test_every_broken_invariant_is_named(trace: Trace) -> None:
    for sentence, fault in broken(trace).items():
        assert any(sentence in problem for problem in check_trace(fault)), sentence


def test_other_versions_and_damaged_files_are_refused(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines = list(trace.lines())
    newer = lines[0].replace(FORMAT, "eagleeye.trace/9")
    step = json.loads(lines[-2])
    cases = {
        r"line 1 .*written as eagleeye.trace/9.*reads eagleeye.trace/1 and eagleeye.trace/2": [
            newer
        ],
        "was cut off": lines[:-1],
        "line 2 .*not JSON": [lines[0], "{"],
        "line 2 .*'type' must be one of run": [lines[0], '{"type": "x"}'],
        "lacks the field 'pieces'": [json.dumps({k: v for k, v in step.items() if k != "pieces"})],
        "unknown field 'more'": [json.dumps(step | {"more": 1})],
        "index must be a whole number, got 'one'": [json.dumps(step | {"index": "one"})],
        "one 'run' record first": lines[1:],
        "comes too late": [lines[0], lines[-2], lines[1], lines[-1]],
    }
    for message, content in cases.items():
        path.write_text("\n".join(content) + "\n", encoding="utf-8")
        with pytest.raises(TraceError, match=message):
            read_traces(path)
    with pytest.raises(TraceError, match="cannot be read as a trace"):
        read_traces(tmp_path / "missing.jsonl")
    with pytest.raises(TraceError, match="not JSON"):
        from_line("")


def test_a_trace_of_version_1_is_read_and_sound(trace: Trace, tmp_path: Path) -> None:
    """It has no sizes of the pictures before resizing."""
    path = tmp_path / "old.jsonl"
    records = [json.loads(line) for line in trace.lines()]
    for record in records:
        record.pop("source_width", None)
        record.pop("source_height", None)
    records[0]["format"] = "eagleeye.trace/1"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    (old,) = read_traces(path)
    assert check_trace(old) == ()
    unknown = [replace(image, source_width=None, source_height=None) for image in trace.images]
    assert old == replace(trace, images=tuple(unknown))
    write_traces(path, [old])
    assert read_traces(path) == (old,)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(6, 60)), max_size=30))
def test_acceptance_figures_agree_with_each_other(counts: list[tuple[int, int]]) -> None:
    steps = [DecodeStep(0, (1,), 0, 0, 0.0, 0.0)]
    steps += [
        DecodeStep(index, tuple(range(accepted + 1)), drafted, accepted, 0.0, 0.0)
        for index, (accepted, drafted) in enumerate(counts, start=1)
    ]
    found = Acceptance.of(steps)
    assert found.num_spec_steps == len(counts) == sum(found.acceptance_histogram)
    if not counts:
        assert found.mean_acceptance_length is None
        assert found.draft_acceptance_rate is None
        return
    tokens = sum(len(step.token_ids) for step in steps[1:])
    assert found.mean_acceptance_length == pytest.approx(tokens / len(counts))
    assert 1 + sum(found.acceptance_by_position) == pytest.approx(found.mean_acceptance_length)
    by_position = found.acceptance_by_position
    assert list(by_position) == sorted(by_position, reverse=True)
