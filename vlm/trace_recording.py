"""From the events of a run to its trace, in whichever process the events arrive.

Comes in: the events of a `VlmPipeline` or an `EngineProcess`. Goes out: a `Trace`.
"""

from __future__ import annotations

from collections.abc import Sequence

from vlm.errors import TraceError
from vlm.events import Event, GenerationFinished, PrefillFinished, PromptReady, StepDecoded
from vlm.metrics import Acceptance, EndReason, rate
from vlm.trace import (
    Trace,
    TraceEnd,
    TraceImage,
    TracePhase,
    TraceRecord,
    TraceRun,
    TraceStep,
    TraceSummary,
    TraceTree,
)


class TraceRecorder:
    """Add every event of one run; then `trace`, also of a run that was stopped midway.

    `records` only grows, so that a reader who follows a run asks for those he does not have yet.
    """

    def __init__(self) -> None:
        self.records: list[TraceRecord] = []  # in order of arrival
        self._end: TraceEnd | None = None

    def add(self, event: Event) -> None:
        if isinstance(event, PromptReady):
            self.records += [event.run, *event.images, *event.phases]
        elif isinstance(event, PrefillFinished):
            phase = TracePhase("prefill_base", self._prompt_end(), event.prefill_seconds)
            self.records.append(phase)
        elif isinstance(event, StepDecoded):
            self._add_step(event)
        elif isinstance(event, GenerationFinished):
            stats = event.stats
            self._end = self._ending(stats.finish_reason, stats.total_seconds, stats.text)
            self.records.append(self._end)

    @property
    def has_begun(self) -> bool:
        """The prompt was ready: there is something to show."""
        return bool(self.records)

    @property
    def is_complete(self) -> bool:
        """The answer came to its own end."""
        return self._end is not None

    @property
    def run(self) -> TraceRun | None:
        return next((item for item in self.records if isinstance(item, TraceRun)), None)

    @property
    def steps(self) -> list[TraceStep]:
        return [item for item in self.records if isinstance(item, TraceStep)]

    @property
    def images(self) -> list[TraceImage]:
        return [item for item in self.records if isinstance(item, TraceImage)]

    @property
    def text(self) -> str:
        """The answer so far."""
        if self._end is not None:
            return self._end.text
        return "".join(step.text for step in self.steps)

    def end(self, cut_by: EndReason = "cancelled") -> TraceEnd:
        """How the run ended; one that did not, as though `cut_by` had ended it now."""
        if self._end is not None:
            return self._end
        steps = self.steps
        elapsed = steps[-1].elapsed_seconds if steps else self._prompt_end()
        return self._ending(cut_by, elapsed, self.text)

    def trace(self, cut_by: EndReason = "cancelled") -> Trace:
        """The run so far; one without an end was cut short by `cut_by`.

        Raises `TraceError` before the prompt was ready, since there is nothing yet.
        """
        run = self.run
        if run is None:
            raise TraceError("The run ended before its prompt was ready, so it left no trace.")
        phases = tuple(item for item in self.records if isinstance(item, TracePhase))
        return Trace(run, tuple(self.images), phases, tuple(self.steps), self.end(cut_by))

    def _prompt_end(self) -> float:
        phases = [item for item in self.records if isinstance(item, TracePhase)]
        return max((phase.start_seconds + phase.seconds for phase in phases), default=0.0)

    def _add_step(self, event: StepDecoded) -> None:
        step = event.step
        if step.draft_prefill_seconds > 0:
            start = self.steps[-1].elapsed_seconds
            self.records.append(TracePhase("prefill_draft", start, step.draft_prefill_seconds))
        self.records.append(
            TraceStep(
                index=step.index,
                elapsed_seconds=event.elapsed_seconds,
                token_ids=step.token_ids,
                pieces=event.pieces,
                text=event.text,
                num_drafted=step.num_drafted,
                num_accepted=step.num_accepted,
                draft_seconds=step.draft_seconds,
                verify_seconds=step.verify_seconds,
                sample_seconds=step.sample_seconds,
                other_seconds=step.other_seconds,
                tree=_tree(event),
            )
        )

    def _ending(self, reason: EndReason, elapsed_seconds: float, text: str) -> TraceEnd:
        steps = self.steps
        return TraceEnd(
            reason=reason,
            elapsed_seconds=elapsed_seconds,
            num_tokens=sum(len(step.token_ids) for step in steps),
            text=text,
            summary=summarise(steps, elapsed_seconds),
        )


def summarise(steps: Sequence[TraceStep], total_seconds: float) -> TraceSummary:
    """The figures of a run whose steps these are."""
    acceptance = Acceptance.of(steps)
    num_tokens = sum(len(step.token_ids) for step in steps)
    first = steps[0].elapsed_seconds if steps else None
    decode_seconds = steps[-1].elapsed_seconds - steps[0].elapsed_seconds if steps else 0.0
    return TraceSummary(
        mean_acceptance_length=acceptance.mean_acceptance_length,
        draft_acceptance_rate=acceptance.draft_acceptance_rate,
        acceptance_histogram=acceptance.acceptance_histogram,
        num_spec_steps=acceptance.num_spec_steps,
        num_accepted_draft_tokens=acceptance.num_accepted_draft_tokens,
        num_draft_tokens=acceptance.num_draft_tokens,
        acceptance_by_position=acceptance.acceptance_by_position,
        time_to_first_token_seconds=first,
        time_per_output_token_seconds=rate(decode_seconds, num_tokens - 1),
        decode_seconds=decode_seconds,
        decode_tokens_per_second=rate(num_tokens - 1, decode_seconds),
        end_to_end_tokens_per_second=rate(num_tokens, total_seconds),
    )


def _tree(event: StepDecoded) -> TraceTree | None:
    tree = event.step.tree
    if tree is None:
        return None
    return TraceTree(
        token_ids=tree.token_ids,
        parents=tree.parents,
        draft_probabilities=tree.draft_probabilities,
        target_probabilities=tree.target_probabilities,
        path=tree.path,
        target_token=tree.target_token,
        target_probability=tree.target_probability,
        target_rank=tree.target_rank,
        texts=event.tree_texts[:-1],
        target_text=event.tree_texts[-1],
    )
