"""Reports as the page shows them: pure functions from measurements to JSON, no Gradio.

JSON as one string: Gradio 6.31 sends what differs from the value before, and gets lists inside
lists wrong where they shrink.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from eagle.errors import EagleConfigError
from eagle.types import TreeShape
from vlm.bench_files import to_csv, to_json, to_markdown
from vlm.bench_report import BenchReport, Change, changes, differing_conditions
from vlm.plain_data import to_plain
from vlm.sweep import SweepPlan, under_budget
from vlm.sweep_files import setting, sweep_json, sweep_markdown
from vlm.sweep_report import SweepCell, SweepReport, SweptOn, differing_sweeps, sweep_changes

Shape = tuple[int, int, int]  # draft step, top-k, tree size


def bench_shown(report: BenchReport) -> str:
    """The table, what was skipped, and what all of it was measured on."""
    return _json(
        {
            "kind": "bench",
            "is_complete": report.is_complete,
            "is_sampled": not report.conditions.sampling.is_greedy,
            "groups": [to_plain(group) for group in report.groups],
            "skipped": [to_plain(item) for item in report.skipped],
            "facts": report.facts(),
        }
    )


def bench_changed(before: BenchReport, now: BenchReport) -> str:
    """Both reports over the turns that both have, and what else differs."""
    return _changed("bench", changes(before, now), differing_conditions(before, now))


def sweep_changed(before: SweptOn, now: SweptOn) -> str:
    """Both sweeps over the settings that both have, and what else differs; empty where they have
    none in common."""
    found = sweep_changes(before, now)
    return _changed("sweep", found, differing_sweeps(before, now)) if found else ""


def _changed(kind: str, rows: Sequence[Change], conditions: Sequence[str]) -> str:
    plain = [to_plain(item) for item in rows]
    return _json({"kind": kind, "rows": plain, "conditions": conditions})


def bench_files(report: BenchReport) -> str:
    """What `python -m vlm bench --out` writes, by ending."""
    texts = {"json": to_json(report), "csv": to_csv(report), "md": to_markdown(report)}
    return _json({"name": f"eagleeye-bench-{report.conditions.date}", "texts": texts})


def sweep_files(swept: SweptOn) -> str:
    texts = {"json": sweep_json(swept), "md": sweep_markdown(swept)}
    return _json({"name": f"eagleeye-sweep-{swept.conditions.date}", "texts": texts})


def sweep_shown(
    swept: SweptOn, plan: SweepPlan | None = None, before: SweepReport | None = None
) -> str:
    """The heat map. With a plan the cells to come are there too, and with an earlier sweep the
    ratios to it."""
    report = swept.report
    shapes = [_shape(cell.tree) for cell in report.cells]
    budgets = [cell.image_tokens for cell in report.cells]
    if plan is not None:
        shapes += [_shape(tree) for tree in plan.trees]
        budgets += plan.budgets
    earlier = {} if before is None else {_key(cell): cell for cell in before.cells}
    found = {_key(cell): (index, cell) for index, cell in enumerate(report.cells)}
    best = {"decode": report.best_decode, "end_to_end": report.best_end_to_end}

    def entry(budget: int | None, shape: Shape) -> dict[str, Any]:
        if (budget, shape) in found:
            index, cell = found[budget, shape]
            titles = [name for name, place in best.items() if place == index]
            return _cell(cell, earlier.get((budget, shape))) | {"best": titles}
        return {"state": "empty" if _is_possible(shape) else "impossible"}

    pairs = sorted({shape[:2] for shape in shapes})
    sizes = sorted({shape[2] for shape in shapes})
    maps = [
        {
            "budget": budget,
            "rows": [
                {
                    "step": step,
                    "top_k": top_k,
                    "cells": [entry(budget, (step, top_k, size)) for size in sizes],
                }
                for step, top_k in pairs
            ],
        }
        for budget in sorted(set(budgets), key=lambda budget: budget or 0)
    ]
    return _json(
        {
            "kind": "sweep",
            "is_complete": swept.is_complete,
            "sizes": sizes,
            "maps": maps,
            "facts": [
                *(
                    (f"Skipped {under_budget(item.question, item.image_tokens)}", item.reason)
                    for item in swept.skipped
                ),
                *swept.conditions.facts(),
            ],
        }
    )


def _cell(cell: SweepCell, before: SweepCell | None) -> dict[str, Any]:
    return to_plain(cell) | {
        "state": "measured",
        "setting": setting(cell),
        "before": None if before is None else to_plain(before),
    }


def _shape(tree: TreeShape) -> Shape:
    return tree.draft_step, tree.draft_top_k, tree.verify_tree_size


def _key(cell: SweepCell) -> tuple[int | None, Shape]:
    return cell.image_tokens, _shape(cell.tree)


def _is_possible(shape: Shape) -> bool:
    step, top_k, size = shape
    try:
        TreeShape(top_k, step, size)
    except EagleConfigError:
        return False
    return True


def _json(values: dict[str, Any]) -> str:
    """Raises `ValueError` for NaN and infinity, which a browser refuses and only a loaded file can
    hold."""
    return json.dumps(values, allow_nan=False)
