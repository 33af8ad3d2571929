"""A sweep's measurements, summed up by setting, and what they were measured on.

Plain data, as a benchmark's report: the same from a complete sweep, from one that was stopped, and
from a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eagle.types import TreeShape
from vlm.bench_report import Change, Spread, pooled
from vlm.compare import median, ratio
from vlm.conditions import Conditions, Measured, differing, tree_name
from vlm.sweep import SweepEvent, SweepMeasurement, SweepPlan, SweepSkipped, under_budget

Setting = tuple[TreeShape, int | None]  # the tree, and the limit of image tokens of a picture


@dataclass(frozen=True, slots=True)
class SweepCell:
    """One setting, over all its questions."""

    tree: TreeShape
    image_tokens: int | None
    num_prompts: int
    num_identical: int
    decode_speedup: Spread | None
    decode_tokens_per_second: float | None
    end_to_end_tokens_per_second: float | None
    mean_acceptance_length: float | None


@dataclass(frozen=True, slots=True)
class SweepReport:
    """All settings, and the indices of the best ones; None where nothing could be timed."""

    cells: tuple[SweepCell, ...]
    best_decode: int | None  # highest median decode speedup
    best_end_to_end: int | None  # most tokens a second from the question to the end


@dataclass(frozen=True, slots=True)
class SweptOn:
    """A sweep with its conditions: all that its file holds."""

    conditions: Conditions
    is_complete: bool
    report: SweepReport
    skipped: tuple[SweepSkipped, ...]


class SweepBuilder:
    """Add the events of `vlm.sweep.sweep`; `swept` is whole at any moment."""

    def __init__(self, plan: SweepPlan, measured: Measured) -> None:
        self._conditions = Conditions.now(plan, measured, plan.limits)
        self.measurements: list[SweepMeasurement] = []
        self.skipped: list[SweepSkipped] = []

    def add(self, event: SweepEvent) -> None:
        if isinstance(event, SweepMeasurement):
            self.measurements.append(event)
        elif isinstance(event, SweepSkipped):
            self.skipped.append(event)

    def swept(self, *, is_complete: bool) -> SweptOn:
        report = sweep_report(self.measurements)
        return SweptOn(self._conditions, is_complete, report, tuple(self.skipped))


def sweep_report(measurements: Sequence[SweepMeasurement]) -> SweepReport:
    """Cells by image tokens, depth, top-k and size."""
    settings = dict.fromkeys((item.tree, item.image_tokens) for item in measurements)
    cells = tuple(
        _cell(
            tree,
            budget,
            [item for item in measurements if (item.tree, item.image_tokens) == (tree, budget)],
        )
        for tree, budget in sorted(settings, key=_place)
    )
    speedups = [cell.decode_speedup.median if cell.decode_speedup else None for cell in cells]
    return SweepReport(
        cells,
        best_decode=_best(speedups),
        best_end_to_end=_best([cell.end_to_end_tokens_per_second for cell in cells]),
    )


def _place(setting: tuple[TreeShape, int | None]) -> tuple[int, int, int, int]:
    tree, budget = setting
    return budget or 0, tree.draft_step, tree.draft_top_k, tree.verify_tree_size


def _cell(tree: TreeShape, budget: int | None, items: Sequence[SweepMeasurement]) -> SweepCell:
    return SweepCell(
        tree=tree,
        image_tokens=budget,
        num_prompts=len(items),
        num_identical=sum(item.is_identical for item in items),
        decode_speedup=Spread.of(item.decode_speedup for item in items),
        decode_tokens_per_second=median([item.decode_tokens_per_second for item in items]),
        end_to_end_tokens_per_second=median([item.end_to_end_tokens_per_second for item in items]),
        mean_acceptance_length=pooled([item.acceptance for item in items]).mean_acceptance_length,
    )


def _best(values: Sequence[float | None]) -> int | None:
    """Index of the largest; the first of equals."""
    present = [(value, -index) for index, value in enumerate(values) if value is not None]
    return -max(present)[1] if present else None


def sweep_changes(before: SweptOn, now: SweptOn) -> tuple[Change, ...]:
    """Settings that both sweeps have."""
    earlier = {(cell.tree, cell.image_tokens): cell for cell in before.report.cells}
    pairs = [(earlier.get((cell.tree, cell.image_tokens)), cell) for cell in now.report.cells]
    return tuple(_change(old, new) for old, new in pairs if old is not None)


def differing_sweeps(before: SweptOn, now: SweptOn) -> tuple[str, ...]:
    """What else differs between two sweeps, a sentence each."""
    found = differing(before.conditions, now.conditions)
    old, new = set(before.conditions.questions), set(now.conditions.questions)
    if old != new:
        found += (f"questions: {len(old & new)} in both sweeps, {len(old ^ new)} in one only.",)
    return found


def _change(before: SweepCell, now: SweepCell) -> Change:
    return Change(
        name=under_budget(tree_name(now.tree), now.image_tokens),
        base_speed_ratio=None,
        eagle_speed_ratio=ratio(now.decode_tokens_per_second, before.decode_tokens_per_second),
        decode_speedup_before=before.decode_speedup.median if before.decode_speedup else None,
        decode_speedup_now=now.decode_speedup.median if now.decode_speedup else None,
        acceptance_length_before=before.mean_acceptance_length,
        acceptance_length_now=now.mean_acceptance_length,
    )
