"""List the prompts of a training set that no draft was trained on, to measure real decoding with.

In: a training set. Out: a JSONL in the form of MT-bench's question files (`question_id`,
`category`, `turns`), which the tools that decode and compare read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from eagle.training.shards import list_shards, read_records


def write_questions(folders: Sequence[Path], out: Path) -> int:
    """Write each held-out text prompt once; returns how many."""
    questions: dict[str, str] = {}
    for path in (shard for folder in folders for shard in list_shards(folder)):
        for record in read_records(path):
            if record.held_out and record.positions is None:
                questions.setdefault(record.prompt, record.category)
    lines = [
        json.dumps({"question_id": number, "category": category, "turns": [prompt]})
        for number, (prompt, category) in enumerate(questions.items())
    ]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, type=Path, nargs="+", help="training sets")
    parser.add_argument("--out", required=True, type=Path, help="JSONL to write")


def run(arguments: argparse.Namespace) -> None:
    write_questions(arguments.data, arguments.out)
