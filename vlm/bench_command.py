"""`python -m vlm bench`: the benchmark and the sweep of settings from the shell.

Progress goes to standard error, the result to standard output. What is done is kept, whatever ends
the rest: Ctrl-C, or an error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from vlm.bench import BenchEvent, BenchPlan, BenchProgress, BenchRow, BenchSkipped, bench
from vlm.bench_files import (
    changes_markdown,
    check_report_path,
    read_report,
    to_markdown,
    write_report,
    write_text,
)
from vlm.bench_options import SWEPT
from vlm.bench_report import BenchReport, ReportBuilder, changes, differing_conditions
from vlm.conditions import tree_name
from vlm.config import Settings
from vlm.errors import ConfigError
from vlm.loading import load_pipeline
from vlm.questions import Question, find_questions
from vlm.sweep import (
    SweepEvent,
    SweepMeasurement,
    SweepPlan,
    SweepSkipped,
    sweep,
)
from vlm.sweep_files import skipped_text, sweep_json, sweep_markdown
from vlm.sweep_report import SweepBuilder, SweptOn

T = TypeVar("T")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    for path in arguments.out:
        check_report_path(path)
    if arguments.limit is not None and arguments.limit < 1:
        raise ConfigError(f"--limit must be at least 1, got {arguments.limit}.")
    questions = tuple(find_questions(arguments.questions, arguments.ask)[: arguments.limit])
    swept = any(getattr(arguments, name) for name in SWEPT)
    return (run_sweep if swept else run_bench)(arguments, settings, questions)


def run_bench(
    arguments: argparse.Namespace, settings: Settings, questions: tuple[Question, ...]
) -> int:
    earlier = None if arguments.against is None else read_report(arguments.against)
    plan = BenchPlan(
        questions,
        repeats=arguments.repeats,
        max_new_tokens=settings.max_new_tokens,
        sampling=settings.sampling,
        ignore_eos=settings.ignore_eos,
    )
    pipeline = load_pipeline(settings, on_progress=report)
    builder = ReportBuilder(plan, pipeline)

    def take(event: BenchEvent) -> None:
        builder.add(event)
        if not isinstance(event, BenchProgress):
            report(f"{len(builder.rows) + len(builder.skipped)}: {row_text(event)}")

    is_complete = False
    try:
        is_complete = until_interrupted(bench(pipeline, plan), take)
    finally:
        if builder.rows or builder.skipped:
            put_out(builder.report(is_complete=is_complete), arguments.out, earlier)
    return 0 if is_complete else 130


def put_out(result: BenchReport, paths: Sequence[Path], earlier: BenchReport | None) -> None:
    """The report in its files and on standard output, beside an earlier one where there is one."""
    for path in paths:
        write_report(path, result)
    print(to_markdown(result))  # noqa: T201
    if earlier is not None:
        found = changes_markdown(changes(earlier, result), differing_conditions(earlier, result))
        print(found)  # noqa: T201


def row_text(event: BenchRow | BenchSkipped) -> str:
    """One line of progress."""
    if isinstance(event, BenchSkipped):
        return f"{event.question}, turn {event.turn}, skipped: {event.reason}"
    speedups = ", ".join(f"{speedup:.2f}" for speedup in event.decode_speedups)
    length = event.acceptance.mean_acceptance_length
    return (
        f"{event.category}, {event.question}, turn {event.turn}: {event.verdict.sentence()}; "
        f"speedup {speedups or 'n/a'}, mean acceptance length "
        + ("n/a" if length is None else f"{length:.2f}")
    )


def run_sweep(
    arguments: argparse.Namespace, settings: Settings, questions: tuple[Question, ...]
) -> int:
    refuse_in_sweep(arguments)
    plan = SweepPlan(
        questions,
        draft_steps=arguments.sweep_draft_steps or (settings.draft_step,),
        draft_top_ks=arguments.sweep_draft_top_ks or (settings.draft_top_k,),
        verify_tree_sizes=arguments.sweep_tree_sizes or (settings.verify_tree_size,),
        image_tokens=arguments.sweep_image_tokens or (),
        max_new_tokens=settings.max_new_tokens,
        sampling=settings.sampling,
        ignore_eos=settings.ignore_eos,
    )
    pipeline = load_pipeline(settings, on_progress=report)
    builder = SweepBuilder(plan, pipeline)

    def take(event: SweepEvent) -> None:
        builder.add(event)
        if isinstance(event, SweepSkipped):
            report(skipped_text(event))
        elif isinstance(event, SweepMeasurement):
            speedup = "n/a" if event.decode_speedup is None else f"{event.decode_speedup:.2f}"
            place = f"{len(builder.measurements)}/{plan.num_measurements}"
            report(f"{place}: {event.question}, {tree_name(event.tree)}: speedup {speedup}")

    is_complete = False
    try:
        is_complete = until_interrupted(sweep(pipeline, plan), take)
    finally:
        if builder.measurements or builder.skipped:
            put_out_sweep(builder.swept(is_complete=is_complete), arguments.out)
    return 0 if is_complete else 130


def put_out_sweep(swept: SweptOn, paths: Sequence[Path]) -> None:
    markdown = sweep_markdown(swept)
    for path in paths:
        write_text(path, markdown if path.suffix.lower() == ".md" else sweep_json(swept))
    print(markdown)  # noqa: T201


def refuse_in_sweep(arguments: argparse.Namespace) -> None:
    if arguments.against is not None or arguments.repeats != 1:
        raise ConfigError("A sweep takes no --against and no --repeats: leave them out.")
    if any(path.suffix.lower() == ".csv" for path in arguments.out):
        raise ConfigError("A sweep is written as .json or .md: name another --out.")


def until_interrupted(events: Iterable[T], take: Callable[[T], None]) -> bool:
    """False where Ctrl-C came before the end."""
    try:
        for event in events:
            take(event)
    except KeyboardInterrupt:
        report("Stopped; what was measured until here is kept.")
        return False
    return True


def report(message: str) -> None:
    print(message, file=sys.stderr, flush=True)  # noqa: T201
