"""The engine's thread: order, cancelling, errors, closing."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest

from tests.vlm.ui.fakes import FakePipeline
from vlm.events import GenerationFinished, PrefillFinished, PromptReady, StepDecoded
from vlm.requests import ChatMessage, GenerationRequest
from vlm.ui.engine_thread import EngineThread

TIMEOUT = 10.0


def request(text: str = "Hello") -> GenerationRequest:
    return GenerationRequest((ChatMessage("user", text),))


class Gate:
    """Holds a fake pipeline before one step until the test lets it go on."""

    def __init__(self, step: int) -> None:
        self._step = step
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, index: int) -> None:
        if index == self._step:
            self.reached.set()
            assert self.opened.wait(TIMEOUT)


def test_events_arrive_in_order_and_complete() -> None:
    with EngineThread(FakePipeline(accepted=(1, 2))) as engine:
        run = engine.submit(request())
        assert run.wait(TIMEOUT)
        kinds = [type(event) for event in run.drain()]
    assert kinds == [PromptReady, PrefillFinished, *3 * [StepDecoded], GenerationFinished]
    assert run.drain() == []


def test_requests_are_answered_one_at_a_time_in_order() -> None:
    pipeline = FakePipeline(step_seconds=0.001)
    with EngineThread(pipeline) as engine:
        runs = [engine.submit(request(str(number))) for number in range(5)]
        assert all(run.wait(TIMEOUT) for run in runs)
    assert pipeline.most_running == 1
    assert [item.messages[0].text for item in pipeline.requests] == list("01234")


def test_a_waiting_request_knows_how_many_are_before_it() -> None:
    gate = Gate(step=1)
    with EngineThread(FakePipeline(before_step=gate)) as engine:
        first, second, third = (engine.submit(request()) for _ in range(3))
        assert gate.reached.wait(TIMEOUT)
        assert [engine.num_ahead(run) for run in (first, second, third)] == [0, 1, 2]
        gate.opened.set()
        assert third.wait(TIMEOUT)
        assert engine.num_ahead(third) == 0


def test_cancelling_stops_within_one_step() -> None:
    gate = Gate(step=2)
    pipeline = FakePipeline(accepted=[1] * 50, before_step=gate)
    with EngineThread(pipeline) as engine:
        run = engine.submit(request())
        assert gate.reached.wait(TIMEOUT)
        run.cancel()
        gate.opened.set()
        assert run.wait(TIMEOUT)
        steps = [event for event in run.drain() if isinstance(event, StepDecoded)]
    # Steps 0 and 1 were done, step 2 was under way.
    assert len(steps) == 3
    assert pipeline.num_closed_early == 1
    assert pipeline.num_running == 0


def test_a_waiting_request_that_is_cancelled_never_reaches_the_pipeline() -> None:
    gate = Gate(step=1)
    pipeline = FakePipeline(before_step=gate)
    with EngineThread(pipeline) as engine:
        engine.submit(request("first"))
        second = engine.submit(request("second"))
        assert gate.reached.wait(TIMEOUT)
        second.cancel()
        gate.opened.set()
        assert second.wait(TIMEOUT)
    assert [item.messages[0].text for item in pipeline.requests] == ["first"]


def test_an_error_is_carried_to_the_reader_and_the_thread_lives_on() -> None:
    pipeline = FakePipeline(error=RuntimeError("broken"), error_at=2)
    with EngineThread(pipeline) as engine:
        run = engine.submit(request())
        assert run.wait(TIMEOUT)
        assert str(run.error) == "broken"
        assert len([e for e in run.drain() if isinstance(e, StepDecoded)]) == 2
        pipeline.error = None
        after = engine.submit(request())
        assert after.wait(TIMEOUT)
        assert after.error is None


def test_a_slow_reader_does_not_slow_the_engine() -> None:
    with EngineThread(FakePipeline(accepted=[1] * 300)) as engine:
        run = engine.submit(request())
        assert run.wait(TIMEOUT)  # nobody has read anything yet
        assert len(run.drain()) == 304


def test_closing_stops_the_current_run_and_drops_the_waiting_ones() -> None:
    pipeline = FakePipeline(accepted=[1] * 10_000, step_seconds=0.001)
    engine = EngineThread(pipeline)
    first, second = engine.submit(request("first")), engine.submit(request("second"))
    time.sleep(0.05)
    engine.close()
    assert first.is_finished
    assert second.is_finished
    assert len(pipeline.requests) == 1


def test_warming_up_shows_the_pipeline_a_picture_and_passes_its_errors_on() -> None:
    pipeline = FakePipeline()
    with EngineThread(pipeline) as engine:
        engine.warm_up()
        assert pipeline.requests[0].messages[0].images
        pipeline.error = RuntimeError("out of memory")
        with pytest.raises(RuntimeError, match="out of memory"):
            engine.warm_up()


def test_nothing_of_a_finished_job_is_held() -> None:
    """Its pictures would otherwise stay in memory until the next visitor asks something."""

    class Job(GenerationRequest):
        """Can be referred to weakly, which a dataclass with slots cannot."""

    pipeline = FakePipeline()
    with EngineThread(pipeline) as engine:
        job = Job((ChatMessage("user", "Hello"),))
        run = engine.submit(job)
        assert run.wait(TIMEOUT)
        held = weakref.ref(job)
        pipeline.requests.clear()
        del job, run
        deadline = time.monotonic() + TIMEOUT
        while held() is not None and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.01)
        assert held() is None
