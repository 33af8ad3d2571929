"""From shards to batches: which records train, in which order, and how they line up in tensors.

States stay on disk and are read record by record through memory maps; only token ids are held. The
order of batches is a function of the seed alone, so a resumed run continues where it stopped.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from eagle.errors import EagleConfigError
from eagle.training.shards import Record, list_shards, read_records
from eagle.training.ttt import Batch

MIN_ANSWER_TOKENS = 3  # fewer leave nothing to draft


@dataclass(frozen=True, slots=True)
class Example:
    """A record and where its states lie: rows `start` on in an open safetensors file."""

    record: Record
    file: Any
    start: int

    @property
    def num_slots(self) -> int:
        """Answer slots: every answer token but the last, which nothing follows."""
        return len(self.record.answer_ids) - 1

    def states(self) -> torch.Tensor:
        """(num_states, 4H)."""
        rows = self.file.get_slice("states")
        states: torch.Tensor = rows[self.start : self.start + self.record.num_states]
        return states


def load_examples(folders: Sequence[Path]) -> list[Example]:
    """All usable records of these folders, in the order of their shards."""
    examples = []
    for path in (shard for folder in folders for shard in list_shards(folder)):
        # The handle lives as long as its examples; a memory map costs no file reads by itself.
        file = safe_open(path.with_suffix(".safetensors"), framework="pt")
        start = 0
        for record in read_records(path):
            if len(record.answer_ids) >= MIN_ANSWER_TOKENS:
                examples.append(Example(record, file, start))
            start += record.num_states
    if not examples:
        raise EagleConfigError(f"no training data in {', '.join(map(str, folders))}.")
    return examples


def split(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """Those to train on, and the held-out ones."""
    train = [example for example in examples if not example.record.held_out]
    return train, [example for example in examples if example.record.held_out]


def epoch_batches(
    examples: Sequence[Example], slots: int, seed: int, epoch: int
) -> list[list[Example]]:
    """Shuffled batches of at most `slots` answer slots, padding counted.

    Within pools of shuffled examples neighbours are of similar length, which keeps padding small
    without showing the lengths in a fixed order.
    """
    rng = random.Random(f"{seed}/{epoch}")
    shuffled = rng.sample(list(examples), len(examples))
    batches: list[list[Example]] = []
    pool_size = 512
    for start in range(0, len(shuffled), pool_size):
        pool = shuffled[start : start + pool_size]
        pool.sort(key=lambda e: (e.num_slots, len(e.record.prompt_ids)))
        batch: list[Example] = []
        for example in pool:
            if batch and (len(batch) + 1) * example.num_slots > slots:
                batches.append(batch)
                batch = []
            batch.append(example)
        batches.append(batch)
    rng.shuffle(batches)
    return batches


def endless_batches(examples: Sequence[Example], slots: int, seed: int) -> Iterator[list[Example]]:
    epoch = 0
    while True:
        yield from epoch_batches(examples, slots, seed, epoch)
        epoch += 1


def collate(examples: Sequence[Example], dtype: torch.dtype = torch.bfloat16) -> Batch:
    """Pad prompts on the left and answers on the right, so that answers begin in one column."""
    longest_prompt = max(len(example.record.prompt_ids) for example in examples)
    num_answer = max(example.num_slots for example in examples)
    size = examples[0].file.get_slice("states").get_shape()[1] // 4
    batch, length = len(examples), longest_prompt - 1 + num_answer

    result = Batch(
        aux=torch.zeros(batch, length, 3 * size, dtype=dtype),
        next_ids=torch.zeros(batch, length, dtype=torch.long),
        positions=torch.zeros(3, batch, length, dtype=torch.long),
        valid=torch.zeros(batch, length, dtype=torch.bool),
        last_states=torch.zeros(batch, num_answer, size, dtype=dtype),
        greedy_ids=torch.zeros(batch, num_answer, dtype=torch.long),
        answer_valid=torch.zeros(batch, num_answer, dtype=torch.bool),
    )
    for row, example in enumerate(examples):
        _fill(result, row, example, longest_prompt)
    return result


def _fill(batch: Batch, row: int, example: Example, longest_prompt: int) -> None:
    record, states, answer = example.record, example.states(), example.num_slots
    prompt, size = len(record.prompt_ids), batch.last_states.shape[-1]
    used = prompt - 1 + answer  # slots: tokens whose successor's successor is known
    columns = slice(longest_prompt - prompt, longest_prompt - prompt + used)
    ids = torch.tensor(record.prompt_ids + record.answer_ids)
    batch.aux[row, columns] = states[:used, : 3 * size]
    batch.next_ids[row, columns] = ids[1 : used + 1]
    if record.positions is None:
        batch.positions[:, row, columns] = torch.arange(used)
    else:
        batch.positions[:, row, columns] = torch.tensor(record.positions)[:, :used]
    batch.valid[row, columns] = True
    batch.last_states[row, :answer] = states[prompt : prompt + answer, 3 * size :]
    batch.greedy_ids[row, :answer] = torch.tensor(record.greedy_ids[1:])
    batch.answer_valid[row, :answer] = True
