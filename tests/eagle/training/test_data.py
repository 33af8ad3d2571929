"""The training set: the base's own greedy answers, its true states, the same however made."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from eagle.errors import EagleConfigError
from eagle.training.base import Base
from eagle.training.collate import Collator
from eagle.training.dataset import (
    Example,
    check_image_embeds,
    epoch_batches,
    load_examples,
)
from eagle.training.generate_data import generate
from eagle.training.held_out import write_questions
from eagle.training.images import ImageMerger
from eagle.training.prompts import is_held_out, prompt_seed
from eagle.training.shards import read_records, shard_path, write_shard
from tests import tiny
from tests.eagle.training.conftest import DATA


def test_greedy_answers_and_states_are_the_base_s_own(base: Base, examples: list[Example]) -> None:
    """Rows join, leave and move within the batch; every answer must come out as if alone."""
    for example in examples[:8]:
        record = example.record
        ids = torch.tensor([record.prompt_ids + record.answer_ids])
        base.model.set_attn_implementation("eager")
        with torch.no_grad():
            out = base.model(input_ids=ids, output_hidden_states=True)
        first = len(record.prompt_ids) - 1
        greedy = out.logits[0, first:-1].argmax(-1).tolist()
        assert greedy == list(record.greedy_ids)
        if record.temperature == 0:
            assert record.answer_ids == record.greedy_ids
        captured = [out.hidden_states[j + 1] for j in base.layer_ids]
        wanted = torch.cat([*captured, out.hidden_states[-1]], dim=-1)[0, :-1]
        torch.testing.assert_close(
            example.stored.read().states.float(), wanted, atol=0.05, rtol=0.02
        )


def test_a_picture_reaches_base_and_states(base: Base, pictures: Path) -> None:
    """Against transformers' own forward on the same ids, pixels and positions."""
    example = load_examples([pictures / "data"])[0]
    record = example.record
    assert record.category == "image"
    assert record.positions is not None

    inputs: Any = ImageMerger(base)._processor(images=[Image.open(pictures / "noise.png")])
    ids = torch.tensor([record.prompt_ids + record.answer_ids])[:, :-1]
    base.model.set_attn_implementation("eager")
    with torch.no_grad():
        out = base.model(
            input_ids=ids,
            pixel_values=torch.as_tensor(np.array(inputs["pixel_values"])),
            image_grid_thw=torch.tensor(np.array(inputs["image_grid_thw"])),
            mm_token_type_ids=(ids == tiny.IMAGE_PAD).int(),
            output_hidden_states=True,
        )
    captured = [out.hidden_states[j + 1] for j in base.layer_ids]
    wanted = torch.cat([*captured, out.hidden_states[-1]], dim=-1)[0]
    torch.testing.assert_close(example.stored.read().states.float(), wanted, atol=0.05, rtol=0.02)
    assert max(record.positions[0]) < len(record.positions[0]) - 1  # images take fewer positions


def test_a_resumed_run_writes_the_same_shards(base: Base, data: Path, tmp_path: Path) -> None:
    generate(base, tmp_path, dataclasses.replace(DATA, num_prompts=DATA.shard_size))
    generate(base, tmp_path, DATA)
    for number in range(2):
        assert read_records(shard_path(tmp_path, number)) == read_records(shard_path(data, number))


def test_prompts_are_fixed_by_seed_and_number() -> None:
    seeds = [prompt_seed(3, index) for index in range(400)]
    assert seeds == [prompt_seed(3, index) for index in range(400)]
    assert len({seed.text for seed in seeds if not seed.invented}) > 200
    held_out = sum(is_held_out(f"prompt {index}") for index in range(4000))
    assert 60 <= held_out <= 140  # one in forty


def test_batches_cover_an_epoch_once_and_differ_between_epochs(examples: list[Example]) -> None:
    def numbers(epoch: int) -> list[int]:
        batches = epoch_batches(examples, 40, seed=0, epoch=epoch)
        return [example.record.index for batch in batches for example in batch]

    assert sorted(numbers(0)) == sorted(example.record.index for example in examples)
    assert numbers(0) == numbers(0) != numbers(1)


def test_collated_slots_line_up(examples: list[Example]) -> None:
    """Answer slot s is fed answer token s and has to predict what the base says after it."""
    batch = Collator()(examples[:4])
    for row, example in enumerate(examples[:4]):
        record, used = example.record, example.num_slots
        start = batch.next_ids.shape[1] - batch.num_answer_slots
        fed = batch.next_ids[row, start : start + used].tolist()
        assert fed == list(record.answer_ids[:used])
        assert batch.greedy_ids[row, :used].tolist() == list(record.greedy_ids[1:])
        position = int(batch.positions[0, row, start])
        assert position == len(record.prompt_ids) - 1
        states = example.stored.read().states[position]
        assert torch.equal(batch.aux[row, start], states[: batch.aux.shape[-1]])


def test_held_out_text_prompts_are_listed_once(examples: list[Example], tmp_path: Path) -> None:
    first, second, third = (
        dataclasses.replace(example.record, prompt=str(n), held_out=n < 2)
        for n, example in enumerate(examples[:3])
    )
    features = [example.stored.read() for example in (*examples[:3], examples[0])]
    write_shard(shard_path(tmp_path, 0), [first, second, third, first], features)
    assert write_questions([tmp_path], tmp_path / "questions.jsonl") == 2
    lines = (tmp_path / "questions.jsonl").read_text().splitlines()
    assert [json.loads(line)["turns"] for line in lines] == [["0"], ["1"]]


def test_older_sets_are_read_and_lack_only_the_merged_embeddings(
    pictures: Path, tmp_path: Path
) -> None:
    """Sets were once written without placeholders and image embeddings."""
    old, new = shard_path(tmp_path, 0), shard_path(pictures / "data", 0)
    rows = [json.loads(line) for line in new.read_text().splitlines()]
    for row in rows:
        del row["placeholders"]
    old.write_text("\n".join(map(json.dumps, rows)))
    tensors = load_file(new.with_suffix(".safetensors"))
    save_file({"states": tensors["states"]}, old.with_suffix(".safetensors"))
    ours, theirs = load_examples([tmp_path]), load_examples([pictures / "data"])
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one.stored.read().states, other.stored.read().states)
    check_image_embeds(theirs)
    with pytest.raises(EagleConfigError, match="Generate it again"):
        check_image_embeds(ours)


def test_prompts_that_are_all_too_long_are_named(base: Base, tmp_path: Path) -> None:
    with pytest.raises(EagleConfigError, match="at most 5 tokens"):
        generate(base, tmp_path, dataclasses.replace(DATA, max_prompt_tokens=5, max_new_tokens=99))
