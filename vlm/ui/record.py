"""What is known of an answer so far: the events of one run, added up.

Comes in: events. Goes out: `RunStats` at any moment, also for an answer that was stopped, whose
stream ends without a `GenerationFinished`. The formulas are those of `vlm.metrics`.
"""

from __future__ import annotations

from vlm.events import Event, GenerationFinished, PrefillFinished, StepDecoded
from vlm.metrics import RunStats


class RunRecord:
    """The events of one run. `stats` is None until the first token."""

    def __init__(self) -> None:
        self.prefill: PrefillFinished | None = None
        self.steps: list[StepDecoded] = []
        self.text = ""
        self._final: RunStats | None = None

    def add(self, event: Event) -> None:
        if isinstance(event, PrefillFinished):
            self.prefill = event
        elif isinstance(event, StepDecoded):
            self.steps.append(event)
            self.text += event.text
        elif isinstance(event, GenerationFinished):
            self._final = event.stats
            self.text = event.stats.text

    @property
    def is_complete(self) -> bool:
        return self._final is not None

    @property
    def speculative(self) -> bool:
        """Whether a draft proposed tokens."""
        return self.prefill is not None and self.prefill.speculative

    @property
    def stats(self) -> RunStats | None:
        """The engine's own figures, or those of the steps seen so far, as "cancelled"."""
        if self._final is not None or self.prefill is None or not self.steps:
            return self._final
        first, last = self.steps[0].elapsed_seconds, self.steps[-1].elapsed_seconds
        steps = tuple(item.step for item in self.steps)
        return RunStats(
            text=self.text,
            token_ids=tuple(token for step in steps for token in step.token_ids),
            num_prompt_tokens=self.prefill.num_prompt_tokens,
            image_tokens=self.prefill.image_tokens,
            steps=steps,
            time_to_first_token_seconds=first,
            decode_seconds=last - first,
            total_seconds=last,
            finish_reason="cancelled",
            num_cached_images=self.prefill.num_cached_images,
        )
