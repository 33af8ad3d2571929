"""Reports as the page shows them: pure functions from measurements to JSON, no Gradio.

JSON as one string: Gradio 6.31 sends what differs from the value before, and gets lists inside
lists wrong where they shrink.
"""

from __future__ import annotations

import json
from typing import Any

from eagle.errors import EagleConfigError
from eagle.types import TreeShape
from vlm.bench_files import to_csv, to_json, to_markdown
from vlm.bench_report import BenchReport, changes, differing_conditions
from vlm.environment import Environment
from vlm.plain_data import to_plain
from vlm.sweep import SweepCell, SweepPlan, SweepReport
from vlm.sweep_files import SweptOn, setting, sweep_json, sweep_markdown

Facts = list[tuple[str, str]]
Shape = tuple[int, int, int]  # draft step, top-k, tree size


def bench_shown(report: BenchReport) -> str:
    """The table, what was skipped, and what all of it was measured on."""
    return _json(
        {
            "kind": "bench",
            "is_complete": report.is_complete,
            "is_sampled": not report.sampling.is_greedy,
            "groups": [to_plain(group) for group in report.groups],
            "skipped": [to_plain(item) for item in report.skipped],
            "facts": bench_facts(report),
        }
    )


def bench_facts(report: BenchReport) -> Facts:
    tree, sampling = report.tree, report.sampling
    how = "greedy"
    if not sampling.is_greedy:
        how = (
            f"temperature {sampling.temperature:g}, top-p {sampling.top_p:g}, "
            f"top-k {sampling.top_k}, seed {sampling.seed}"
        )
    return [
        ("Measured", report.started.replace("T", " ")),
        ("Base", report.base),
        ("Draft", report.draft or "none"),
        ("Numbers", f"{report.dtype} on {report.device}"),
        ("Decoding", f"{how}, at most {report.max_new_tokens} tokens"),
        ("Repeats", str(report.repeats)),
        (
            "Draft tree",
            f"depth {tree.draft_step}, top-k {tree.draft_top_k}, {tree.verify_tree_size} tokens",
        ),
        *environment_facts(report.environment),
    ]


def environment_facts(environment: Environment) -> Facts:
    where = f"{environment.processor}, {environment.threads} of {environment.cpu_cores} threads"
    if environment.gpu:
        where = f"{environment.gpu}, CUDA {environment.cuda}; {where}"
    return [
        ("Machine", where),
        (
            "Software",
            f"torch {environment.torch_version}, Python {environment.python_version}, "
            f"{environment.system}",
        ),
        ("EagleEye", f"{environment.version}, commit {environment.commit or 'unknown'}"),
    ]


def bench_changes(before: BenchReport, now: BenchReport) -> str:
    """Both reports over the turns that both have, and what else differs."""
    return _json(
        {
            "kind": "bench",
            "rows": [to_plain(item) for item in changes(before, now)],
            "conditions": differing_conditions(before, now),
        }
    )


def bench_files(report: BenchReport) -> str:
    """What `python -m vlm bench --out` writes, by ending."""
    texts = {"json": to_json(report), "csv": to_csv(report), "md": to_markdown(report)}
    return _json({"name": f"eagleeye-bench-{report.started[:10]}", "texts": texts})


def sweep_files(swept: SweptOn) -> str:
    texts = {"json": sweep_json(swept), "md": sweep_markdown(swept)}
    return _json({"name": "eagleeye-sweep", "texts": texts})


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
                *((f"Skipped {item.question}", item.reason) for item in swept.skipped),
                *environment_facts(swept.environment),
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
