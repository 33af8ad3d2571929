"""A pipeline in a process of its own, so that serving a page takes nothing from decoding.

Python runs one thread of a process at a time: a server in the engine's process would hold it up
with every update that it writes. Comes in: `Settings`. Goes out: an object that answers requests as
a `VlmPipeline` does. The child ends with its parent.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

from vlm.config import Settings
from vlm.errors import EngineLost
from vlm.events import Event
from vlm.requests import GenerationRequest

if TYPE_CHECKING:
    from vlm.bench import BenchEvent, BenchPlan
    from vlm.compare import CompareEvent, CompareRequest
    from vlm.environment import Environment
    from vlm.jobs import Job
    from vlm.pipeline import PipelineInfo, VlmPipeline
    from vlm.preview import EncoderPreview, PreviewRequest
    from vlm.sweep import SweepEvent, SweepPlan

CANCEL = "cancel"
SHUTDOWN_SECONDS = 10.0

Answer = tuple[Literal["progress", "ready", "event", "done", "error"], Any]


class EngineProcess:
    """Loads a pipeline in a child process; use as a context manager. One request at a time."""

    def __init__(self, settings: Settings, on_progress: Callable[[str], None]) -> None:
        """Returns when the models are loaded. Raises what loading raises; with a draft that does
        not fit, the base decodes alone and `info` says why."""
        context = multiprocessing.get_context("spawn")
        self._connection, child_end = context.Pipe()
        self._process = context.Process(target=serve, args=(child_end, settings), daemon=True)
        self._process.start()
        child_end.close()  # the child has its own copy; with ours open, its end would go unnoticed
        self.info: PipelineInfo
        self.settings: Settings
        self.environment: Environment
        self.info, self.settings, self.environment = self._wait_until_ready(on_progress)

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()  # ends the child's loop
        self._process.join(SHUTDOWN_SECONDS)
        if self._process.is_alive():
            self._process.terminate()

    @overload
    def perform(self, job: GenerationRequest) -> Iterator[Event]: ...
    @overload
    def perform(self, job: CompareRequest) -> Iterator[CompareEvent]: ...
    @overload
    def perform(self, job: BenchPlan) -> Iterator[BenchEvent]: ...
    @overload
    def perform(self, job: SweepPlan) -> Iterator[SweepEvent]: ...
    @overload
    def perform(self, job: PreviewRequest) -> Iterator[EncoderPreview]: ...
    def perform(self, job: Job) -> Iterator[Any]:
        """As `vlm.jobs.perform`: closing the iterator stops the child within one step."""
        self._send(job)
        running = True
        try:
            while running:
                kind, value = self._receive()
                running = kind == "event"
                if kind == "error":
                    raise value
                if running:
                    yield value
        finally:
            if running:
                self._cancel()

    def kill(self) -> None:
        """End the child at once, from any thread; a job under way raises `EngineLost`."""
        self._process.kill()

    def _cancel(self) -> None:
        """Stop the current request and skip what the child had already sent of it."""
        self._send(CANCEL)
        while self._receive()[0] == "event":
            pass

    def _wait_until_ready(
        self, on_progress: Callable[[str], None]
    ) -> tuple[PipelineInfo, Settings, Environment]:
        while True:
            kind, value = self._receive()
            if kind == "ready":
                info, settings, environment = value
                return info, settings, environment
            if kind == "error":
                raise value
            on_progress(value)

    def _send(self, message: Job | str) -> None:
        try:
            self._connection.send(message)
        except OSError as error:
            raise self._lost() from error

    def _receive(self) -> Answer:
        try:
            answer: Answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._lost() from error
        return answer

    def _lost(self) -> EngineLost:
        self._process.join(SHUTDOWN_SECONDS)
        return EngineLost(
            f"The engine's process ended (exit code {self._process.exitcode}), perhaps for want of "
            f"memory: start the program again."
        )


def serve(connection: Connection, settings: Settings) -> None:
    """The child: load, then answer requests until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    # Imported here: only the child loads models.
    from vlm.loading import load_pipeline

    try:
        pipeline = load_pipeline(
            settings, lambda text: connection.send(("progress", text)), misfit="base-only"
        )
    except Exception as error:  # noqa: BLE001 - raised in the parent
        connection.send(("error", portable(error)))
        return
    connection.send(("ready", (pipeline.info, pipeline.settings, pipeline.environment)))
    try:
        while True:
            message = connection.recv()
            # A cancel that came after the last event has nothing left to stop.
            if message != CANCEL:
                answer(connection, pipeline, message)
            del message  # with its pictures, while the next one is awaited
    except (EOFError, OSError):
        return


def answer(connection: Connection, pipeline: VlmPipeline, job: Job) -> None:
    """Send every event, until the parent cancels."""
    from vlm.jobs import perform

    try:
        with closing(perform(pipeline, job)) as events:  # type: ignore[type-var]  # a generator
            for event in events:
                connection.send(("event", event))
                if connection.poll():
                    connection.recv()  # nothing but CANCEL comes during a request
                    break
    except BrokenPipeError:
        raise  # the parent is gone
    except Exception as error:  # noqa: BLE001 - raised in the parent
        connection.send(("error", portable(error)))
        return
    connection.send(("done", None))


def portable(error: Exception) -> Exception:
    """The error itself, or its words where its class cannot cross to another process: the parent
    would wait for ever, or take the child for lost."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever a foreign class does when it is put together
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
