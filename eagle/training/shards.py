"""The training set on disk: numbered shards, each a JSONL of records beside its hidden states.

`shard-00003.jsonl` holds one record a line; `shard-00003.safetensors` holds `states`, (tokens, 4H)
bfloat16, and `image_embeds`, (image tokens, H) bfloat16 (not in older sets), all records' rows one
after the other. It may be missing: then the records say all that is needed to compute them. Both
appear atomically, the JSONL last, so that a shard whose JSONL exists is whole: that is all a
resumed run has to look at.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file


@dataclass(frozen=True, slots=True)
class Record:
    """One prompt with the base's answer; `states` rows belong to all tokens but the very last.

    `greedy_ids[j]` is the base's likeliest token where `answer_ids[j]` was chosen.

    `positions` is given where the three rotary axes differ (prompts with images): three lists over
    the same tokens as the states. Without it token t stands at position t. `placeholders`
    are the indices of the image tokens, whose merged embeddings are stored, and `image` is the path
    of the picture, relative to the shard's folder.
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
    placeholders: tuple[int, ...] = ()
    image: str | None = None

    @property
    def num_states(self) -> int:
        return len(self.prompt_ids) + len(self.answer_ids) - 1


@dataclass(frozen=True, slots=True)
class Features:
    """What the base made of one record, bfloat16."""

    states: torch.Tensor  # (num_states, 4H)
    image_embeds: torch.Tensor  # (len(placeholders), H)


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"shard-{number:05d}.jsonl"


def list_shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("shard-*.jsonl"))


def write_shard(path: Path, records: Sequence[Record], features: Sequence[Features] | None) -> None:
    """Write records and, unless None, their features, features first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors, partial = path.with_suffix(".safetensors"), path.with_suffix(".partial")
    if features is None:
        tensors.unlink(missing_ok=True)  # of a run that was stopped before its records
    else:
        assert all(len(f.states) == r.num_states for r, f in zip(records, features, strict=True))
        joined = {
            "states": torch.cat([each.states for each in features]),
            "image_embeds": torch.cat([each.image_embeds for each in features]),
        }
        save_file(joined, partial)
        partial.replace(tensors)
    lines = (json.dumps(asdict(record), ensure_ascii=False) for record in records)
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    partial.replace(path)


def read_records(path: Path) -> list[Record]:
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        for name in ("prompt_ids", "answer_ids", "greedy_ids", "placeholders"):
            fields[name] = tuple(fields.get(name, ()))
        if fields["positions"] is not None:
            fields["positions"] = tuple(map(tuple, fields["positions"]))
        records.append(Record(**fields))
    return records
