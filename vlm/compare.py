"""The base alone against the base with its draft: one prompt, one run after the other.

Comes in: a pipeline and a `CompareRequest`. Goes out: the events of every run as they happen, then
one `Comparison`. The prompt is prepared once and both ways are warmed, so that every leg starts
from the same embeddings and nothing but decoding differs; the time of the prompt counts for both.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from vlm.errors import VlmError
from vlm.events import Event, GenerationFinished
from vlm.identity import Verdict, judge
from vlm.metrics import Acceptance, RunStats
from vlm.requests import GenerationRequest
from vlm.trace import Mode

if TYPE_CHECKING:
    from vlm.pipeline import VlmPipeline
    from vlm.prepared import PreparedPrompt

Order = Literal["AB", "BA", "ABBA"]  # A is the base alone, B the base with its draft
MODES: dict[str, Mode] = {"A": "base", "B": "eagle"}
MODE_NAMES: dict[Mode, str] = {"base": "the base alone", "eagle": "base + EAGLE-3"}
WARM_UP_TOKENS = 8


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """What to ask both ways; `use_eagle` of the request is ignored.

    `warm_up` decodes a few tokens each way first; leave it out only behind another comparison.
    """

    request: GenerationRequest
    order: Order = "AB"
    warm_up: bool = True


@dataclass(frozen=True, slots=True)
class LegEvent:
    """An event of the leg with this index in the order."""

    leg: int
    mode: Mode
    event: Event


@dataclass(frozen=True, slots=True)
class Side:
    """One way of decoding: medians over its legs. None where an answer had a single token."""

    num_tokens: int
    num_steps: int  # passes of the base after the prefill
    time_to_first_token_seconds: float
    time_per_output_token_seconds: float | None
    decode_seconds: float
    total_seconds: float
    decode_tokens_per_second: float | None
    end_to_end_tokens_per_second: float | None

    @classmethod
    def of(cls, legs: Sequence[RunStats]) -> Side:
        return cls(
            num_tokens=len(legs[0].token_ids),
            num_steps=len(legs[0].steps) - 1,
            time_to_first_token_seconds=_median([x.time_to_first_token_seconds for x in legs]),
            time_per_output_token_seconds=median([x.time_per_output_token_seconds for x in legs]),
            decode_seconds=_median([x.decode_seconds for x in legs]),
            total_seconds=_median([x.total_seconds for x in legs]),
            decode_tokens_per_second=median([x.decode_tokens_per_second for x in legs]),
            end_to_end_tokens_per_second=median([x.end_to_end_tokens_per_second for x in legs]),
        )

    @property
    def step_seconds(self) -> float | None:
        """Mean time of a pass."""
        return self.decode_seconds / self.num_steps if self.num_steps else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the race showed. Ratios are above 1 where EAGLE-3 wins."""

    order: Order
    verdict: Verdict
    base: Side
    eagle: Side
    acceptance: Acceptance

    @property
    def decode_speedup(self) -> float | None:
        """Tokens a second after the first token, with the draft by the base's alone."""
        return ratio(self.eagle.decode_tokens_per_second, self.base.decode_tokens_per_second)

    @property
    def end_to_end_speedup(self) -> float | None:
        """The same over the whole answer: pictures, prompt and prefill gain nothing."""
        return ratio(
            self.eagle.end_to_end_tokens_per_second, self.base.end_to_end_tokens_per_second
        )

    @property
    def seconds_saved(self) -> float:
        return self.base.total_seconds - self.eagle.total_seconds

    @property
    def step_cost(self) -> float | None:
        """A step with the draft, in steps of the base alone."""
        return ratio(self.eagle.step_seconds, self.base.step_seconds)

    def explanation(self) -> str:
        """Why the race ended as it did, in one sentence with the formula."""
        length, cost = self.acceptance.mean_acceptance_length, self.step_cost
        if length is None or cost is None or self.decode_speedup is None:
            return "The answer ended with its first tokens, so there was nothing to speed up."
        outcome = "faster" if length > cost else "slower"
        return (
            f"A step with the draft gives {length:.2f} tokens and costs {cost:.2f} steps of the "
            f"base: {length:.2f} ÷ {cost:.2f} = {length / cost:.2f}, so decoding is {outcome}; "
            f"measured {self.decode_speedup:.2f}."
        )

    def sentences(self) -> tuple[str, ...]:
        """The result in words: the verdict, the speed, and why."""
        if self.decode_speedup is None or self.end_to_end_speedup is None:
            return self.verdict.sentence(), self.explanation()
        return (
            self.verdict.sentence(),
            f"Decoding {self.decode_speedup:.2f} times as fast "
            f"({self.base.decode_tokens_per_second:.1f} → "
            f"{self.eagle.decode_tokens_per_second:.1f} tokens/s), end to end "
            f"{self.end_to_end_speedup:.2f} times, {abs(self.seconds_saved):.2f} s "
            f"{'saved' if self.seconds_saved >= 0 else 'lost'}.",
            self.explanation(),
        )


CompareEvent = LegEvent | Comparison


def compare(pipeline: VlmPipeline, asked: CompareRequest) -> Iterator[CompareEvent]:
    """Closing the iterator stops decoding within one step. Raises as `VlmPipeline.run`."""
    require_draft(pipeline)
    with pipeline.lock:
        prepared = pipeline.prepare(replace(asked.request, encode_anew=True))
        if asked.warm_up:
            warm_up(pipeline, asked.request, prepared)
        legs: dict[Mode, list[RunStats]] = {"base": [], "eagle": []}
        for leg, letter in enumerate(asked.order):
            mode = MODES[letter]
            request = replace(asked.request, use_eagle=mode == "eagle")
            for event in pipeline.answer(request, prepared):
                if isinstance(event, GenerationFinished):
                    legs[mode].append(event.stats)
                yield LegEvent(leg, mode, event)
        yield Comparison(
            order=asked.order,
            verdict=_verdict(pipeline, asked.request, prepared, legs),
            base=Side.of(legs["base"]),
            eagle=Side.of(legs["eagle"]),
            acceptance=legs["eagle"][0].acceptance,
        )


def require_draft(pipeline: VlmPipeline) -> None:
    """Raise `VlmError` where the base is alone."""
    if pipeline.draft is None:
        raise VlmError(
            pipeline.info.misfit_sentence
            or "There is nothing to compare: no draft is loaded, so name one with --draft, or "
            "leave out --base for the bundled pair."
        )


def summary(comparisons: Sequence[Comparison]) -> dict[str, float | int | list[float] | None]:
    """What `python -m vlm identity` prints as JSON."""
    verdicts = [comparison.verdict for comparison in comparisons]
    lengths = [c.acceptance.mean_acceptance_length for c in comparisons]
    present = [length for length in lengths if length is not None]
    return {
        "prompts": len(comparisons),
        "identical": sum(verdict.is_identical for verdict in verdicts),
        "tokens": sum(verdict.num_tokens for verdict in verdicts),
        "mean_acceptance_length": statistics.fmean(present) if present else None,
        "median_decode_speedup": median([c.decode_speedup for c in comparisons]),
        "logit_gaps": [v.logit_gap for v in verdicts if v.logit_gap is not None],
    }


def warm_up(pipeline: VlmPipeline, request: GenerationRequest, prepared: PreparedPrompt) -> None:
    """A few tokens each way, so that no leg pays for first allocations."""
    few = replace(request, max_new_tokens=min(WARM_UP_TOKENS, request.max_new_tokens))
    for use_eagle in (False, True):
        for _ in pipeline.answer(replace(few, use_eagle=use_eagle), prepared):
            pass


def _verdict(
    pipeline: VlmPipeline,
    request: GenerationRequest,
    prepared: PreparedPrompt,
    legs: dict[Mode, list[RunStats]],
) -> Verdict:
    """Every leg against the base's first; the first that differs decides."""
    reference, *others = legs["base"] + legs["eagle"]
    verdicts = [
        judge(
            pipeline,
            prepared.prompt,
            reference.token_ids,
            other.token_ids,
            greedy=request.sampling.is_greedy,
        )
        for other in others
    ]
    return next((verdict for verdict in verdicts if not verdict.is_identical), verdicts[-1])


def median(values: Sequence[float | None]) -> float | None:
    """Of the values that are there."""
    present = [value for value in values if value is not None]
    return _median(present) if present else None


def _median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None
