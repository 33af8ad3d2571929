"""The losses of a step: against their plain formulas, and where nothing is left to learn."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
import torch.nn.functional as F

from eagle.training.losses import LossName, StepLoss

NAMES = get_args(LossName)


def random_pair(rows: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of a draft and probabilities of a base, float64, in parts far from each other."""
    generator = torch.Generator().manual_seed(0)
    logits, theirs = torch.randn(2, rows, 40, generator=generator, dtype=torch.float64) * 3
    return logits.requires_grad_(), (logits.detach() + theirs).softmax(-1)


def plain(step_loss: StepLoss, logits: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    log_q = F.log_softmax(logits, dim=-1)
    alpha = torch.minimum(log_q.exp(), p).sum(-1)
    match step_loss.name:
        case "soft-ce":
            return -(p * log_q).sum()
        case "lk-alpha":
            return -alpha.log().sum()
        case "lk-lambda":
            divergence = (p * (p.log() - log_q)).sum(-1)
            w = step_loss.kl_scale * torch.exp(-step_loss.kl_decay * alpha.mean().detach())
            return (w * divergence + (1 - w) * (1 - alpha)).sum()


@pytest.mark.parametrize("name", NAMES)
def test_value_and_gradient_are_the_plain_formula_s(name: LossName) -> None:
    step_loss = StepLoss(name, kl_scale=0.7, kl_decay=2.0)
    logits, p = random_pair()
    ours, wanted = step_loss(logits, p), plain(step_loss, logits, p)
    torch.testing.assert_close(ours, wanted)
    gradients = [torch.autograd.grad(1.5 * loss, logits)[0] for loss in (ours, wanted)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("name", NAMES)
def test_a_draft_that_agrees_costs_what_it_must(name: LossName) -> None:
    logits, _ = random_pair()
    p = logits.detach().softmax(-1)
    loss = StepLoss(name)(logits, p)
    entropy = torch.special.entr(p).sum()
    wanted = entropy if name == "soft-ce" else torch.zeros_like(entropy)
    torch.testing.assert_close(loss.detach(), wanted)


@pytest.mark.parametrize("name", NAMES)
def test_no_slot_costs_nothing_and_no_overlap_stays_finite(name: LossName) -> None:
    """Long training-time tests have steps in which no answer is left."""
    logits, p = random_pair(rows=0)
    assert StepLoss(name)(logits, p) == 0
    logits = torch.tensor([[0.0, 300.0]], requires_grad=True)
    loss = StepLoss(name)(logits, torch.tensor([[1.0, 0.0]]))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.isfinite()
    assert gradient.isfinite().all()
