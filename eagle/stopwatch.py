"""The time of one step, split among its parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import torch

from eagle.types import DecodeStep, FinishReason, StepTree

Clock = Callable[[], float]
Part = Literal["draft_prefill", "draft", "verify", "sample"]


def device_clock(device: torch.device) -> Clock:
    """A clock that reads the time when `device` has done all that it was given."""
    if device.type != "cuda":
        return time.perf_counter

    def clock() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return clock


class Stopwatch:
    """Runs from `start` to `step`; `lap` gives the seconds since the last call to a part.

    What no lap names is other work.
    """

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self.start()

    def start(self) -> None:
        self._seconds: dict[Part, float] = {}
        self._last = self._clock()

    def lap(self, part: Part) -> None:
        now = self._clock()
        self._seconds[part] = self._seconds.get(part, 0.0) + now - self._last
        self._last = now

    def step(
        self,
        index: int,
        token_ids: tuple[int, ...],
        finish_reason: FinishReason | None,
        num_drafted: int = 0,
        num_accepted: int = 0,
        tree: StepTree | None = None,
    ) -> DecodeStep:
        """The finished step with the seconds since `start`."""
        return DecodeStep(
            index=index,
            token_ids=token_ids,
            num_drafted=num_drafted,
            num_accepted=num_accepted,
            draft_seconds=self._seconds.get("draft", 0.0),
            verify_seconds=self._seconds.get("verify", 0.0),
            finish_reason=finish_reason,
            sample_seconds=self._seconds.get("sample", 0.0),
            other_seconds=self._clock() - self._last,
            draft_prefill_seconds=self._seconds.get("draft_prefill", 0.0),
            tree=tree,
        )
