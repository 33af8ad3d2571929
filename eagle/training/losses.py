"""The loss of every training-time-test step against the base, over the draft vocabulary.

The target of a slot is the base's distribution restricted to the draft vocabulary: a softmax over
its logits there, so it adds up to one. Slots where the base's own choice lies outside that
vocabulary teach nothing useful and carry no loss.

One deviation from the released trainers: their mask starts one slot later. The slot that is fed the
first answer token is the first one a decoder ever uses, so here it carries loss too, which matters
for short answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from eagle.training.draft import Draft
from eagle.training.ttt import Batch, shift_left, unroll
from eagle.training.vocabulary import DraftVocabulary

STEP_DECAY = 0.8
LossName = Literal["soft-ce", "lk-alpha", "lk-lambda"]


@dataclass(frozen=True, slots=True)
class StepLoss:
    """How one training-time-test step is judged.

    "soft-ce" is the cross-entropy with the base. The LK losses (arXiv 2602.23881) aim at alpha =
    sum_v min(p_v, q_v), the share of a sampled draft that the base would accept: "lk-alpha" is
    -log alpha; "lk-lambda" is w KL(p, q) + (1 - w)(1 - alpha), which turns from imitation to
    acceptance as the draft gets better: w = `kl_scale` exp(-`kl_decay` a), a the mean alpha of the
    step's slots, is a constant to the gradient.
    """

    name: LossName = "soft-ce"
    kl_scale: float = 1.0
    kl_decay: float = 1.0

    def __call__(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The sum over M slots, from the draft's logits and the base's p, both (M, Vd)."""
        loss: torch.Tensor = _GradientKept.apply(logits, target, self)  # type: ignore[no-untyped-call]
        return loss

    def with_gradient(
        self, wide: torch.Tensor, target: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Loss and its gradient for float32 logits, which are overwritten."""
        log_z = wide.logsumexp(-1, keepdim=True)
        cross_entropy = log_z.sum() - torch.linalg.vecdot(wide, target.to(wide.dtype)).sum()
        q = wide.sub_(log_z).exp_()
        if self.name == "soft-ce":
            return cross_entropy, q.sub_(target)
        # d alpha / d z = q (m - m.q), where m marks the tokens that get less than the base's share.
        less = q < target
        covered = (q * less).sum(-1, keepdim=True)
        alpha = covered + (target * ~less).sum(-1, keepdim=True, dtype=wide.dtype)
        slope = less.to(wide.dtype).sub_(covered)
        if self.name == "lk-alpha":
            alpha.clamp_(min=torch.finfo(wide.dtype).tiny)
            return -alpha.log().sum(), q.mul_(slope.div_(-alpha))
        w = self.kl_scale * torch.exp(-self.kl_decay * alpha.sum() / max(1, len(alpha)))
        divergence = cross_entropy - torch.special.entr(target.to(wide.dtype)).sum()
        loss = w * divergence + (1 - w) * (1 - alpha).sum()
        return loss, q.mul_(slope.mul_(w - 1).add_(w)).sub_(target * w)


class _GradientKept(torch.autograd.Function):
    """The gradient is computed in the forward pass in place of what autograd would keep: three
    float32 copies of the largest tensors in training."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, target: torch.Tensor, step_loss: StepLoss
    ) -> torch.Tensor:
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)
        loss, gradient = step_loss.with_gradient(wide, target)
        ctx.save_for_backward(gradient.to(logits.dtype))
        return loss

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_outputs[0].to(gradient.dtype), None, None


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


def ttt_loss(
    draft: Draft, target: Target, batch: Batch, steps: int, step_loss: StepLoss
) -> torch.Tensor:
    """Weighted sum of all steps' losses, each divided by the number of answer slots of step 0."""
    probabilities = target.probabilities(batch).flatten(0, 1)
    learnable = batch.answer_valid & target.vocabulary.t2d[batch.greedy_ids]
    device = batch.answer_valid.device
    slots = torch.arange(batch.answer_valid.numel(), device=device).view_as(batch.answer_valid)
    total = torch.zeros((), device=device)
    for step, hidden in enumerate(unroll(draft, target.embedding, batch, steps)):
        mask = shift_left(learnable, step)
        wanted = probabilities[slots[mask] + step]
        total = total + STEP_DECAY**step * step_loss(draft.logits(hidden[mask]), wanted)
    return total / batch.answer_valid.sum()
