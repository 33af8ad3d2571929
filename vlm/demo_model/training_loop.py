"""Drive one training stage: optimizer, schedule, resumable checkpoints, a progress line.

In: a `Stage` and a `Budget`. Out: the stage's weights, in the checkpoint file. This module
does not know what is being learned.
"""

import json
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

logger = logging.getLogger(__name__)

_WARM_UP_STEPS = 40
_FINAL_LEARNING_RATE_SHARE = 0.03
_GRADIENT_NORM = 1.0
_MIN_MATRIX_SIDE = 32  # an adapter is thinner: few directions to even out


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """Parameters that learn at `rate_scale` times the stage's rate."""

    parameters: tuple[nn.Parameter, ...]
    rate_scale: float


Drawer = Callable[[np.random.Generator], Any]
"""Draws what one step learns from; knows no model, so that other processes can draw ahead."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much one step takes, by what it runs on."""

    image_tokens_per_batch: int  # in the tower stage; 16 a picture of 112 pixels
    tokens_per_batch: int  # through the language model
    text_rows_per_batch: int
    drawing_processes: int  # 0: the training process draws


SCALES = {
    "cpu": Scale(1024, 1600, 8, drawing_processes=0),
    "cuda": Scale(16384, 24576, 96, drawing_processes=12),
}


class Stage(Protocol):
    """What the loop needs to know of a stage."""

    learning_rate: float
    report_seconds: float

    @property
    def draw(self) -> Drawer:
        """What a step learns from, given that step's generator."""

    @property
    def trained(self) -> nn.Module:
        """The parameters that learn, and that a checkpoint holds."""

    def parameter_groups(self) -> list[ParameterGroup]:
        """All trained parameters, by how fast they learn."""

    def loss(self, drawn: Any) -> tuple[Tensor, int]:
        """The loss of what was drawn, and how many pictures were in it."""

    def held_out_accuracy(self) -> dict[str, float]:
        """The share of right answers on held-out scenes, by kind."""


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


class _Steps(Dataset[Any]):
    """What each step draws. It depends on the step's number alone, so a resumed run goes on."""

    def __init__(self, draw: Drawer, seed: int) -> None:
        self._draw = draw
        self._seed = seed

    def __getitem__(self, step: int) -> Any:
        return self._draw(np.random.default_rng((self._seed, step)))


def _unchanged(drawn: Any) -> Any:
    return drawn


def train(
    stage: Stage,
    budget: Budget,
    checkpoint: Path,
    *,
    seed: int,
    checkpoint_seconds: float = 120.0,
    drawing_processes: int = 0,
) -> None:
    """Train until the budget is spent, starting from `checkpoint` where there is one."""
    optimizers = build_optimizers(stage)
    counters = _Counters()
    if checkpoint.exists():
        counters = _load(checkpoint, stage, optimizers)
        logger.info("resumed %s at step %d", checkpoint.name, counters.step)
    losses: list[float] = []
    last_report = last_save = began = time.perf_counter()
    seconds_before = counters.seconds
    upcoming = iter(
        DataLoader(
            _Steps(stage.draw, seed),
            batch_size=None,
            sampler=range(counters.step, sys.maxsize),
            num_workers=drawing_processes,
            collate_fn=_unchanged,
        )
    )
    while (progress := budget.progress(counters.seconds, counters.step)) < 1:
        rate_share = _rate_share(progress, counters.step)
        for group in (group for optimizer in optimizers for group in optimizer.param_groups):
            group["lr"] = stage.learning_rate * rate_share * group["rate_scale"]
        loss, num_pictures = stage.loss(next(upcoming))
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(stage.trained.parameters(), _GRADIENT_NORM)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        now = time.perf_counter()
        counters.step += 1
        counters.pictures += num_pictures
        counters.seconds = seconds_before + now - began
        if now - last_report > stage.report_seconds:
            _report(stage, budget, counters, losses, checkpoint.with_suffix(".jsonl"))
            losses.clear()
            last_report = time.perf_counter()
        if now - last_save > checkpoint_seconds:
            _save(checkpoint, stage, optimizers, counters)
            last_save = time.perf_counter()
    _save(checkpoint, stage, optimizers, counters)
    _report(stage, budget, counters, losses, checkpoint.with_suffix(".jsonl"))


def build_optimizers(stage: Stage) -> list[torch.optim.Optimizer]:
    """Muon for matrices, AdamW for everything else.

    Muon (https://kellerjordan.github.io/posts/muon) with updates as large as AdamW's, so that one
    rate serves both; docs/experiments.md has the comparison.
    """
    matrices: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for group in stage.parameter_groups():
        wide = [p for p in group.parameters if p.ndim == 2 and min(p.shape) >= _MIN_MATRIX_SIDE]
        known = {id(p) for p in wide}
        rest = [p for p in group.parameters if id(p) not in known]
        matrices.append({"params": wide, "rate_scale": group.rate_scale})
        others.append({"params": rest, "rate_scale": group.rate_scale})
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(
            _filled(others), lr=stage.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
        )
    ]
    if _filled(matrices):
        optimizers.append(
            torch.optim.Muon(
                _filled(matrices),
                lr=stage.learning_rate,
                weight_decay=0.01,
                adjust_lr_fn="match_rms_adamw",
            )
        )
    return optimizers


def _filled(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [group for group in groups if group["params"]]


def trained_weights(checkpoint: Path) -> dict[str, Tensor]:
    """The weights in a checkpoint, without the optimizer's state."""
    state = torch.load(checkpoint, weights_only=True, map_location="cpu")
    weights: dict[str, Tensor] = state["trained"]
    return weights


def _rate_share(progress: float, step: int) -> float:
    warm_up = min(1.0, (step + 1) / _WARM_UP_STEPS)
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    return warm_up * max(_FINAL_LEARNING_RATE_SHARE, cosine)


def _report(
    stage: Stage, budget: Budget, counters: _Counters, losses: list[float], curve: Path
) -> None:
    """Log a line, and add one to the learning curve beside the checkpoint."""
    accuracy = stage.held_out_accuracy()
    point = {"step": counters.step, "pictures": counters.pictures, "seconds": counters.seconds}
    with curve.open("a", encoding="utf-8") as file:
        file.write(json.dumps(point | accuracy) + "\n")
    progress = budget.progress(counters.seconds, counters.step)
    left_minutes = counters.seconds / 60 * (1 - progress) / max(progress, 1e-6)
    logger.info(
        "step %d  %d pictures  %.0f/s  loss %.3f  %.1f min done, %.1f left  held-out: %s",
        counters.step,
        counters.pictures,
        counters.pictures / max(counters.seconds, 1e-6),
        float(np.mean(losses)) if losses else math.nan,
        counters.seconds / 60,
        left_minutes,
        "  ".join(f"{kind} {share:.1%}" for kind, share in accuracy.items()),
    )


def _save(
    checkpoint: Path,
    stage: Stage,
    optimizers: list[torch.optim.Optimizer],
    counters: _Counters,
) -> None:
    """Write beside the old file, then replace it: an interruption leaves a whole one."""
    state = {
        "trained": stage.trained.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "step": counters.step,
        "pictures": counters.pictures,
        "seconds": counters.seconds,
    }
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    partial = checkpoint.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(checkpoint)


def _load(checkpoint: Path, stage: Stage, optimizers: list[torch.optim.Optimizer]) -> _Counters:
    state: dict[str, Any] = torch.load(checkpoint, weights_only=True)
    stage.trained.load_state_dict(state["trained"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return _Counters(state["step"], state["pictures"], state["seconds"])


def batches_of(items: list[Any], size: int) -> Iterator[list[Any]]:
    """Consecutive slices of `items`, the last one possibly shorter."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
