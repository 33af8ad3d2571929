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
    TracePhase,
    TraceStep,
    TraceSummary,
    TraceTree,
)


class TraceRecorder:
    """Add every event of one run; then `trace`, also of a run that was stopped midway."""

    def __init__(self) -> None:
        self._head: PromptReady | None = None
        self._phases: list[TracePhase] = []
        self._end: TraceEnd | None = None
        self.steps: list[TraceStep] = []

    def add(self, event: Event) -> None:
        if isinstance(event, PromptReady):
            self._head = event
            self._phases = list(event.phases)
        elif isinstance(event, PrefillFinished):
            phase = TracePhase("prefill_base", self._prompt_end(), event.prefill_seconds)
            self._phases.append(phase)
        elif isinstance(event, StepDecoded):
            self._add_step(event)
        elif isinstance(event, GenerationFinished):
            stats = event.stats
            self._end = self._ending(stats.finish_reason, stats.total_seconds, stats.text)

    @property
    def has_begun(self) -> bool:
        """The prompt was ready: there is something to show."""
        return self._head is not None

    def trace(self, cut_by: EndReason = "cancelled") -> Trace:
        """The run so far; one without an end was cut short by `cut_by`.

        Raises `TraceError` before the prompt was ready, since there is nothing yet.
        """
        if self._head is None:
            raise TraceError("The run ended before its prompt was ready, so it left no trace.")
        elapsed = self.steps[-1].elapsed_seconds if self.steps else self._prompt_end()
        text = "".join(step.text for step in self.steps)
        end = self._end or self._ending(cut_by, elapsed, text)
        head, phases, steps = self._head, tuple(self._phases), tuple(self.steps)
        return Trace(head.run, head.images, phases, steps, end)

    def _prompt_end(self) -> float:
        return max((phase.start_seconds + phase.seconds for phase in self._phases), default=0.0)

    def _add_step(self, event: StepDecoded) -> None:
        step = event.step
        if step.draft_prefill_seconds > 0:
            start = self.steps[-1].elapsed_seconds
            phase = TracePhase("prefill_draft", start, step.draft_prefill_seconds)
            self._phases.append(phase)
        self.steps.append(
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
        return TraceEnd(
            reason=reason,
            elapsed_seconds=elapsed_seconds,
            num_tokens=sum(len(step.token_ids) for step in self.steps),
            text=text,
            summary=summarise(self.steps, elapsed_seconds),
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
