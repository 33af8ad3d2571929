"""Benchmark reports as files: JSON (read back again), CSV (a row a turn), Markdown (the tables).

Each says what was measured on what; a CSV in lines before the head that begin with "#".
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vlm.bench_report import BenchReport, Change, Latency, Spread
from vlm.compare import Side
from vlm.conditions import tree_name
from vlm.errors import ConfigError
from vlm.plain_data import PlainDataError, from_plain, to_plain

FORMAT = "eagleeye.bench/2"
MISSING = "n/a"
STOPPED = "Stopped before the end."
SIDE_COLUMNS = (
    "time_to_first_token_seconds",
    "time_per_output_token_seconds",
    "decode_tokens_per_second",
    "end_to_end_tokens_per_second",
)


def write_report(path: Path, report: BenchReport) -> None:
    """In the form that the file's ending names. Raises `ConfigError`."""
    check_report_path(path)
    writers = {".json": to_json, ".csv": to_csv, ".md": to_markdown}
    write_text(path, writers[path.suffix.lower()](report))


def write_text(path: Path, text: str) -> None:
    """Raises `ConfigError`."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"The report cannot be written to {path}: {error.strerror}.") from error


def check_report_path(path: Path) -> None:
    """Raises `ConfigError` for a place where no report can be written, before any work."""
    if path.suffix.lower() not in (".json", ".csv", ".md"):
        raise ConfigError(f"{path} must end in .json, .csv or .md, which names the form to write.")
    if not path.parent.is_dir():
        raise ConfigError(f"The folder {path.parent} of the report does not exist: make it first.")


def to_json(report: BenchReport) -> str:
    groups = [to_plain(group) for group in report.groups]
    values = {"format": FORMAT, "groups": groups} | to_plain(report)
    return json.dumps(values, indent=1) + "\n"


def read_report(path: Path) -> BenchReport:
    """An earlier JSON report. Raises `ConfigError` for anything else."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as a benchmark report: {error}.") from error
    return parse_report(text, str(path))


def parse_report(text: str, name: str) -> BenchReport:
    """A JSON report from a file called `name`."""
    try:
        values: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name} cannot be read as a benchmark report: {error}.") from error
    found = values.pop("format", None) if isinstance(values, dict) else None
    if found != FORMAT:
        raise ConfigError(
            f"{name} has the form {found}, and this version reads {FORMAT}: measure again, or use "
            f"the version that wrote it."
        )
    values.pop("groups", None)  # computed from the rows
    try:
        return from_plain(BenchReport, values)
    except PlainDataError as error:
        raise ConfigError(f"{name} cannot be read as a benchmark report: {error}") from error


def to_csv(report: BenchReport) -> str:
    """A row a turn, medians over its repeats, below the conditions."""
    file = io.StringIO()
    file.writelines(f"# {name}: {text}\n" for name, text in report.facts())
    if not report.is_complete:
        file.write(f"# {STOPPED}\n")
    head = ["category", "question", "turn", "prompt_tokens", "image_tokens", "tokens", "verdict"]
    head += ["decode_speedup", "end_to_end_speedup", "mean_acceptance_length"]
    head += [f"{side}_{name}" for side in ("base", "eagle") for name in SIDE_COLUMNS]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    for row in report.rows:
        speedups = (Spread.of(row.decode_speedups), Spread.of(row.end_to_end_speedups))
        writer.writerow(
            [
                row.category,
                row.question,
                row.turn,
                row.num_prompt_tokens,
                row.num_image_tokens,
                row.base.num_tokens,
                row.verdict.kind,
                *(spread.median if spread else None for spread in speedups),
                row.acceptance.mean_acceptance_length,
                *_side(row.base),
                *_side(row.eagle),
            ]
        )
    return file.getvalue()


def _side(side: Side) -> list[float | None]:
    return [getattr(side, name) for name in SIDE_COLUMNS]


def to_markdown(report: BenchReport) -> str:
    """Tables by category with the conditions below: what a person reads or pastes."""
    speed = _table(
        (
            "",
            "tokens",
            "tok/s base",
            "tok/s EAGLE-3",
            "speedup",
            "end to end",
            "length",
            "identical",
        ),
        [
            (
                item.name,
                str(item.num_tokens),
                _spread(item.base_tokens_per_second, 1),
                _spread(item.eagle_tokens_per_second, 1),
                _spread(item.decode_speedup, 2),
                _spread(item.end_to_end_speedup, 2),
                _number(item.mean_acceptance_length, 2),
                f"{item.num_identical}/{item.num_prompts}",
            )
            for item in report.groups
        ],
    )
    waiting = _table(
        ("", "first token base", "first token EAGLE-3", "per token base", "per token EAGLE-3"),
        [
            (
                item.name,
                _latency(item.base_time_to_first_token),
                _latency(item.eagle_time_to_first_token),
                _latency(item.base_time_per_output_token),
                _latency(item.eagle_time_per_output_token),
            )
            for item in report.groups
        ],
    )
    depths = max((len(item.acceptance_by_position) for item in report.groups), default=0)
    positions = _table(
        ("", *(f"position {depth}" for depth in range(1, depths + 1))),
        [
            (
                item.name,
                *(f"{share:.2f}" for share in item.acceptance_by_position),
                *("0.00",) * (depths - len(item.acceptance_by_position)),
            )
            for item in report.groups
        ],
    )
    parts = [
        f"# Base and EAGLE-3, {report.conditions.date}",
        speed,
        "Medians (quarters); length: mean acceptance length.",
    ]
    parts += [waiting, "Milliseconds, p50 / p95.", positions]
    parts += ["Share of steps that accepted a draft token at that depth.", conditions(report)]
    parts += [
        f"Skipped {item.question}, turn {item.turn}: {item.reason}" for item in report.skipped
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def conditions(report: BenchReport) -> str:
    """Everything that the figures depend on."""
    sentence = report.conditions.sentence(f"{report.repeats} repeats", tree_name(report.tree))
    return sentence if report.is_complete else f"{sentence} {STOPPED}"


def changes_markdown(found: Sequence[Change], conditions: Sequence[str]) -> str:
    """Two reports side by side, and what else differs between them."""
    table = _table(
        (
            "",
            "base, now ÷ before",
            "EAGLE-3, now ÷ before",
            "speedup before",
            "speedup now",
            "length before",
            "length now",
        ),
        [
            (
                item.name,
                _number(item.base_speed_ratio, 2),
                _number(item.eagle_speed_ratio, 2),
                _number(item.decode_speedup_before, 2),
                _number(item.decode_speedup_now, 2),
                _number(item.acceptance_length_before, 2),
                _number(item.acceptance_length_now, 2),
            )
            for item in found
        ],
    )
    return "\n\n".join([table, *conditions]) + "\n"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if len(head) < 2 or not rows:
        return ""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def _number(value: float | None, digits: int) -> str:
    return MISSING if value is None else f"{value:.{digits}f}"


def _spread(value: Spread | None, digits: int) -> str:
    """The median, and the quarters around it where they can be told apart."""
    if value is None:
        return MISSING
    low, median, high = (f"{part:.{digits}f}" for part in (value.p25, value.median, value.p75))
    return median if low == high else f"{median} ({low} to {high})"


def _latency(value: Latency | None) -> str:
    return MISSING if value is None else f"{1000 * value.p50:.0f} / {1000 * value.p95:.0f}"
