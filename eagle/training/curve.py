"""How a draft got better: one JSON line an evaluation, in a file beside the draft.

It is there to plot acceptance against the tokens trained on (`plot_curve.py`). The lines of a run
that was stopped and taken up again are those of a run that was not.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from eagle.errors import EagleError


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """`tokens` are the answer tokens trained on so far, each as often as it was seen; `loss` is
    the training loss, averaged over the steps since the point before; the rest is measured on the
    held-out answers."""

    step: int
    tokens: int
    loss: float | None  # None before the first step
    accuracy: tuple[float, ...]
    acceptance_length: float


def cut_curve(path: Path, step: int) -> None:
    """Drop what an earlier run has written beyond `step`, which this run does again."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in lines if json.loads(line)["step"] <= step]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


def add_point(path: Path, point: CurvePoint) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(point)) + "\n")


def read_curve(path: Path) -> list[CurvePoint]:
    """The points of a curve file, in order. Raises EagleError if it is not there or not one."""
    if not path.exists():
        raise EagleError(f"{path} does not exist; train writes its curve beside the draft.")
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [CurvePoint(**{**row, "accuracy": tuple(row["accuracy"])}) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise EagleError(f"{path} is not a curve that train wrote: {error}") from error
