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

if TYPE_CHECKING:
    from vlm.config import Settings
    from vlm.engine_process import EngineProcess
    from vlm.environment import Environment
    from vlm.jobs import Job
    from vlm.pipeline import PipelineInfo


class RenewableEngine:
    """Use as a context manager. One job at a time; `renew` may be called from any thread."""

    def __init__(self, load: Callable[[], EngineProcess]) -> None:
        self._load = load
        self._engine = load()
        self._is_stale = threading.Event()

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
        self._engine = self._load()
        self._is_stale.clear()
