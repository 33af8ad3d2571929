"""The engine's own thread: it does one job after another, away from the page.

Comes in: jobs from any number of visitors. Goes out: one `Run` a job, whose
events the page drains when it pleases. A slow browser therefore never slows decoding, and two
visitors never decode at once: the single thread, which takes requests in order of arrival, is the
engine's lock. One lasting thread also keeps OpenMP's pool of workers, which every new thread would
build afresh.

Knows nothing of Gradio, and nothing of what an event means.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from queue import SimpleQueue
from statistics import median
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from PIL import Image

from vlm.events import Event, StepDecoded
from vlm.requests import ChatMessage, GenerationRequest

if TYPE_CHECKING:
    from vlm.bench import BenchEvent, BenchPlan
    from vlm.compare import CompareEvent, CompareRequest
    from vlm.config import Settings
    from vlm.environment import Environment
    from vlm.jobs import Job
    from vlm.pipeline import PipelineInfo
    from vlm.preview import EncoderPreview, PreviewRequest
    from vlm.sweep import SweepEvent, SweepPlan

E = TypeVar("E")

WARM_UP_TOKENS = 24

logger = logging.getLogger(__name__)


class Engine(Protocol):
    """What the page needs of an `EngineProcess`."""

    @property
    def info(self) -> PipelineInfo: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def environment(self) -> Environment: ...

    def perform(self, job: Job) -> Iterator[Any]: ...


class Run(Generic[E]):
    """One job on its way through the engine. Any thread may cancel it."""

    def __init__(self, job: Job, number: int) -> None:
        self.job = job
        self.number = number
        self.error: Exception | None = None
        self._events: SimpleQueue[E] = SimpleQueue()
        self._cancelled = threading.Event()
        self._finished = threading.Event()

    def cancel(self) -> None:
        """Ask for the end: decoding stops within one step, a waiting job is never started."""
        self._cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    @property
    def is_finished(self) -> bool:
        """The engine is done with this run. Read it before `drain`, and nothing is missed."""
        return self._finished.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the engine is done with this run."""
        return self._finished.wait(timeout)

    def drain(self) -> list[E]:
        """The events since the last call. Only one thread may read."""
        return [self._events.get() for _ in range(self._events.qsize())]

    def execute(self, pipeline: Engine) -> None:
        """Do the job; called by the engine's thread only."""
        try:
            if not self.is_cancelled:
                self._forward(pipeline.perform(self.job))
        except Exception as error:  # noqa: BLE001 - carried to the page, which words it
            self.error = error
        finally:
            self._finished.set()

    def _forward(self, events: Iterator[E]) -> None:
        try:
            for event in events:
                self._events.put(event)
                if self.is_cancelled:
                    break
        finally:
            # Closing the generator here, in the thread that runs it, frees the pipeline at once.
            if isinstance(events, Generator):
                events.close()


class EngineThread:
    """Does jobs in order of arrival. Use as a context manager, or call `close`."""

    def __init__(
        self, pipeline: Engine, reloading: Callable[[], str | None] = lambda: None
    ) -> None:
        """`reloading` tells how far a pipeline is that loads its models again, None where not."""
        self.pipeline = pipeline
        self.reloading = reloading
        # A pass of the base alone as it was last measured; None before `warm_up`.
        self.base_step_seconds: float | None = None
        self._waiting: SimpleQueue[Run[Any] | None] = SimpleQueue()
        self._lock = threading.Lock()  # around the fields below
        self._closing = False
        self._num_submitted = 0
        self._num_finished = 0
        self._current: Run[Any] | None = None
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def __enter__(self) -> EngineThread:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @overload
    def submit(self, job: GenerationRequest) -> Run[Event]: ...
    @overload
    def submit(self, job: CompareRequest) -> Run[CompareEvent]: ...
    @overload
    def submit(self, job: BenchPlan) -> Run[BenchEvent]: ...
    @overload
    def submit(self, job: SweepPlan) -> Run[SweepEvent]: ...
    @overload
    def submit(self, job: PreviewRequest) -> Run[EncoderPreview]: ...
    def submit(self, job: Job) -> Run[Any]:
        """Queue a job behind those already there."""
        with self._lock:
            run: Run[Any] = Run(job, self._num_submitted)
            self._num_submitted += 1
            self._waiting.put(run)
        return run

    def warm_up(self) -> None:
        """Answer a short question with the draft and without, so that the first visitor does not
        wait for allocations, and measure a pass of the base alone. Raises what the pipeline raises.
        """
        blind = self.pipeline.info.no_images_reason is not None
        pictures = () if blind else (Image.new("RGB", (224, 224), "grey"),)
        question = ChatMessage("user", "What is this?", pictures)
        for use_eagle in (True, False):
            run = self.submit(
                GenerationRequest(
                    (question,),
                    max_new_tokens=WARM_UP_TOKENS,
                    use_eagle=use_eagle,
                    ignore_eos=True,
                )
            )
            run.wait()
            if run.error is not None:
                raise run.error
            times = [
                event.elapsed_seconds for event in run.drain() if isinstance(event, StepDecoded)
            ]
        self.base_step_seconds = median(after - before for before, after in pairwise(times))

    def num_ahead(self, run: Run[Any]) -> int:
        """Jobs that the engine does before this one; 0 when it is this one's turn."""
        return max(0, run.number - self._num_finished)

    @property
    def is_idle(self) -> bool:
        return self._num_finished == self._num_submitted

    def close(self) -> None:
        """Stop the current run within a step, drop the others and end the thread."""
        with self._lock:
            self._closing = True
            self._waiting.put(None)
            if self._current is not None:
                self._current.cancel()
        self._thread.join()

    def _work(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        """A method of its own, so that nothing of a visitor's is held while the next is awaited."""
        run = self._next()
        if run is None:
            return False
        run.execute(self.pipeline)
        if run.error is not None:
            logger.info("job %d failed", run.number, exc_info=run.error)
        with self._lock:
            self._current = None
            self._num_finished += 1
        return True

    def _next(self) -> Run[Any] | None:
        run = self._waiting.get()
        with self._lock:
            self._current = run
            if run is not None and self._closing:
                run.cancel()
        return run
