"""Examples lined up in the tensors of one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from eagle.training.dataset import Example
from eagle.training.shards import Features
from eagle.training.ttt import Batch

ImageSlots = Literal["plain", "merged"]
# The features of these examples, in their order.
Compute = Callable[[Sequence[Example]], list[Features]]


@dataclass(frozen=True, slots=True)
class Collator:
    """Makes batches of examples.

    What the draft is fed at image slots has to be what the engine that serves it feeds: the
    placeholder's plain embedding, or the picture's own, merged as for the base.
    """

    dtype: torch.dtype = torch.bfloat16
    image_slots: ImageSlots = "plain"
    compute: Compute | None = None  # for examples whose features are not stored

    def __call__(self, examples: Sequence[Example]) -> Batch:
        """Pad prompts on the left and answers on the right, so that answers begin in one column."""
        features = self._features(examples)
        longest_prompt = max(len(example.record.prompt_ids) for example in examples)
        num_answer = max(example.num_slots for example in examples)
        size = features[0].states.shape[1] // 4
        batch, length = len(examples), longest_prompt - 1 + num_answer
        result = Batch(
            aux=torch.zeros(batch, length, 3 * size, dtype=self.dtype),
            next_ids=torch.zeros(batch, length, dtype=torch.long),
            is_image=torch.zeros(batch, length, dtype=torch.bool),
            image_embeds=self._image_embeds(examples, features),
            positions=torch.zeros(3, batch, length, dtype=torch.long),
            valid=torch.zeros(batch, length, dtype=torch.bool),
            last_states=torch.zeros(batch, num_answer, size, dtype=self.dtype),
            greedy_ids=torch.zeros(batch, num_answer, dtype=torch.long),
            answer_valid=torch.zeros(batch, num_answer, dtype=torch.bool),
        )
        for row, (example, found) in enumerate(zip(examples, features, strict=True)):
            self._fill(result, row, example, found.states, longest_prompt)
        return result

    def _features(self, examples: Sequence[Example]) -> list[Features]:
        missing = [example for example in examples if example.stored is None]
        computed: Iterator[Features] = iter(())
        if missing:
            assert self.compute is not None
            computed = iter(self.compute(missing))
        return [
            next(computed) if example.stored is None else example.stored.read()
            for example in examples
        ]

    def _image_embeds(
        self, examples: Sequence[Example], features: Sequence[Features]
    ) -> torch.Tensor:
        """(N, H): of all slots that read them, in the order of the batch."""
        if self.image_slots == "plain":
            return features[0].image_embeds[:0].to(self.dtype)
        # No slot reads the prompt's very first token.
        read = [
            found.image_embeds[example.record.placeholders.count(0) :]
            for example, found in zip(examples, features, strict=True)
        ]
        return torch.cat(read).to(self.dtype)

    def _fill(
        self, batch: Batch, row: int, example: Example, states: torch.Tensor, longest_prompt: int
    ) -> None:
        record, answer = example.record, example.num_slots
        prompt, size = len(record.prompt_ids), batch.last_states.shape[-1]
        used = prompt - 1 + answer  # slots: tokens whose successor's successor is known
        columns = slice(longest_prompt - prompt, longest_prompt - prompt + used)
        ids = torch.tensor(record.prompt_ids + record.answer_ids)
        batch.aux[row, columns] = states[:used, : 3 * size]
        batch.next_ids[row, columns] = ids[1 : used + 1]
        if self.image_slots == "merged":
            is_image = torch.zeros(len(ids), dtype=torch.bool)
            is_image[list(record.placeholders)] = True
            batch.is_image[row, columns] = is_image[1 : used + 1]
        if record.positions is None:
            batch.positions[:, row, columns] = torch.arange(used)
        else:
            batch.positions[:, row, columns] = torch.tensor(record.positions)[:, :used]
        batch.valid[row, columns] = True
        batch.last_states[row, :answer] = states[prompt : prompt + answer, 3 * size :]
        batch.greedy_ids[row, :answer] = torch.tensor(record.greedy_ids[1:])
        batch.answer_valid[row, :answer] = True
