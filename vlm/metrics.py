"""Figures of a run, derived from its decode steps and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from eagle.types import DecodeStep

EndReason = Literal["eos", "stop", "length", "cancelled", "error"]


class CountedStep(Protocol):
    """What acceptance is counted from: a `DecodeStep`, or a step of a trace."""

    @property
    def num_drafted(self) -> int: ...

    @property
    def num_accepted(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How the draft fared, under vLLM's names. The prefill (step 0) verifies nothing: not counted.

    The rate is accepted by drafted tokens; of a tree most nodes exclude each other, so it says
    little there and the length says all.
    """

    mean_acceptance_length: float | None  # 1 + accepted / steps; None without a draft
    draft_acceptance_rate: float | None
    acceptance_histogram: tuple[int, ...]  # steps by number of accepted tokens, from 0
    num_spec_steps: int
    num_accepted_draft_tokens: int
    num_draft_tokens: int

    @classmethod
    def of(cls, steps: Sequence[CountedStep]) -> Acceptance:
        verified = [step for step in steps if step.num_drafted > 0]
        accepted = sum(step.num_accepted for step in verified)
        drafted = sum(step.num_drafted for step in verified)
        counts = Counter(step.num_accepted for step in verified)
        return cls(
            mean_acceptance_length=1 + accepted / len(verified) if verified else None,
            draft_acceptance_rate=accepted / drafted if verified else None,
            acceptance_histogram=tuple(counts[n] for n in range(max(counts, default=-1) + 1)),
            num_spec_steps=len(verified),
            num_accepted_draft_tokens=accepted,
            num_draft_tokens=drafted,
        )

    @property
    def acceptance_by_position(self) -> tuple[float, ...]:
        """Share of steps that accepted a token at depth 1, 2, ...; they sum to the mean less 1."""
        counts = self.acceptance_histogram
        return tuple(sum(counts[depth:]) / self.num_spec_steps for depth in range(1, len(counts)))


@dataclass(frozen=True, slots=True)
class RunStats:
    """A finished answer with its measurements; `to_json` is what `--json` prints."""

    text: str
    token_ids: tuple[int, ...]
    num_prompt_tokens: int
    image_tokens: tuple[int, ...]
    steps: tuple[DecodeStep, ...]  # without their trees
    time_to_first_token_seconds: float
    decode_seconds: float  # from the first token to the last
    total_seconds: float
    finish_reason: EndReason
    num_cached_images: int = 0  # pictures that were not encoded again

    @property
    def acceptance(self) -> Acceptance:
        return Acceptance.of(self.steps)

    @property
    def mean_acceptance_length(self) -> float | None:
        return self.acceptance.mean_acceptance_length

    @property
    def decode_tokens_per_second(self) -> float | None:
        """Tokens after the first, by the time they took; None for an answer of one token."""
        return rate(len(self.token_ids) - 1, self.decode_seconds)

    @property
    def end_to_end_tokens_per_second(self) -> float | None:
        """All tokens, by the time since the request was accepted."""
        return rate(len(self.token_ids), self.total_seconds)

    @property
    def time_per_output_token_seconds(self) -> float | None:
        """Mean time between tokens after the first; None for an answer of one token."""
        return rate(self.decode_seconds, len(self.token_ids) - 1)

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


def rate(amount: float, by: float) -> float | None:
    """`amount` / `by` where both are positive, else None."""
    return amount / by if amount > 0 and by > 0 else None
