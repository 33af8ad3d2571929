"""How long work takes, from how long it took."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf, log

REMEMBERED = 16  # measurements, the latest ones


@dataclass(slots=True)
class Pace:
    """Seconds that amounts of work took, and from these what another amount will take."""

    measured: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def note(self, amount: int, seconds: float) -> None:
        """`amount` took `seconds`; nothing is learned from nothing."""
        if amount > 0:
            self.measured.append((amount, seconds))

    def estimate(self, amount: int) -> float | None:
        """From the measurement nearest in size, the latest of equals, in proportion."""
        if amount == 0:
            return 0.0
        nearest, distance = None, inf
        for known, seconds in self.measured:
            if abs(log(known / amount)) <= distance:
                nearest, distance = seconds * amount / known, abs(log(known / amount))
        return nearest
