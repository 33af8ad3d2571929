"""Visits of a kiosk: what the server holds of a visitor, and for how long.

A visitor's picture is kept in memory only, one at a time, and nowhere else: ending the visit lets
go of it. A visit ends when its screen says so, or when its screen has not been heard of for a
while. Everything here belongs to the server's event loop; no other thread calls it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vlm.requests import ImageSource
from vlm.ui.engine_thread import Run

MINUTE = 60.0
# A screen says that it is there every few seconds.
SILENCE_SECONDS = 30.0
# More screens than one machine serves; beyond it somebody only opens visits.
MAX_VISITS = 16

Clock = Callable[[], float]


class Refusal(Exception):
    """A request that is answered with a sentence for the visitor."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class RateLimit:
    """At most `per_minute` times within any minute."""

    def __init__(self, per_minute: int, clock: Clock = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._taken: deque[float] = deque()

    def take(self) -> bool:
        """Count one more, or say that it is one too many."""
        now = self._clock()
        while self._taken and now - self._taken[0] >= MINUTE:
            self._taken.popleft()
        if len(self._taken) >= self._per_minute:
            return False
        self._taken.append(now)
        return True


@dataclass(frozen=True, slots=True)
class Asked:
    """The last question of a visit, which a race asks again."""

    text: str
    image: ImageSource | None


@dataclass(slots=True)
class Visit:
    """One visitor. The id is the only key to it and lives in the screen's memory."""

    limit: RateLimit
    last_heard: float
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    picture: bytes | None = None
    asked: Asked | None = None
    run: Run[Any] | None = None

    @property
    def is_busy(self) -> bool:
        return self.run is not None and not (self.run.is_finished or self.run.is_cancelled)

    def stop(self) -> None:
        """The engine stops within a step."""
        if self.run is not None:
            self.run.cancel()
            self.run = None


class Visits:
    """The visits under way."""

    def __init__(
        self, per_minute: int, questions_per_minute: int, clock: Clock = time.monotonic
    ) -> None:
        self._limit = RateLimit(per_minute, clock)
        self._questions_per_minute = questions_per_minute
        self._clock = clock
        self._visits: dict[str, Visit] = {}
        self._is_watched = False

    def __len__(self) -> int:
        return len(self._visits)

    def begin(self) -> Visit:
        """Raises `Refusal` where too many begin, or too many are here."""
        if len(self._visits) >= MAX_VISITS or not self._limit.take():
            raise Refusal(429, "Too many visits begin at once. Please wait a minute.")
        visit = Visit(RateLimit(self._questions_per_minute, self._clock), self._clock())
        self._visits[visit.id] = visit
        if not self._is_watched:
            self._watch()
        return visit

    def get(self, visit_id: str) -> Visit:
        """The visit, whose screen is heard of with this. Raises `Refusal` for one that is over."""
        visit = self._visits.get(visit_id)
        if visit is None:
            raise Refusal(410, "Your visit has ended. Touch the screen to begin again.")
        visit.last_heard = self._clock()
        return visit

    def is_under_way(self, visit_id: str) -> bool:
        if visit_id in self._visits:
            self.get(visit_id)
        return visit_id in self._visits

    def end(self, visit_id: str) -> None:
        """Stop what the visit still does and let go of everything that it brought."""
        visit = self._visits.pop(visit_id, None)
        if visit is not None:
            visit.stop()

    def end_all(self) -> None:
        for visit_id in list(self._visits):
            self.end(visit_id)

    def expire(self) -> None:
        """End the visits whose screens have gone silent."""
        now = self._clock()
        for visit in list(self._visits.values()):
            if now - visit.last_heard > SILENCE_SECONDS:
                self.end(visit.id)

    def _watch(self) -> None:
        """Look again and again, as long as anybody is here."""
        self.expire()
        self._is_watched = bool(self._visits)
        if self._is_watched:
            asyncio.get_running_loop().call_later(SILENCE_SECONDS / 2, self._watch)
