"""Figures of a run, derived from its decode steps and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eagle.types import DecodeStep


def mean_acceptance_length(steps: Sequence[DecodeStep]) -> float | None:
    """Tokens per verification pass, bonus token included: 1 + accepted / passes (vLLM's formula).

    None when no step was speculative. The prefill (step 0) verifies nothing and is not counted.
    """
    verified = [step for step in steps if step.num_drafted > 0]
    if not verified:
        return None
    return 1 + sum(step.num_accepted for step in verified) / len(verified)


@dataclass(frozen=True, slots=True)
class RunStats:
    """A finished answer with its measurements; `to_json` is what `--json` prints."""

    text: str
    token_ids: tuple[int, ...]
    num_prompt_tokens: int
    image_tokens: tuple[int, ...]
    steps: tuple[DecodeStep, ...]
    time_to_first_token_seconds: float
    decode_seconds: float  # from the first token to the last
    total_seconds: float
    finish_reason: str  # "eos", "stop", "length" or "cancelled"
    num_cached_images: int = 0  # pictures that were not encoded again

    @property
    def mean_acceptance_length(self) -> float | None:
        return mean_acceptance_length(self.steps)

    @property
    def decode_tokens_per_second(self) -> float | None:
        """Tokens after the first, by the time they took; None for an answer of one token."""
        if len(self.token_ids) < 2 or self.decode_seconds <= 0:
            return None
        return (len(self.token_ids) - 1) / self.decode_seconds

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "token_ids": list(self.token_ids),
            "prompt_tokens": self.num_prompt_tokens,
            "image_tokens": list(self.image_tokens),
            "cached_images": self.num_cached_images,
            "steps": [
                {"token_ids": list(step.token_ids), "num_accepted": step.num_accepted}
                for step in self.steps
            ],
            "mean_acceptance_length": self.mean_acceptance_length,
            "decode_tokens_per_second": self.decode_tokens_per_second,
            "time_to_first_token_seconds": self.time_to_first_token_seconds,
            "finish_reason": self.finish_reason,
        }
