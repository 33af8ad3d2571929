"""Watching what the engine does for each visitor, on the server's event loop: a visitor who waits
costs no thread.

Comes in: one view a session, of a job under way. Goes out: its updates, at most
`UPDATES_PER_SECOND` of them, until the job is over or the visitor wants something else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Generic, Protocol, TypeVar

# More would be seen by nobody and, on a machine that decodes on its CPU, taken from decoding.
UPDATES_PER_SECOND = 10
# A closed tab is noticed when a message cannot be sent, so one is sent at least this often.
HEARTBEAT_SECONDS = 0.5


class LiveView(Protocol):
    """How a job looks on the page at any moment."""

    @property
    def is_over(self) -> bool: ...

    def poll(self) -> bool:
        """Take in what happened. Whether it changes what the page shows."""
        ...

    def cancel(self) -> None: ...


V = TypeVar("V", bound=LiveView)


class Watching(Generic[V]):
    """The jobs under way, one a session at most."""

    def __init__(self) -> None:
        self._views: dict[str, V] = {}

    def __contains__(self, session: str) -> bool:
        return session in self._views

    def begin(self, session: str, view: V) -> None:
        self._views[session] = view

    def get(self, session: str) -> V | None:
        return self._views.get(session)

    async def follow(self, session: str) -> AsyncGenerator[V, None]:
        """The view whenever it changed, or a heartbeat is due."""
        view = self._views.get(session)
        if view is None:
            return
        last_sent = time.monotonic()
        try:
            while True:
                await asyncio.sleep(1 / UPDATES_PER_SECOND)
                if self._views.get(session) is not view:
                    return
                changed = view.poll()
                if view.is_over:
                    return
                now = time.monotonic()
                if changed or now - last_sent >= HEARTBEAT_SECONDS:
                    last_sent = now
                    yield view
        finally:
            # Reached also when the tab was closed: the engine must not go on for nobody.
            view.cancel()

    def conclude(self, session: str) -> V | None:
        """The view of a job that is over, which is then forgotten."""
        view = self._views.get(session)
        if view is None or not view.is_over:
            return None
        return self._views.pop(session)

    def cancel(self, session: str) -> None:
        """The engine stops within a step; who follows sees it and ends."""
        view = self._views.get(session)
        if view is not None:
            view.cancel()

    def forget(self, session: str) -> None:
        """Give up the job under way, if there is one."""
        view = self._views.pop(session, None)
        if view is not None:
            view.cancel()
