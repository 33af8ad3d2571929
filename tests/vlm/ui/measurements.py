"""Benchmarks and sweeps of a `FakePipeline`: the real rows and cells, from scripted answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from eagle.types import TreeShape
from vlm.bench import BenchEvent, BenchPlan, BenchProgress, BenchSkipped, TurnRuns
from vlm.compare import CompareRequest, Comparison, LegEvent
from vlm.events import GenerationFinished, StepDecoded
from vlm.metrics import Acceptance
from vlm.requests import ChatMessage
from vlm.sweep import SweepEvent, SweepMeasurement, SweepPlan, SweepProgress, SweepSkipped

BASE_RATE = 40.0


class Compares(Protocol):
    def compare(self, job: CompareRequest) -> Iterator[LegEvent | Comparison]: ...


def fake_bench(pipeline: Compares, plan: BenchPlan) -> Iterator[BenchEvent]:
    """Every turn's repeats, in the order AB; a turn that begins with "refuse" is skipped."""
    done = 0
    for question in plan.questions:
        for turn, text in enumerate(question.turns, start=1):
            if text.lower().startswith("refuse"):
                yield BenchSkipped(question.id, turn, "The prompt is too long: at most 200 fit.")
                break
            runs = TurnRuns()
            images = question.images if turn == 1 else ()
            asked = CompareRequest(plan.request((ChatMessage("user", text, images),)))
            for _ in range(plan.repeats):
                label = f"{question.id}, turn {turn}"
                num_tokens = 0
                for event in pipeline.compare(asked):
                    take(runs, event)
                    if isinstance(event, LegEvent) and isinstance(event.event, StepDecoded):
                        num_tokens += len(event.event.step.token_ids)
                        yield BenchProgress(done, plan.num_races, label, event.mode, num_tokens)
                done += 1
            yield runs.row(question, turn)


def take(runs: TurnRuns, event: Any) -> None:
    if isinstance(event, Comparison):
        runs.comparisons.append(event)
    elif isinstance(event.event, GenerationFinished):
        (runs.base if event.mode == "base" else runs.eagle).append(event.event.stats)


def fake_sweep(plan: SweepPlan, before_answer: Any) -> Iterator[SweepEvent]:
    """Faster with fewer nodes, so that the best setting is known; skips as `fake_bench`."""
    done = 0
    for question in plan.questions:
        for budget in plan.budgets:
            if question.turns[0].lower().startswith("refuse"):
                yield SweepSkipped(question.id, budget, "The prompt is too long: at most 200 fit.")
                done += len(plan.trees) + 2
                continue
            for tree in (None, *plan.trees, None):
                before_answer()
                yield SweepProgress(done, plan.num_runs, question.id, tree, budget)
                done += 1
            for tree in plan.trees:
                yield measurement(question.id, tree, budget)


def measurement(question: str, tree: TreeShape, budget: int | None) -> SweepMeasurement:
    speedup = 1.5 - 0.05 * tree.verify_tree_size + 0.02 * tree.draft_top_k
    return SweepMeasurement(
        question=question,
        tree=tree,
        image_tokens=budget,
        is_identical=True,
        decode_speedup=speedup,
        decode_tokens_per_second=BASE_RATE * speedup,
        end_to_end_tokens_per_second=BASE_RATE * speedup - (budget or 16) / 8,
        acceptance=Acceptance(1 + 0.1 * tree.verify_tree_size, 0.3, (4, 3, 2), 9, 7, 60),
    )
