"""Is the draft's text the base's text? Decided on token ids, and what differs is explained.

In float32 nothing differs; in half precision two tokens may lie within a rounding step of each
other, a near-tie, and either is as good as the other. With sampling on, texts may differ freely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from eagle.types import MergedPrompt

if TYPE_CHECKING:
    from vlm.pipeline import VlmPipeline

# Each of two logits may be off by a rounding step of the number format.
ROUNDING_STEPS = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """Two answers to one prompt, the base's and EAGLE's, compared token by token.

    The tokens, the gap (the base's logit of its own next token less that of EAGLE's) and what the
    number format explains are those at the first difference; None where there is none, where one
    answer ends, or where sampling makes them meaningless.
    """

    kind: Literal["identical", "tie", "fault", "sampled"]
    num_same: int
    num_tokens: int  # of the base's answer
    base_token: int | None = None
    eagle_token: int | None = None
    logit_gap: float | None = None
    rounding: float | None = None

    @property
    def is_identical(self) -> bool:
        return self.kind == "identical"

    def sentence(self) -> str:
        count = f"{self.num_same}/{self.num_tokens} tokens"
        if self.kind == "identical":
            return f"IDENTICAL {count}"
        if self.kind == "sampled":
            return (
                f"Same for {count}, then other words: with sampling on, base and EAGLE-3 draw from "
                f"the same distribution, but use the seed's random numbers in another order."
            )
        if self.logit_gap is None or self.rounding is None:
            return f"DIFFERENT after {count}: one answer ends there, which is a fault."
        gap = f"the base's logits of the two next tokens lie {abs(self.logit_gap):.4f} apart"
        if self.kind == "tie":
            return f"Same for {count}, then a tie: {gap}, within rounding ({self.rounding:.4f})."
        return (
            f"DIFFERENT after {count}: {gap}, more than rounding ({self.rounding:.4f}) explains, "
            f"which is a fault."
        )


def judge(
    pipeline: VlmPipeline,
    prompt: MergedPrompt,
    base_ids: Sequence[int],
    eagle_ids: Sequence[int],
    *,
    greedy: bool,
) -> Verdict:
    """Compare two answers to `prompt`; a first difference costs one prefill of the base."""
    same = first_difference(base_ids, eagle_ids)
    if same == len(base_ids) == len(eagle_ids):
        return Verdict("identical", same, len(base_ids))
    if not greedy:
        return Verdict("sampled", same, len(base_ids))
    if same == min(len(base_ids), len(eagle_ids)):
        return Verdict("fault", same, len(base_ids))
    logits = _logits_after(pipeline, prompt, base_ids[:same])
    ours, theirs = base_ids[same], eagle_ids[same]
    largest = max(abs(float(logits[ours])), abs(float(logits[theirs])))
    rounding = ROUNDING_STEPS * torch.finfo(pipeline.language_model.dtype).eps * largest
    gap = float(logits[ours] - logits[theirs])
    kind: Literal["tie", "fault"] = "tie" if abs(gap) <= rounding else "fault"
    return Verdict(kind, same, len(base_ids), ours, theirs, gap, rounding)


def first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """Number of tokens that both begin with."""
    pairs = zip(ours, theirs, strict=False)
    shorter = min(len(ours), len(theirs))
    return next((at for at, (left, right) in enumerate(pairs) if left != right), shorter)


def _logits_after(
    pipeline: VlmPipeline, prompt: MergedPrompt, generated: Sequence[int]
) -> torch.Tensor:
    """The base's logits (V,) behind the prompt and the tokens generated so far."""
    model = pipeline.language_model
    more = torch.tensor(generated, dtype=torch.int64, device=model.device)
    embeds = model.embed(more)
    slots = torch.arange(len(prompt), len(prompt) + len(more), device=model.device)
    extended = MergedPrompt(
        torch.cat((prompt.input_ids, more)),
        torch.cat((prompt.inputs_embeds, embeds)),
        torch.cat((prompt.draft_embeds, embeds)),
        torch.cat((prompt.position_ids, (slots + prompt.rope_delta).expand(3, -1)), dim=1),
        prompt.rope_delta,
    )
    return model.prefill(extended, pipeline.cache).logits[-1].float()
