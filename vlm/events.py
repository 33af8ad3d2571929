"""The events of a request, in order: one `PrefillFinished`, `StepDecoded`s, `GenerationFinished`.

The command line, the page and the tests read this one stream; every figure that they show comes
from it. Seconds are measured by the engine, counted from the moment the request was accepted.
"""

from __future__ import annotations

from dataclasses import dataclass

from eagle.types import DecodeStep
from vlm.metrics import RunStats


@dataclass(frozen=True, slots=True)
class PrefillFinished:
    """The target has read the prompt; the first token follows at once."""

    num_prompt_tokens: int
    image_tokens: tuple[int, ...]  # one entry a picture, in prompt order
    vision_seconds: float
    prefill_seconds: float  # the target's; the draft's is step 1's `draft_prefill_seconds`
    speculative: bool


@dataclass(frozen=True, slots=True)
class StepDecoded:
    """One pass of the target. `text` is what the answer grew by (it may be empty)."""

    step: DecodeStep
    text: str
    elapsed_seconds: float


@dataclass(frozen=True, slots=True)
class GenerationFinished:
    """The answer is complete. A reader who stops earlier does not get this event."""

    stats: RunStats


Event = PrefillFinished | StepDecoded | GenerationFinished
