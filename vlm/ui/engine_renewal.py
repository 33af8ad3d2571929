"""An engine that comes back: what decodes is loaded anew when it is lost, or when staff ask for it.

Comes in: how to load an engine. Goes out: something that does jobs as an `EngineProcess` does, and
outlives it. Loading happens in the thread that asks for the next job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from vlm.errors import EngineLost

Progress = Callable[[str], None]

if TYPE_CHECKING:
    from vlm.config import Settings
    from vlm.engine_process import EngineProcess
    from vlm.environment import Environment
    from vlm.jobs import Job
    from vlm.pipeline import PipelineInfo

    Load = Callable[[Progress], EngineProcess]


class RenewableEngine:
    """Use as a context manager. One job at a time; `renew` and `reloading` from any thread."""

    def __init__(self, load: Load, on_progress: Progress, on_renewal: Progress) -> None:
        """`on_progress` hears of the first loading, `on_renewal` of every later one."""
        self._load = load
        self._on_renewal = on_renewal
        self._engine = load(on_progress)
        self._is_stale = threading.Event()
        # Written by the thread that loads, read by those that serve: one reference, set at once.
        self._reloading: str | None = None

    def __enter__(self) -> RenewableEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._engine.__exit__(kind, error, trace)

    @property
    def info(self) -> PipelineInfo:
        return self._engine.info

    @property
    def settings(self) -> Settings:
        return self._engine.settings

    @property
    def environment(self) -> Environment:
        return self._engine.environment

    def reloading(self) -> str | None:
        """The latest line of progress while the models are loaded again; None else."""
        return self._reloading

    def perform(self, job: Job) -> Iterator[Any]:
        """As `EngineProcess.perform`, in a new process where the last one is gone."""
        if self._is_stale.is_set():
            self._replace()
        try:
            yield from self._engine.perform(job)
        except EngineLost as error:
            self._is_stale.set()
            raise EngineLost(
                "The engine's process ended, perhaps for want of memory: the next question starts "
                "it again."
            ) from error

    def renew(self) -> None:
        """End the engine's process now, also one that hangs; the next job loads another."""
        self._is_stale.set()
        self._engine.kill()

    def _replace(self) -> None:
        self._engine.__exit__(None, None, None)
        self._note("Starting the engine")
        try:
            self._engine = self._load(self._note)
        finally:
            self._reloading = None
        self._is_stale.clear()

    def _note(self, line: str) -> None:
        self._reloading = line
        self._on_renewal(line)
