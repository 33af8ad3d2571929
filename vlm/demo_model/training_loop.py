"""Drive one training stage: optimizer, schedule, resumable checkpoints, a progress line.

In: a `Stage` and a `Budget`. Out: the stage's weights, in the checkpoint file. This module
does not know what is being learned.
"""

import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

_WARM_UP_STEPS = 40
_FINAL_LEARNING_RATE_SHARE = 0.03
_GRADIENT_NORM = 1.0


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """Parameters that learn at `rate_scale` times the stage's rate."""

    parameters: tuple[nn.Parameter, ...]
    rate_scale: float


class Stage(Protocol):
    """What the loop needs to know of a stage."""

    learning_rate: float
    report_seconds: float

    @property
    def trained(self) -> nn.Module:
        """The parameters that learn, and that a checkpoint holds."""

    def parameter_groups(self) -> list[ParameterGroup]:
        """All trained parameters, by how fast they learn."""

    def loss(self, rng: np.random.Generator) -> tuple[Tensor, int]:
        """The loss of one fresh batch, and how many pictures were in it."""

    def held_out_accuracy(self) -> float:
        """The share of held-out scenes answered rightly."""


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop, whichever comes first; the learning rate decays towards that point."""

    max_minutes: float
    max_steps: int | None = None

    def progress(self, seconds: float, step: int) -> float:
        """How much of the budget is spent, from 0 to 1."""
        by_time = seconds / (60 * self.max_minutes)
        by_step = step / self.max_steps if self.max_steps else 0.0
        return min(1.0, max(by_time, by_step))


@dataclass(slots=True)
class _Counters:
    step: int = 0
    pictures: int = 0
    seconds: float = 0.0


def train(
    stage: Stage, budget: Budget, checkpoint: Path, *, seed: int, checkpoint_seconds: float = 120.0
) -> None:
    """Train until the budget is spent, starting from `checkpoint` where there is one."""
    groups = stage.parameter_groups()
    optimizer = torch.optim.AdamW(
        [{"params": list(group.parameters)} for group in groups],
        lr=stage.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=0.01,
    )
    counters = _Counters()
    if checkpoint.exists():
        counters = _load(checkpoint, stage, optimizer)
        logger.info("resumed %s at step %d", checkpoint.name, counters.step)
    losses: list[float] = []
    last_report = last_save = began = time.perf_counter()
    seconds_before = counters.seconds
    while (progress := budget.progress(counters.seconds, counters.step)) < 1:
        rate_share = _rate_share(progress, counters.step)
        for group, adjusted in zip(groups, optimizer.param_groups, strict=True):
            adjusted["lr"] = stage.learning_rate * rate_share * group.rate_scale
        # A step's pictures depend on its number alone, so a resumed run sees the same ones.
        loss, num_pictures = stage.loss(np.random.default_rng((seed, counters.step)))
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(stage.trained.parameters(), _GRADIENT_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        now = time.perf_counter()
        counters.step += 1
        counters.pictures += num_pictures
        counters.seconds = seconds_before + now - began
        if now - last_report > stage.report_seconds:
            _report(stage, budget, counters, losses)
            losses.clear()
            last_report = time.perf_counter()
        if now - last_save > checkpoint_seconds:
            _save(checkpoint, stage, optimizer, counters)
            last_save = time.perf_counter()
    _save(checkpoint, stage, optimizer, counters)
    _report(stage, budget, counters, losses)


def trained_weights(checkpoint: Path) -> dict[str, Tensor]:
    """The weights in a checkpoint, without the optimizer's state."""
    state = torch.load(checkpoint, weights_only=True)
    weights: dict[str, Tensor] = state["trained"]
    return weights


def _rate_share(progress: float, step: int) -> float:
    warm_up = min(1.0, (step + 1) / _WARM_UP_STEPS)
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    return warm_up * max(_FINAL_LEARNING_RATE_SHARE, cosine)


def _report(stage: Stage, budget: Budget, counters: _Counters, losses: list[float]) -> None:
    progress = budget.progress(counters.seconds, counters.step)
    left_minutes = counters.seconds / 60 * (1 - progress) / max(progress, 1e-6)
    logger.info(
        "step %d  %d pictures  %.0f/s  loss %.3f  held-out %.1f %%  %.1f min done, %.1f left",
        counters.step,
        counters.pictures,
        counters.pictures / max(counters.seconds, 1e-6),
        float(np.mean(losses)) if losses else math.nan,
        100 * stage.held_out_accuracy(),
        counters.seconds / 60,
        left_minutes,
    )


def _save(
    checkpoint: Path,
    stage: Stage,
    optimizer: torch.optim.Optimizer,
    counters: _Counters,
) -> None:
    """Write beside the old file, then replace it: an interruption leaves a whole one."""
    state = {
        "trained": stage.trained.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": counters.step,
        "pictures": counters.pictures,
        "seconds": counters.seconds,
    }
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    partial = checkpoint.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(checkpoint)


def _load(checkpoint: Path, stage: Stage, optimizer: torch.optim.Optimizer) -> _Counters:
    state: dict[str, Any] = torch.load(checkpoint, weights_only=True)
    stage.trained.load_state_dict(state["trained"])
    optimizer.load_state_dict(state["optimizer"])
    return _Counters(state["step"], state["pictures"], state["seconds"])


def batches_of(items: list[Any], size: int) -> Iterator[list[Any]]:
    """Consecutive slices of `items`, the last one possibly shorter."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
