"""Soft cross-entropy of every training-time-test step against the base, over the draft vocabulary.

The target of a slot is the base's distribution restricted to the draft vocabulary. Slots where the
base's own choice lies outside that vocabulary teach nothing useful and carry no loss.

One deviation from the released trainers: their mask starts one slot later. The slot that is fed the
first answer token is the first one a decoder ever uses, so here it carries loss too, which matters
for short answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from eagle.training.draft import Draft
from eagle.training.ttt import Batch, shift_left, unroll
from eagle.training.vocabulary import DraftVocabulary

STEP_DECAY = 0.8


class SoftCrossEntropy(torch.autograd.Function):
    """sum over rows of -sum_v p_v log softmax(z)_v, for logits z and targets p, both (M, Vd).

    The gradient, softmax(z) - p, is computed in the forward pass in place of what autograd would
    keep: three float32 copies of the largest tensors in training.
    """

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        wide = logits.to(torch.float32, copy=True)  # overwritten below
        log_z = wide.logsumexp(-1, keepdim=True)
        loss: torch.Tensor = log_z.sum() - torch.linalg.vecdot(wide, target.float()).sum()
        gradient = wide.sub_(log_z).exp_().sub_(target)
        ctx.save_for_backward(gradient.to(logits.dtype))
        return loss

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> tuple[torch.Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_outputs[0].to(gradient.dtype), None


def soft_cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = SoftCrossEntropy.apply(logits, target)  # type: ignore[no-untyped-call]
    return loss


@dataclass(frozen=True, slots=True)
class Target:
    """What the base says, and the parts of it that training needs; frozen."""

    embedding: torch.Tensor  # (V, H)
    head: torch.Tensor  # (Vd, H) rows of the base's head for the draft vocabulary
    vocabulary: DraftVocabulary

    def to(self, device: torch.device) -> Target:
        """The same on another device."""
        vocabulary = DraftVocabulary(self.vocabulary.d2t.to(device), self.vocabulary.t2d.to(device))
        return Target(self.embedding.to(device), self.head.to(device), vocabulary)

    def probabilities(self, batch: Batch) -> torch.Tensor:
        """(B, A, Vd) in the states' dtype, restricted to the draft vocabulary."""
        with torch.no_grad():
            logits = batch.last_states @ self.head.to(batch.last_states.dtype).T
            return torch.softmax(logits.float(), -1).to(batch.last_states.dtype)


def ttt_loss(draft: Draft, target: Target, batch: Batch, steps: int) -> torch.Tensor:
    """Weighted sum of all steps' losses, each divided by the number of answer slots of step 0."""
    probabilities = target.probabilities(batch).flatten(0, 1)
    learnable = batch.answer_valid & target.vocabulary.t2d[batch.greedy_ids]
    device = batch.answer_valid.device
    slots = torch.arange(batch.answer_valid.numel(), device=device).view_as(batch.answer_valid)
    total = torch.zeros((), device=device)
    for step, hidden in enumerate(unroll(draft, target.embedding, batch, steps)):
        mask = shift_left(learnable, step)
        wanted = probabilities[slots[mask] + step]
        total = total + STEP_DECAY**step * soft_cross_entropy(draft.logits(hidden[mask]), wanted)
    return total / batch.answer_valid.sum()
