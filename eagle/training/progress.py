"""How far a long run is, told at a steady pace."""

from __future__ import annotations

import logging
import time

logger = logging.getLogger(__name__)


class Progress:
    """Logs the units done, tokens per second and the time left, at most every `every` seconds.

    `done` units were finished by an earlier run and say nothing about this one's speed.
    """

    def __init__(self, unit: str, total: int, done: int = 0, every: float = 30.0) -> None:
        self._unit, self._total, self._every = unit, total, every
        self._first = self._done = done
        self._tokens = 0
        self._started = self._last = time.monotonic()

    def tokens(self, count: int) -> None:
        self._tokens += count

    def unit_done(self, note: str = "") -> None:
        """`note` says what else is worth knowing now."""
        self._done += 1
        now = time.monotonic()
        if now - self._last >= self._every or self._done == self._total:
            self._last, elapsed = now, now - self._started
            left = elapsed / (self._done - self._first) * (self._total - self._done)
            logger.info(
                "%d of %d %s (%.0f %%)%s, %.0f tokens/s, %.0f minutes left",
                self._done,
                self._total,
                self._unit,
                100 * self._done / self._total,
                f", {note}" if note else "",
                self._tokens / elapsed,
                left / 60,
            )
