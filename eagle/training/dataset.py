"""From shards to examples: which records train, where their features are, in which order.

States stay on disk and are read record by record through memory maps, or are not stored at all;
only token ids are held. The order of batches is a function of the seed alone, so a resumed run
continues where it stopped.
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
from eagle.training.shards import Features, Record, list_shards, read_records

MIN_ANSWER_TOKENS = 3  # fewer leave nothing to draft


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
