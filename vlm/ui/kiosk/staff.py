"""What staff see of a kiosk, and the PIN before it. Nothing here tells one visitor from another."""

from __future__ import annotations

import hmac
import time
from dataclasses import dataclass, field
from typing import Any

from vlm.trace import TraceSummary
from vlm.ui.kiosk.visits import Clock, Refusal
from vlm.ui.memory import START_SMALLER, ran_out_of_memory

MAX_ATTEMPTS = 5
LOCK_SECONDS = 60.0


class StaffGate:
    """Lets in who knows the PIN; after a few wrong ones nobody, for a minute."""

    def __init__(self, pin: str | None, clock: Clock = time.monotonic) -> None:
        self._pin = pin
        self._clock = clock
        self._num_wrong = 0
        self._locked_until = 0.0

    def check(self, pin: object) -> None:
        """Raises `Refusal`, also for the right PIN while the gate is locked."""
        if self._pin is None:
            raise Refusal(404, "There is no staff panel: the program was started without a PIN.")
        wait = self._locked_until - self._clock()
        if wait > 0:
            raise Refusal(429, f"Too many wrong PINs. Try again in {wait:.0f} seconds.")
        if not isinstance(pin, str) or not hmac.compare_digest(pin.encode(), self._pin.encode()):
            raise self._wrong()
        self._num_wrong = 0

    def _wrong(self) -> Refusal:
        self._num_wrong += 1
        if self._num_wrong < MAX_ATTEMPTS:
            return Refusal(403, "That is not the PIN.")
        self._num_wrong = 0
        self._locked_until = self._clock() + LOCK_SECONDS
        return Refusal(429, f"Too many wrong PINs. Try again in {LOCK_SECONDS:.0f} seconds.")


@dataclass(slots=True)
class Figures:
    """Counts since the start."""

    visitors: int = 0
    answers: int = 0
    races: int = 0
    errors: int = 0
    last_error: str = ""
    num_spec_steps: int = 0
    num_accepted: int = 0
    started: float = field(default_factory=time.monotonic)

    def count_answer(self, summary: TraceSummary) -> None:
        self.answers += 1
        self.num_spec_steps += summary.num_spec_steps
        self.num_accepted += summary.num_accepted_draft_tokens

    def count_error(self, error: Exception) -> None:
        self.errors += 1
        self.last_error = f"{type(error).__name__}: {error}"
        if ran_out_of_memory(error):
            self.last_error += f" {START_SMALLER}"

    @property
    def mean_acceptance_length(self) -> float | None:
        """Over all steps of all answers."""
        return 1 + self.num_accepted / self.num_spec_steps if self.num_spec_steps else None

    def to_json(self) -> dict[str, Any]:
        return {
            "visitors": self.visitors,
            "answers": self.answers,
            "races": self.races,
            "errors": self.errors,
            "last_error": self.last_error,
            "mean_acceptance_length": self.mean_acceptance_length,
            "up_seconds": time.monotonic() - self.started,
        }
