"""Measure base against EAGLE-3 over many questions, a comparison at a time.

Comes in: a pipeline and a `BenchPlan`. Goes out: progress at every step, a row a question and turn.
Closing the iterator stops within one step; the rows yielded so far are whole, and
`vlm.bench_report` makes the same report of some as of all. The page and the shell run this code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eagle.types import SamplingParams, TreeShape
from visual_encoder.types import ImageTokenLimits
from vlm.compare import CompareRequest, Comparison, LegEvent, Order, Side, compare, require_draft
from vlm.errors import REFUSALS, ConfigError
from vlm.events import GenerationFinished, StepDecoded
from vlm.identity import Verdict
from vlm.metrics import Acceptance, RunStats
from vlm.questions import Question
from vlm.requests import ChatMessage, GenerationRequest
from vlm.trace import Mode

if TYPE_CHECKING:
    from vlm.pipeline import VlmPipeline


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What to measure. Every repeat is one comparison; its order alternates."""

    questions: tuple[Question, ...]
    repeats: int = 1
    max_new_tokens: int = 128
    sampling: SamplingParams = field(default_factory=SamplingParams)
    ignore_eos: bool = False
    limits: ImageTokenLimits | None = None
    tree: TreeShape | None = None

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise ConfigError(f"--repeats must be at least 1, got {self.repeats}.")
        if not self.questions:
            raise ConfigError("There are no questions to measure with: name at least one.")

    @property
    def num_races(self) -> int:
        """Comparisons that a complete run makes."""
        return self.repeats * sum(len(question.turns) for question in self.questions)

    def request(self, messages: tuple[ChatMessage, ...]) -> GenerationRequest:
        return GenerationRequest(
            messages,
            sampling=self.sampling,
            max_new_tokens=self.max_new_tokens,
            ignore_eos=self.ignore_eos,
            limits=self.limits,
            tree=self.tree,
            record_trees=False,
        )


@dataclass(frozen=True, slots=True)
class BenchProgress:
    """Where the measurement stands, at every step of every answer."""

    num_done: int  # comparisons
    num_races: int
    question: str
    mode: Mode
    num_tokens: int  # of the answer that is being written


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One turn of one question: medians over its repeats, and every repeat's ratio."""

    question: str
    category: str
    turn: int  # from 1
    num_prompt_tokens: int
    num_image_tokens: int
    verdict: Verdict
    base: Side
    eagle: Side
    acceptance: Acceptance
    decode_speedups: tuple[float, ...]
    end_to_end_speedups: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BenchSkipped:
    """A turn that was refused, with the sentence that says why; later turns are left out."""

    question: str
    turn: int
    reason: str


BenchEvent = BenchProgress | BenchRow | BenchSkipped


@dataclass
class TurnRuns:
    """The repeats of one turn as they come in."""

    comparisons: list[Comparison] = field(default_factory=list)
    base: list[RunStats] = field(default_factory=list)
    eagle: list[RunStats] = field(default_factory=list)

    def row(self, question: Question, turn: int) -> BenchRow:
        verdicts = [comparison.verdict for comparison in self.comparisons]
        return BenchRow(
            question=question.id,
            category=question.category,
            turn=turn,
            num_prompt_tokens=self.base[0].num_prompt_tokens,
            num_image_tokens=sum(self.base[0].image_tokens),
            verdict=next((v for v in verdicts if not v.is_identical), verdicts[0]),
            base=Side.of(self.base),
            eagle=Side.of(self.eagle),
            acceptance=self.eagle[0].acceptance,
            decode_speedups=_present(c.decode_speedup for c in self.comparisons),
            end_to_end_speedups=_present(c.end_to_end_speedup for c in self.comparisons),
        )


def bench(pipeline: VlmPipeline, plan: BenchPlan) -> Iterator[BenchEvent]:
    """Later turns read the base's earlier answers. Raises `VlmError` when no draft is loaded."""
    require_draft(pipeline)
    num_done, is_warm = 0, False
    for place, question in enumerate(plan.questions):
        messages: tuple[ChatMessage, ...] = ()
        for turn, text in enumerate(question.turns, start=1):
            images = question.images if turn == 1 else ()
            messages += (ChatMessage("user", text, images),)
            runs = TurnRuns()
            try:
                for repeat in range(plan.repeats):
                    order: Order = "BA" if (place + repeat) % 2 else "AB"
                    asked = CompareRequest(plan.request(messages), order, warm_up=not is_warm)
                    for mode, count in _run(pipeline, asked, runs):
                        label = f"{question.id}, turn {turn}"
                        is_warm = True
                        yield BenchProgress(num_done, plan.num_races, label, mode, count)
                    num_done += 1
            except REFUSALS as error:
                yield BenchSkipped(question.id, turn, str(error))
                num_done += plan.repeats * (len(question.turns) - turn + 1) - len(runs.comparisons)
                break
            yield runs.row(question, turn)
            messages += (ChatMessage("assistant", runs.base[0].text),)


def _run(
    pipeline: VlmPipeline, asked: CompareRequest, runs: TurnRuns
) -> Iterator[tuple[Mode, int]]:
    """One comparison into `runs`; yields whose answer grows and its length."""
    num_tokens = 0
    for event in compare(pipeline, asked):
        if isinstance(event, Comparison):
            runs.comparisons.append(event)
        elif isinstance(event, LegEvent) and isinstance(event.event, GenerationFinished):
            (runs.base if event.mode == "base" else runs.eagle).append(event.event.stats)
            num_tokens = 0
        elif isinstance(event, LegEvent) and isinstance(event.event, StepDecoded):
            num_tokens += len(event.event.step.token_ids)
            yield event.mode, num_tokens


def _present(values: Iterator[float | None]) -> tuple[float, ...]:
    return tuple(value for value in values if value is not None)
