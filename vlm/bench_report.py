"""The rows of a benchmark, summed up by category: medians with their spread, nothing else.

A report knows what it was measured on. It is plain data: the same from a complete run, from one
that was stopped, and from a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from eagle.types import TreeShape
from vlm.bench import BenchEvent, BenchPlan, BenchRow, BenchSkipped
from vlm.conditions import Conditions, Facts, Measured, differences, differing, tree_name
from vlm.metrics import Acceptance

ALL = "all"


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some measurements, and the quarters around it."""

    p25: float
    median: float
    p75: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        present = [value for value in values if value is not None]
        if not present:
            return None
        return cls(*(quantile(present, share) for share in (0.25, 0.5, 0.75)))


@dataclass(frozen=True, slots=True)
class Latency:
    """The usual and the slow case, in seconds."""

    p50: float
    p95: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Latency | None:
        present = [value for value in values if value is not None]
        return cls(quantile(present, 0.5), quantile(present, 0.95)) if present else None


@dataclass(frozen=True, slots=True)
class BenchGroup:
    """One line of the table. Acceptance is that of all steps together."""

    name: str
    num_prompts: int
    num_identical: int
    num_tokens: int
    base_tokens_per_second: Spread | None
    eagle_tokens_per_second: Spread | None
    decode_speedup: Spread | None
    end_to_end_speedup: Spread | None
    mean_acceptance_length: float | None
    acceptance_by_position: tuple[float, ...]
    base_time_to_first_token: Latency | None
    eagle_time_to_first_token: Latency | None
    base_time_per_output_token: Latency | None
    eagle_time_per_output_token: Latency | None


@dataclass(frozen=True, slots=True)
class BenchReport:
    """What was measured, on what, and every row. `is_complete` is False for a stopped run."""

    conditions: Conditions
    is_complete: bool
    tree: TreeShape
    repeats: int
    rows: tuple[BenchRow, ...]
    skipped: tuple[BenchSkipped, ...]

    @property
    def groups(self) -> tuple[BenchGroup, ...]:
        """Categories in the order of the questions, then all of them together."""
        names = list(dict.fromkeys(row.category for row in self.rows))
        parts = [(name, [row for row in self.rows if row.category == name]) for name in names]
        if len(parts) != 1 or parts[0][0] != ALL:
            parts.append((ALL, list(self.rows)))
        return tuple(group(name, rows) for name, rows in parts if rows)

    def facts(self) -> Facts:
        """Everything that the figures depend on."""
        return self.conditions.facts(
            ("Repeats", str(self.repeats)), ("Draft tree", tree_name(self.tree))
        )


class ReportBuilder:
    """Add the events of `vlm.bench.bench`; `report` is whole at any moment."""

    def __init__(self, plan: BenchPlan, measured: Measured) -> None:
        self._conditions = Conditions.now(plan, measured, plan.limits)
        self._tree = plan.tree or measured.settings.tree
        self._repeats = plan.repeats
        self.rows: list[BenchRow] = []
        self.skipped: list[BenchSkipped] = []

    def add(self, event: BenchEvent) -> None:
        if isinstance(event, BenchRow):
            self.rows.append(event)
        elif isinstance(event, BenchSkipped):
            self.skipped.append(event)

    def report(self, *, is_complete: bool) -> BenchReport:
        return BenchReport(
            conditions=self._conditions,
            is_complete=is_complete,
            tree=self._tree,
            repeats=self._repeats,
            rows=tuple(self.rows),
            skipped=tuple(self.skipped),
        )


def group(name: str, rows: Sequence[BenchRow]) -> BenchGroup:
    """Sum up rows; a row counts once, a ratio once a repeat."""

    def each(value: Callable[[BenchRow], float | None]) -> list[float | None]:
        return [value(row) for row in rows]

    acceptance = pooled([row.acceptance for row in rows])
    return BenchGroup(
        name=name,
        num_prompts=len(rows),
        num_identical=sum(row.verdict.is_identical for row in rows),
        num_tokens=sum(row.base.num_tokens for row in rows),
        base_tokens_per_second=Spread.of(each(lambda r: r.base.decode_tokens_per_second)),
        eagle_tokens_per_second=Spread.of(each(lambda r: r.eagle.decode_tokens_per_second)),
        decode_speedup=Spread.of(ratio for row in rows for ratio in row.decode_speedups),
        end_to_end_speedup=Spread.of(ratio for row in rows for ratio in row.end_to_end_speedups),
        mean_acceptance_length=acceptance.mean_acceptance_length,
        acceptance_by_position=acceptance.acceptance_by_position,
        base_time_to_first_token=Latency.of(each(lambda r: r.base.time_to_first_token_seconds)),
        eagle_time_to_first_token=Latency.of(each(lambda r: r.eagle.time_to_first_token_seconds)),
        base_time_per_output_token=Latency.of(each(lambda r: r.base.time_per_output_token_seconds)),
        eagle_time_per_output_token=Latency.of(
            each(lambda r: r.eagle.time_per_output_token_seconds)
        ),
    )


def pooled(parts: Sequence[Acceptance]) -> Acceptance:
    """Acceptance over the steps of all parts."""
    longest = max((len(part.acceptance_histogram) for part in parts), default=0)
    histogram = tuple(
        sum(part.acceptance_histogram[n] for part in parts if n < len(part.acceptance_histogram))
        for n in range(longest)
    )
    steps = sum(part.num_spec_steps for part in parts)
    accepted = sum(part.num_accepted_draft_tokens for part in parts)
    drafted = sum(part.num_draft_tokens for part in parts)
    return Acceptance(
        mean_acceptance_length=1 + accepted / steps if steps else None,
        draft_acceptance_rate=accepted / drafted if drafted else None,
        acceptance_histogram=histogram,
        num_spec_steps=steps,
        num_accepted_draft_tokens=accepted,
        num_draft_tokens=drafted,
    )


def quantile(values: Sequence[float], share: float) -> float:
    """Linear between the two nearest values, as numpy's default."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(frozen=True, slots=True)
class Change:
    """A group now and in an earlier report. Ratios are above 1 where it is faster now."""

    name: str
    base_speed_ratio: float | None
    eagle_speed_ratio: float | None
    decode_speedup_before: float | None
    decode_speedup_now: float | None
    acceptance_length_before: float | None
    acceptance_length_now: float | None


def changes(before: BenchReport, now: BenchReport) -> tuple[Change, ...]:
    """Groups that both reports have, over the questions and turns that both have."""
    shared = _keys(before) & _keys(now)
    old = {item.name: item for item in _only(before, shared)}
    new = {item.name: item for item in _only(now, shared)}
    return tuple(_change(old[name], new[name]) for name in new if name in old)


def differing_conditions(before: BenchReport, now: BenchReport) -> tuple[str, ...]:
    """What else differs between two reports, a sentence each: figures are not to be compared
    without them."""
    own = [
        ("tree", tree_name(before.tree), tree_name(now.tree)),
        ("repeats", before.repeats, now.repeats),
    ]
    found = differing(before.conditions, now.conditions) + differences(own)
    left_out = len(_keys(before) ^ _keys(now))
    if left_out:
        found += (f"{left_out} turns are in one report only and are left out.",)
    return found


def _keys(report: BenchReport) -> set[tuple[str, str, int]]:
    return {(row.category, row.question, row.turn) for row in report.rows}


def _only(report: BenchReport, keys: set[tuple[str, str, int]]) -> list[BenchGroup]:
    rows = [row for row in report.rows if (row.category, row.question, row.turn) in keys]
    names = list(dict.fromkeys(row.category for row in rows))
    parts = [group(name, [row for row in rows if row.category == name]) for name in names]
    return [*parts, group(ALL, rows)] if rows else []


def _change(before: BenchGroup, now: BenchGroup) -> Change:
    return Change(
        name=now.name,
        base_speed_ratio=_ratio(now.base_tokens_per_second, before.base_tokens_per_second),
        eagle_speed_ratio=_ratio(now.eagle_tokens_per_second, before.eagle_tokens_per_second),
        decode_speedup_before=before.decode_speedup.median if before.decode_speedup else None,
        decode_speedup_now=now.decode_speedup.median if now.decode_speedup else None,
        acceptance_length_before=before.mean_acceptance_length,
        acceptance_length_now=now.mean_acceptance_length,
    )


def _ratio(now: Spread | None, before: Spread | None) -> float | None:
    return now.median / before.median if now and before and before.median else None
