"""What a measurement has brought so far, the same way for a benchmark and for a sweep.

Comes in: a plan, then its events. Goes out: where it stands, in words, and its report as the page
shows it and as it is saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from vlm.bench import BenchEvent, BenchPlan, BenchProgress, BenchRow
from vlm.bench_report import BenchReport, ReportBuilder
from vlm.compare import MODE_NAMES
from vlm.conditions import tree_name
from vlm.sweep import SweepEvent, SweepPlan, SweepProgress, under_budget
from vlm.sweep_report import SweepBuilder, SweptOn
from vlm.ui.bench import tables
from vlm.ui.engine_thread import Engine

# An earlier measurement, loaded from a file.
Earlier = BenchReport | SweptOn


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a measurement is: answers or races done, and whose answer is being written."""

    num_done: int
    num_all: int
    writing: str


class Tally(Protocol):
    """Both kinds. `changes` and `shown` are empty where there is nothing to show."""

    unit: str  # what `standing` counts
    standing: Standing
    num_results: int  # rows of the report; a change means that there is something new to show

    def add(self, event: Any) -> None: ...

    def shown(self, *, is_complete: bool, earlier: Earlier | None) -> str: ...

    def changes(self, *, is_complete: bool, earlier: Earlier | None) -> str: ...

    def files(self, *, is_complete: bool) -> str: ...

    def verdict(self) -> str: ...


class BenchTally:
    """A benchmark's rows."""

    unit = "Race"

    def __init__(self, plan: BenchPlan, engine: Engine) -> None:
        self._builder = ReportBuilder(plan, engine)
        self._categories = {question.id: question.category for question in plan.questions}
        self.standing = Standing(0, plan.num_races, "")
        self.num_results = 0

    def add(self, event: BenchEvent) -> None:
        self._builder.add(event)
        if isinstance(event, BenchProgress):
            self.standing = Standing(event.num_done, event.num_races, self._writing(event))
        else:
            self.num_results += 1

    def report(self, *, is_complete: bool) -> BenchReport:
        return self._builder.report(is_complete=is_complete)

    def shown(self, *, is_complete: bool, earlier: Earlier | None) -> str:
        if not self.num_results:
            return ""
        return tables.bench_shown(self.report(is_complete=is_complete))

    def changes(self, *, is_complete: bool, earlier: Earlier | None) -> str:
        if not isinstance(earlier, BenchReport) or not self.num_results:
            return ""
        return tables.bench_changed(earlier, self.report(is_complete=is_complete))

    def files(self, *, is_complete: bool) -> str:
        return tables.bench_files(self.report(is_complete=is_complete))

    def verdict(self) -> str:
        rows: list[BenchRow] = self._builder.rows
        same = sum(row.verdict.is_identical for row in rows)
        return f"{same} of {len(rows)} answers identical"

    def _writing(self, event: BenchProgress) -> str:
        category = self._categories.get(event.question.partition(", turn ")[0], "")
        place = f"{category}, question {event.question}" if category else event.question
        return f"{place}: {MODE_NAMES[event.mode]} is writing, {event.num_tokens} tokens"


class SweepTally:
    """A sweep's measurements."""

    unit = "Answer"

    def __init__(self, plan: SweepPlan, engine: Engine) -> None:
        self._plan = plan
        self._builder = SweepBuilder(plan, engine)
        self.standing = Standing(0, plan.num_runs, "")
        self.num_results = 0

    def add(self, event: SweepEvent) -> None:
        if isinstance(event, SweepProgress):
            self.standing = Standing(event.num_done, event.num_runs, sweep_writing(event))
            return
        self._builder.add(event)
        self.num_results += 1

    def swept(self, *, is_complete: bool) -> SweptOn:
        return self._builder.swept(is_complete=is_complete)

    def shown(self, *, is_complete: bool, earlier: Earlier | None) -> str:
        before = earlier.report if isinstance(earlier, SweptOn) else None
        return tables.sweep_shown(self.swept(is_complete=is_complete), self._plan, before)

    def changes(self, *, is_complete: bool, earlier: Earlier | None) -> str:
        if not isinstance(earlier, SweptOn) or not self.num_results:
            return ""
        return tables.sweep_changed(earlier, self.swept(is_complete=is_complete))

    def files(self, *, is_complete: bool) -> str:
        return tables.sweep_files(self.swept(is_complete=is_complete))

    def verdict(self) -> str:
        measurements = self._builder.measurements
        same = sum(item.is_identical for item in measurements)
        return f"{same} of {len(measurements)} answers identical"


def tally_of(plan: BenchPlan | SweepPlan, engine: Engine) -> Tally:
    return BenchTally(plan, engine) if isinstance(plan, BenchPlan) else SweepTally(plan, engine)


def sweep_writing(event: SweepProgress) -> str:
    who = MODE_NAMES["base"] if event.tree is None else tree_name(event.tree)
    return f"question {under_budget(event.question, event.image_tokens)}: {who} is writing"
