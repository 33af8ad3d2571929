"""A sweep for people and for programs: a heat map as tables, or JSON, which is read back again."""

from __future__ import annotations

import json
from typing import Any

from vlm.bench_files import MISSING, STOPPED
from vlm.errors import ConfigError
from vlm.plain_data import PlainDataError, from_plain, to_plain
from vlm.sweep import SweepSkipped, under_budget
from vlm.sweep_report import SweepCell, SweepReport, SweptOn

KIND = "eagleeye.sweep/"  # of any version
FORMAT = f"{KIND}2"


def sweep_json(swept: SweptOn) -> str:
    return json.dumps({"format": FORMAT} | to_plain(swept), indent=1) + "\n"


def parse_sweep(text: str, name: str) -> SweptOn:
    """A sweep from a JSON file called `name`. Raises `ConfigError` for anything else."""
    try:
        values: Any = json.loads(text)
        found = values.pop("format", None) if isinstance(values, dict) else None
        if found != FORMAT:
            raise PlainDataError(
                f"it has the form {found}, and this version reads {FORMAT}: measure again, or use "
                f"the version that wrote it."
            )
        swept = from_plain(SweptOn, values)
        _check_best(swept.report)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name} cannot be read as a sweep: {error}") from error
    return swept


def _check_best(report: SweepReport) -> None:
    for index in (report.best_decode, report.best_end_to_end):
        if index is not None and not 0 <= index < len(report.cells):
            raise PlainDataError(f"the best setting has the number {index}, which does not exist.")


def sweep_markdown(swept: SweptOn) -> str:
    """A table an image-token budget: decode speedup by tree size, a line a depth and top-k."""
    report = swept.report
    budgets = dict.fromkeys(cell.image_tokens for cell in report.cells)
    parts = [_heat_map([c for c in report.cells if c.image_tokens == budget]) for budget in budgets]
    if report.cells:
        parts += [_named("Fastest decoding", report, report.best_decode)]
        parts += [_named("Fastest from question to end", report, report.best_end_to_end)]
    else:
        parts += ["Nothing was measured."]
    parts += [skipped_text(item) for item in swept.skipped]
    parts += [swept.conditions.sentence() + ("" if swept.is_complete else f" {STOPPED}")]
    return "\n\n".join(parts) + "\n"


def skipped_text(item: SweepSkipped) -> str:
    return f"Skipped {under_budget(item.question, item.image_tokens)}: {item.reason}"


def setting(cell: SweepCell) -> str:
    """The options that give this setting."""
    tree = cell.tree
    options = (
        f"--draft-step {tree.draft_step} --draft-top-k {tree.draft_top_k} "
        f"--verify-tree-size {tree.verify_tree_size}"
    )
    if cell.image_tokens is None:
        return options
    return f"{options} --max-image-tokens-per-image {cell.image_tokens}"


def _heat_map(cells: list[SweepCell]) -> str:
    sizes = sorted({cell.tree.verify_tree_size for cell in cells})
    rows = sorted({(cell.tree.draft_step, cell.tree.draft_top_k) for cell in cells})
    found = {(c.tree.draft_step, c.tree.draft_top_k, c.tree.verify_tree_size): c for c in cells}
    budget = cells[0].image_tokens
    limit = "the limit of image tokens as set" if budget is None else f"{budget} image tokens"
    lines = [
        f"Decode speedup (mean acceptance length), {limit}",
        "",
        "| step, top-k | " + " | ".join(f"{size} nodes" for size in sizes) + " |",
        "| --- " * (len(sizes) + 1) + "|",
    ]
    for step, top_k in rows:
        entries = [_entry(found.get((step, top_k, size))) for size in sizes]
        lines.append(f"| {step}, {top_k} | " + " | ".join(entries) + " |")
    return "\n".join(lines)


def _entry(cell: SweepCell | None) -> str:
    if cell is None or cell.decode_speedup is None or cell.mean_acceptance_length is None:
        return MISSING
    return f"{cell.decode_speedup.median:.2f} ({cell.mean_acceptance_length:.2f})"


def _named(title: str, report: SweepReport, index: int | None) -> str:
    if index is None:
        return f"{title}: {MISSING}."
    cell = report.cells[index]
    speedup = MISSING if cell.decode_speedup is None else f"{cell.decode_speedup.median:.2f}"
    rate = cell.end_to_end_tokens_per_second
    end_to_end = MISSING if rate is None else f"{rate:.1f} tokens/s"
    return (
        f"{title}: `{setting(cell)}`, decode speedup {speedup}, end to end {end_to_end}, identical "
        f"{cell.num_identical}/{cell.num_prompts}."
    )
