"""Which tree, and how many image tokens? Measure every combination on the same questions.

Comes in: a pipeline and a `SweepPlan`. Goes out: progress, and every question's measurements;
`vlm.sweep_report` sums up any number of them. The base alone is timed before and after the settings
of a question, so that a machine that slows down does not favour the settings that came first.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from eagle.errors import EagleConfigError
from eagle.types import SamplingParams, TreeShape
from visual_encoder.types import ImageTokenLimits
from vlm.compare import ratio, require_draft, warm_up
from vlm.errors import REFUSALS, ConfigError
from vlm.events import GenerationFinished, StepDecoded
from vlm.identity import judge
from vlm.metrics import Acceptance, RunStats
from vlm.questions import Question
from vlm.requests import ChatMessage, GenerationRequest

if TYPE_CHECKING:
    from vlm.pipeline import VlmPipeline
    from vlm.prepared import PreparedPrompt


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The values to combine. Only the first turn of a question is asked.

    No `image_tokens` leaves the limit of image tokens per picture that `limits` has; without these
    the pipeline's own hold.
    """

    questions: tuple[Question, ...]
    draft_steps: tuple[int, ...]
    draft_top_ks: tuple[int, ...]
    verify_tree_sizes: tuple[int, ...]
    image_tokens: tuple[int, ...] = ()
    max_new_tokens: int = 64
    sampling: SamplingParams = field(default_factory=SamplingParams)
    ignore_eos: bool = True
    limits: ImageTokenLimits | None = None

    def __post_init__(self) -> None:
        if not self.questions:
            raise ConfigError("There are no questions to measure with: name at least one.")
        if not self.trees:
            raise ConfigError(
                "No combination of draft steps, top-k and tree sizes is possible: a tree holds at "
                "most 1 + top-k + (steps - 1) x top-k x top-k nodes and at least 2."
            )

    @property
    def trees(self) -> tuple[TreeShape, ...]:
        """The combinations that can be drafted; a tree larger than its pool cannot."""
        shapes = []
        grid = itertools.product(self.draft_steps, self.draft_top_ks, self.verify_tree_sizes)
        for draft_step, draft_top_k, size in grid:
            try:
                shapes.append(TreeShape(draft_top_k, draft_step, size))
            except EagleConfigError:
                continue
        return tuple(shapes)

    @property
    def budgets(self) -> tuple[int | None, ...]:
        return self.image_tokens or (None,)

    @property
    def num_runs(self) -> int:
        """Answers of a complete sweep: every tree and the base twice, a question and budget."""
        return len(self.questions) * len(self.budgets) * (len(self.trees) + 2)

    @property
    def num_measurements(self) -> int:
        return len(self.questions) * len(self.budgets) * len(self.trees)


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Where the sweep stands, at every step; `tree` None is the base alone."""

    num_done: int
    num_runs: int
    question: str
    tree: TreeShape | None
    image_tokens: int | None


@dataclass(frozen=True, slots=True)
class SweepMeasurement:
    """One question under one setting, against the base alone around it."""

    question: str
    tree: TreeShape
    image_tokens: int | None  # limit per picture; None: not varied
    is_identical: bool
    decode_speedup: float | None
    decode_tokens_per_second: float | None
    end_to_end_tokens_per_second: float | None
    acceptance: Acceptance


@dataclass(frozen=True, slots=True)
class SweepSkipped:
    """A question that was refused under some limit of image tokens, with the sentence that says
    why. None of its settings counts."""

    question: str
    image_tokens: int | None
    reason: str


def under_budget(name: str, image_tokens: int | None) -> str:
    """A question or tree, and the limit of image tokens where the sweep varies it."""
    return name if image_tokens is None else f"{name}, {image_tokens} image tokens"


SweepEvent = SweepProgress | SweepMeasurement | SweepSkipped


def sweep(pipeline: VlmPipeline, plan: SweepPlan) -> Iterator[SweepEvent]:
    """Closing the iterator stops within one step. Raises `VlmError` when no draft is loaded."""
    require_draft(pipeline)
    with pipeline.lock:
        is_warm = False
        pairs = itertools.product(plan.questions, plan.budgets)
        for place, (question, budget) in enumerate(pairs):
            try:
                for event in _settings(pipeline, plan, place, question, budget, is_warm=is_warm):
                    is_warm = True
                    yield event
            except REFUSALS as error:
                yield SweepSkipped(question.id, budget, str(error))


def _settings(
    pipeline: VlmPipeline,
    plan: SweepPlan,
    place: int,
    question: Question,
    budget: int | None,
    *,
    is_warm: bool,
) -> Iterator[SweepProgress | SweepMeasurement]:
    """One question under every tree, the base alone before and after them."""
    request = _request(pipeline, plan, question, budget)
    prepared = pipeline.prepare(replace(request, encode_anew=True))
    if not is_warm:
        warm_up(pipeline, request, prepared)
    shift = place % len(plan.trees)
    order = (None, *plan.trees[shift:], *plan.trees[:shift], None)
    finished: list[tuple[TreeShape | None, RunStats]] = []
    for index, tree in enumerate(order):
        num_done = place * len(order) + index
        asked = replace(request, use_eagle=tree is not None, tree=tree)
        for event in pipeline.answer(asked, prepared):
            if isinstance(event, StepDecoded):
                yield SweepProgress(num_done, plan.num_runs, question.id, tree, budget)
            elif isinstance(event, GenerationFinished):
                finished.append((tree, event.stats))
    greedy = plan.sampling.is_greedy
    yield from _measurements(pipeline, question, budget, prepared, finished, greedy=greedy)


def _request(
    pipeline: VlmPipeline, plan: SweepPlan, question: Question, budget: int | None
) -> GenerationRequest:
    return GenerationRequest(
        (ChatMessage("user", question.turns[0], question.images),),
        sampling=plan.sampling,
        max_new_tokens=plan.max_new_tokens,
        ignore_eos=plan.ignore_eos,
        limits=_limits(plan.limits or pipeline.settings.limits, budget),
        record_trees=False,
    )


def _limits(limits: ImageTokenLimits, budget: int | None) -> ImageTokenLimits:
    """Where a budget lies beyond the other limits, these give way."""
    if budget is None:
        return limits
    return replace(
        limits,
        min_image_tokens=min(limits.min_image_tokens, budget),
        max_image_tokens=max(limits.max_image_tokens, budget),
        max_image_tokens_per_image=budget,
    )


def _measurements(
    pipeline: VlmPipeline,
    question: Question,
    budget: int | None,
    prepared: PreparedPrompt,
    finished: Sequence[tuple[TreeShape | None, RunStats]],
    *,
    greedy: bool,
) -> Iterator[SweepMeasurement]:
    base = [stats for tree, stats in finished if tree is None]
    rates = [stats.decode_tokens_per_second for stats in base]
    present = [value for value in rates if value is not None]
    base_rate = statistics.fmean(present) if present else None
    for tree, stats in finished:
        if tree is not None:
            verdict = judge(
                pipeline,
                prepared.prompt,
                base[0].token_ids,
                stats.token_ids,
                greedy=greedy,
            )
            yield SweepMeasurement(
                question=question.id,
                tree=tree,
                image_tokens=budget,
                is_identical=verdict.is_identical,
                decode_speedup=ratio(stats.decode_tokens_per_second, base_rate),
                decode_tokens_per_second=stats.decode_tokens_per_second,
                end_to_end_tokens_per_second=stats.end_to_end_tokens_per_second,
                acceptance=stats.acceptance,
            )
