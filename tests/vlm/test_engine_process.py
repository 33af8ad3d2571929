"""The engine in a process of its own: the same answers, cancelling, errors and a lost child."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
from PIL import Image

from tests.vlm.conftest import SMALL
from visual_encoder import ImageRefused
from vlm.bench import BenchPlan, BenchProgress, BenchRow
from vlm.compare import CompareRequest, Comparison
from vlm.config import Settings
from vlm.engine_process import EngineProcess, answer
from vlm.errors import EngineLost, PromptTooLong, VlmError
from vlm.events import Event, GenerationFinished, PromptReady, StepDecoded
from vlm.pipeline import VlmPipeline
from vlm.preview import PreviewRequest, preview
from vlm.questions import Question
from vlm.requests import ChatMessage, GenerationRequest
from vlm.sweep import SweepMeasurement, SweepPlan
from vlm.trace_check import check_trace
from vlm.trace_recording import TraceRecorder

REQUEST = GenerationRequest((ChatMessage("user", "What?"),), max_new_tokens=30, ignore_eos=True)


@pytest.fixture(scope="module")
def engine(pair: tuple[str, str]) -> Iterator[EngineProcess]:
    with EngineProcess(Settings(base=pair[0], draft=pair[1], **SMALL), lambda _: None) as process:
        yield process


def token_ids(engine: EngineProcess | VlmPipeline) -> tuple[int, ...]:
    *_, last = engine.perform(REQUEST) if isinstance(engine, EngineProcess) else engine.run(REQUEST)
    assert isinstance(last, GenerationFinished)
    return last.stats.token_ids


def test_answers_are_those_of_the_pipeline(
    engine: EngineProcess, tiny_pipeline: VlmPipeline
) -> None:
    assert token_ids(engine) == token_ids(tiny_pipeline)
    assert engine.info == tiny_pipeline.info
    assert engine.settings == tiny_pipeline.settings


def test_a_cancelled_request_leaves_nothing_behind(engine: EngineProcess) -> None:
    expected = token_ids(engine)
    for read in (1, 2, 5):
        events = engine.perform(REQUEST)
        seen = [next(events) for _ in range(read)]
        assert not any(isinstance(event, GenerationFinished) for event in seen)
        events.close()  # type: ignore[attr-defined]
        assert token_ids(engine) == expected


def test_traces_comparisons_and_benchmarks_cross_whole(engine: EngineProcess) -> None:
    recorder = TraceRecorder()
    for event in engine.perform(REQUEST):
        recorder.add(event)
    trace = recorder.trace()
    assert check_trace(trace) == ()
    assert all(step.tree is not None for step in trace.steps[1:])
    assert trace.run.environment == engine.environment

    *_, comparison = engine.perform(CompareRequest(REQUEST))
    assert isinstance(comparison, Comparison)
    assert comparison.verdict.is_identical

    questions = (Question("1", "talk", ("one?",)), Question("2", "talk", ("two?",)))
    plan = BenchPlan(questions, max_new_tokens=6)
    rows = [event for event in engine.perform(plan) if isinstance(event, BenchRow)]
    assert [row.question for row in rows] == ["1", "2"]
    swept = SweepPlan(questions, (2,), (2,), (4, 5), max_new_tokens=6)
    found = [event for event in engine.perform(swept) if isinstance(event, SweepMeasurement)]
    assert len(found) == 4


def test_a_cancelled_benchmark_stops_within_a_step(engine: EngineProcess) -> None:
    questions = tuple(Question(str(n), "talk", ("one?",)) for n in range(1000))
    events = engine.perform(BenchPlan(questions, max_new_tokens=30, ignore_eos=True))
    assert isinstance(next(events), BenchProgress)
    events.close()  # type: ignore[attr-defined]
    assert len(token_ids(engine)) == 30


def test_errors_cross_whole(engine: EngineProcess) -> None:
    long = GenerationRequest((ChatMessage("user", "x" * 400),))
    with pytest.raises(PromptTooLong, match="at most 200 fit"):
        list(engine.perform(long))
    assert any(isinstance(event, StepDecoded) for event in engine.perform(REQUEST))


class NeedsTwo(Exception):
    """As some libraries' errors: it cannot be put together from its words."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(f"{text} ({code})")


class HoldsALock(Exception):
    """It cannot even be taken apart."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NeedsTwo("device lost", 7), "NeedsTwo: device lost (7)"),
        (HoldsALock("device lost"), "HoldsALock: device lost"),
    ],
)
def test_an_error_that_cannot_cross_sends_its_words(error: Exception, words: str) -> None:
    """The parent waited for ever for the end of the request."""
    here, there = Pipe()

    def fail(request: GenerationRequest) -> Iterator[Event]:
        raise error
        yield

    answer(there, SimpleNamespace(run=fail), REQUEST)  # type: ignore[arg-type]
    kind, arrived = here.recv()
    assert (kind, type(arrived), str(arrived)) == ("error", RuntimeError, words)


def test_a_preview_crosses_whole_and_so_does_its_refusal(
    engine: EngineProcess, tiny_pipeline: VlmPipeline
) -> None:
    picture = Image.linear_gradient("L").convert("RGB")
    request = PreviewRequest((ChatMessage("user", "What?", (picture,)),))
    expected = preview(tiny_pipeline, request)
    assert next(engine.perform(request)).pictures == expected.pictures
    strip = Image.new("RGB", (5000, 20))
    with pytest.raises(ImageRefused, match="one side 250") as refused:
        list(engine.perform(PreviewRequest((ChatMessage("user", "What?", (strip,)),))))
    assert (refused.value.actual, refused.value.limit) == (250, 200)


def test_loading_errors_are_raised_here() -> None:
    with pytest.raises(Exception, match="not a directory"):
        EngineProcess(Settings(base="/nowhere/at/all"), lambda _: None)


def test_with_a_draft_that_does_not_fit_the_base_answers_alone(
    pair: tuple[str, str], misfit: str, tiny_pipeline: VlmPipeline
) -> None:
    settings = Settings(base=pair[0], draft=misfit, **SMALL)
    with EngineProcess(settings, lambda _: None) as process:
        assert process.info.draft_name is None
        assert "made for a vocabulary of 170, but the base has 160" in str(
            process.info.draft_problem
        )
        first, *_, last = process.perform(REQUEST)
        assert isinstance(first, PromptReady)
        assert first.run.speculation_off_reason == process.info.misfit_sentence
        assert isinstance(last, GenerationFinished)
        assert last.stats.token_ids == token_ids(tiny_pipeline)
        with pytest.raises(VlmError, match="EAGLE-3 is off: The draft was made for a vocabulary"):
            list(process.perform(CompareRequest(REQUEST)))


def test_a_lost_child_is_one_sentence(pair: tuple[str, str]) -> None:
    process = EngineProcess(Settings(base=pair[0], **SMALL), lambda _: None)
    process._process.kill()
    with process, pytest.raises(EngineLost, match="start the program again"):
        list(process.perform(REQUEST))
