"""The events of a request, in order: one `PromptReady`, one `PrefillFinished`, `StepDecoded`s and
one `GenerationFinished`.

The command line, the page and the tests read this one stream; every figure that they show comes
from it. Seconds are measured by the engine, counted from the moment the request was accepted.
"""

from __future__ import annotations

from dataclasses import dataclass

from eagle.types import DecodeStep
from vlm.metrics import RunStats
from vlm.trace import TraceImage, TracePhase, TraceRun


@dataclass(frozen=True, slots=True)
class PromptReady:
    """Pictures and text are merged, the base begins to read: the head of the trace."""

    run: TraceRun
    images: tuple[TraceImage, ...]
    phases: tuple[TracePhase, ...]


@dataclass(frozen=True, slots=True)
class PrefillFinished:
    """The target has read the prompt; the first token follows at once."""

    num_prompt_tokens: int
    image_tokens: tuple[int, ...]  # one entry a picture, in prompt order
    vision_seconds: float
    prefill_seconds: float  # the target's; the draft's is step 1's `draft_prefill_seconds`
    speculative: bool
    num_cached_images: int = 0  # pictures that were not encoded again


@dataclass(frozen=True, slots=True)
class StepDecoded:
    """One pass of the target. `text` is what the answer grew by (it may be empty).

    `pieces` are the characters that each token completed; `tree_texts` a text for every node of the
    step's tree and a last one for the token that the target added, empty without a tree.
    """

    step: DecodeStep
    text: str
    elapsed_seconds: float
    pieces: tuple[str, ...] = ()
    tree_texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationFinished:
    """The answer is complete. A reader who stops earlier does not get this event."""

    stats: RunStats


Event = PromptReady | PrefillFinished | StepDecoded | GenerationFinished
