"""From shards to batches: which records train, in which order, and how they line up in tensors.

States stay on disk and are read record by record through memory maps, or are computed batch by
batch where none were stored; only token ids are held. The
order of batches is a function of the seed alone, so a resumed run continues where it stopped.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open

from eagle.errors import EagleConfigError
from eagle.training.shards import Features, Record, list_shards, read_records
from eagle.training.ttt import Batch

MIN_ANSWER_TOKENS = 3  # fewer leave nothing to draft
ImageSlots = Literal["plain", "merged"]


@dataclass(frozen=True, slots=True)
class StoredFeatures:
    """Where a record's features lie in an open safetensors file."""

    file: Any
    rows: slice
    image_rows: slice

    def read(self) -> Features:
        states: torch.Tensor = self.file.get_slice("states")[self.rows]
        if self.image_rows.start == self.image_rows.stop:
            return Features(states, states.new_empty(0, states.shape[1] // 4))
        return Features(states, self.file.get_slice("image_embeds")[self.image_rows])


@dataclass(frozen=True, slots=True)
class Example:
    """A record of a training set in `folder`; without `stored` its features have to be computed."""

    record: Record
    folder: Path
    stored: StoredFeatures | None

    @property
    def num_slots(self) -> int:
        """Answer slots: every answer token but the last, which nothing follows."""
        return len(self.record.answer_ids) - 1

    @property
    def picture(self) -> Path:
        """Of a record that has one."""
        assert self.record.image is not None
        return self.folder / self.record.image


def load_examples(folders: Sequence[Path]) -> list[Example]:
    """All usable records of these folders, in the order of their shards.

    Raises `EagleConfigError` when there are none, or when one can neither be read nor computed.
    """
    examples = [
        example
        for folder in folders
        for shard in list_shards(folder)
        for example in _examples_of(shard)
        if len(example.record.answer_ids) >= MIN_ANSWER_TOKENS
    ]
    if not examples:
        raise EagleConfigError(f"no training data in {', '.join(map(str, folders))}.")
    for example in examples:
        if example.stored is None:
            _check_computable(example)
    return examples


def _examples_of(shard: Path) -> Iterator[Example]:
    records, tensors = read_records(shard), shard.with_suffix(".safetensors")
    if not tensors.exists():
        yield from (Example(record, shard.parent, None) for record in records)
        return
    # The handle lives as long as its examples; a memory map costs no file reads by itself.
    file = safe_open(tensors, framework="pt")
    start = image_start = 0
    for record in records:
        rows = slice(start, start + record.num_states)
        image_rows = slice(image_start, image_start + len(record.placeholders))
        yield Example(record, shard.parent, StoredFeatures(file, rows, image_rows))
        start, image_start = rows.stop, image_rows.stop


def _check_computable(example: Example) -> None:
    record = example.record
    if record.positions is not None and record.image is None:
        raise EagleConfigError(
            f"{example.folder} has neither the states of prompt {record.index} nor the path of its "
            f"picture: generate the data again."
        )
    if record.image is not None and not example.picture.exists():
        raise EagleConfigError(
            f"{example.picture} is missing; {example.folder} holds no states, so training needs "
            f"its pictures where they were."
        )


def check_image_embeds(examples: Sequence[Example]) -> None:
    """Raises `EagleConfigError` when a prompt with a picture lacks its merged embeddings."""
    for record in (example.record for example in examples):
        if record.positions is not None and not record.placeholders:
            raise EagleConfigError(
                f"the training set does not hold the merged image embeddings of prompt "
                f"{record.index} ('{record.prompt}'): it was written by an older version. Generate "
                f"it again, or train with --image-slots plain."
            )


# The features of these examples, in their order.
Compute = Callable[[Sequence[Example]], list[Features]]


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
        assert self.compute is not None or not missing
        computed = iter(self.compute(missing) if self.compute and missing else ())
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
