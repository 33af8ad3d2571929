"""How good a draft is, from stored hidden states alone: no base has to run.

`accuracy` is, per training-time-test step, how often the draft's first choice is the base's own.
`acceptance_length` replays greedy answers with a chain of one candidate a level: because a chain
only lives as long as it agrees with the answer, the stored answer is all that it can ever see, and
the replay is exact. The bonus token is included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from eagle.training.collate import Collator
from eagle.training.dataset import Example
from eagle.training.draft import Draft
from eagle.training.losses import Target
from eagle.training.ttt import Batch, shift_left, unroll

BATCH_EXAMPLES = 8


@dataclass(frozen=True, slots=True)
class Evaluation:
    accuracy: tuple[float, ...]
    acceptance_length: float
    num_tokens: int

    def __str__(self) -> str:
        steps = " ".join(f"{value:.3f}" for value in self.accuracy)
        return f"accuracy {steps}, chain acceptance length {self.acceptance_length:.3f}"


@torch.inference_mode()
def agreement(draft: Draft, target: Target, batch: Batch, steps: int) -> torch.Tensor:
    """(steps, B, A) bool: the draft's first choice at this step and slot is the base's."""
    target_ids, rows = target.vocabulary.target_ids, []
    for step, hidden in enumerate(unroll(draft, target.embedding, batch, steps)):
        guesses = target_ids[draft.logits(hidden).argmax(-1)]
        exists = shift_left(batch.answer_valid, step)
        rows.append((guesses == shift_left(batch.greedy_ids, step)) & exists)
    return torch.stack(rows).cpu()


def chain_rounds(agrees: torch.Tensor, num_slots: int) -> int:
    """Rounds a chain needs for one greedy answer; agrees (steps, A) of that answer."""
    # The run of agreements that starts in each slot, cut off at the first miss.
    runs = agrees.long().cumprod(0).sum(0).tolist()
    slot = rounds = 0
    while slot < num_slots:
        slot += runs[slot] + 1
        rounds += 1
    return rounds


def evaluate(
    draft: Draft, target: Target, examples: Sequence[Example], steps: int, collate: Collator
) -> Evaluation:
    """Accuracy over all examples, acceptance length over the greedy ones."""
    hits, chances = torch.zeros(steps), torch.zeros(steps)
    tokens = rounds = 0
    by_length = sorted(examples, key=lambda example: example.num_slots)
    for start in range(0, len(by_length), BATCH_EXAMPLES):
        group = by_length[start : start + BATCH_EXAMPLES]
        batch = collate(group).to(target.embedding.device)
        agrees = agreement(draft, target, batch, steps)
        hits += agrees.sum((1, 2))
        for step in range(steps):
            chances[step] += shift_left(batch.answer_valid, step).sum().cpu()
        for row, example in enumerate(group):
            if example.record.temperature == 0:
                tokens += example.num_slots
                rounds += chain_rounds(agrees[:, row], example.num_slots)
    accuracy = tuple((hits / chances.clamp(min=1)).tolist())
    return Evaluation(accuracy, tokens / max(1, rounds), tokens)
