"""The training set on disk: numbered shards, each a JSONL of records beside its hidden states.

`shard-00003.jsonl` holds one record a line; `shard-00003.safetensors` holds `states`, (tokens, 4H)
bfloat16, all records' rows one after the other. Both appear atomically, the JSONL last, so that a
shard whose JSONL exists is whole: that is all a resumed run has to look at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file


@dataclass(frozen=True, slots=True)
class Record:
    """One prompt with the base's answer; `states` rows belong to all tokens but the very last.

    `greedy_ids[j]` is the base's likeliest token where `answer_ids[j]` was chosen.

    `positions` is given where the three rotary axes differ (prompts with images): three lists over
    the same tokens as the states. Without it token t stands at position t.
    """

    index: int
    category: str
    prompt: str
    held_out: bool
    temperature: float
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    greedy_ids: tuple[int, ...]
    positions: tuple[tuple[int, ...], ...] | None = None

    @property
    def num_states(self) -> int:
        return len(self.prompt_ids) + len(self.answer_ids) - 1


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"shard-{number:05d}.jsonl"


def list_shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("shard-*.jsonl"))


def write_shard(path: Path, records: Sequence[Record], states: Sequence[torch.Tensor]) -> None:
    """Write records and their states, (num_states, 4H) each, states first."""
    assert all(len(s) == r.num_states for r, s in zip(records, states, strict=True))
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors, partial = path.with_suffix(".safetensors"), path.with_suffix(".partial")
    save_file({"states": torch.cat(list(states))}, partial)
    partial.replace(tensors)
    lines = (json.dumps(asdict(record), ensure_ascii=False) for record in records)
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    partial.replace(path)


def read_records(path: Path) -> list[Record]:
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        for name in ("prompt_ids", "answer_ids", "greedy_ids"):
            fields[name] = tuple(fields[name])
        if fields["positions"] is not None:
            fields["positions"] = tuple(map(tuple, fields["positions"]))
        records.append(Record(**fields))
    return records


def read_states(path: Path) -> Iterator[tuple[Record, torch.Tensor]]:
    """Each record of a shard with its states (num_states, 4H) bfloat16."""
    with safe_open(path.with_suffix(".safetensors"), framework="pt") as file:
        states = file.get_tensor("states")
    start = 0
    for record in read_records(path):
        yield record, states[start : start + record.num_states]
        start += record.num_states
    assert start == len(states), f"{path} and its states disagree"
