"""The engine's own thread: it answers requests one after another, away from the page.

Comes in: `GenerationRequest`s from any number of visitors. Goes out: one `Run` a request, whose
events the page drains when it pleases. A slow browser therefore never slows decoding, and two
visitors never decode at once: the single thread, which takes requests in order of arrival, is the
engine's lock. One lasting thread also keeps OpenMP's pool of workers, which every new thread would
build afresh.

Knows nothing of Gradio, and nothing of what an event means.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

from PIL import Image

from vlm.events import Event
from vlm.requests import ChatMessage, GenerationRequest

if TYPE_CHECKING:
    from vlm.config import Settings
    from vlm.pipeline import PipelineInfo

WARM_UP_TOKENS = 8

logger = logging.getLogger(__name__)


class AnsweringPipeline(Protocol):
    """What the page needs of a `VlmPipeline`."""

    @property
    def info(self) -> PipelineInfo: ...

    @property
    def settings(self) -> Settings: ...

    def run(self, request: GenerationRequest) -> Iterator[Event]: ...


class Run:
    """One request on its way through the engine. Any thread may cancel it."""

    def __init__(self, request: GenerationRequest, number: int) -> None:
        self.request = request
        self.number = number
        self.error: Exception | None = None
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._cancelled = threading.Event()
        self._finished = threading.Event()

    def cancel(self) -> None:
        """Ask for the end: decoding stops within one step, a waiting request is never started."""
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

    def drain(self) -> list[Event]:
        """The events since the last call. Only one thread may read."""
        return [self._events.get() for _ in range(self._events.qsize())]

    def execute(self, pipeline: AnsweringPipeline) -> None:
        """Answer the request; called by the engine's thread only."""
        try:
            if not self.is_cancelled:
                self._forward(pipeline.run(self.request))
        except Exception as error:  # noqa: BLE001 - carried to the page, which words it
            self.error = error
        finally:
            self._finished.set()

    def _forward(self, events: Iterator[Event]) -> None:
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
    """Runs requests in order of arrival. Use as a context manager, or call `close`."""

    def __init__(self, pipeline: AnsweringPipeline) -> None:
        self.pipeline = pipeline
        self._waiting: SimpleQueue[Run | None] = SimpleQueue()
        self._lock = threading.Lock()  # around the fields below
        self._closing = False
        self._num_submitted = 0
        self._num_finished = 0
        self._current: Run | None = None
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def __enter__(self) -> EngineThread:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, request: GenerationRequest) -> Run:
        """Queue a request behind those already there."""
        with self._lock:
            run = Run(request, self._num_submitted)
            self._num_submitted += 1
            self._waiting.put(run)
        return run

    def warm_up(self) -> None:
        """Answer a short question, so that the first visitor does not wait for allocations.

        Raises what the pipeline raises.
        """
        blind = self.pipeline.info.no_images_reason is not None
        pictures = () if blind else (Image.new("RGB", (224, 224), "grey"),)
        question = ChatMessage("user", "What is this?", pictures)
        run = self.submit(GenerationRequest((question,), max_new_tokens=WARM_UP_TOKENS))
        run.wait()
        if run.error is not None:
            raise run.error

    def num_ahead(self, run: Run) -> int:
        """Requests that the engine answers before this one; 0 when it is this one's turn."""
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
        while (run := self._next()) is not None:
            run.execute(self.pipeline)
            if run.error is not None:
                logger.info("request %d failed", run.number, exc_info=run.error)
            with self._lock:
                self._current = None
                self._num_finished += 1

    def _next(self) -> Run | None:
        run = self._waiting.get()
        with self._lock:
            self._current = run
            if run is not None and self._closing:
                run.cancel()
        return run
