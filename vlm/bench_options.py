"""Options of `python -m vlm bench`, apart from the models' code so that --help answers at once."""

from __future__ import annotations

import argparse
from pathlib import Path

from vlm.questions import PICTURE_QUESTION

SWEPT = ("sweep_draft_steps", "sweep_draft_top_ks", "sweep_tree_sizes", "sweep_image_tokens")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--questions",
        type=Path,
        help="a question.jsonl in MT-bench's form, or a folder of pictures (default: bundled set)",
    )
    parser.add_argument("--ask", default=PICTURE_QUESTION, help="the question about each picture")
    parser.add_argument("--limit", type=int, help="use this many questions at most")
    parser.add_argument("--repeats", type=int, default=1, help="comparisons a turn")
    parser.add_argument(
        "--out",
        action="append",
        default=[],
        type=Path,
        help="write the result there: .json, .csv or .md; may be repeated (a sweep: .json, .md)",
    )
    parser.add_argument("--against", type=Path, help="an earlier .json to compare with")
    numbers = "swept instead of the benchmark: numbers with commas between"
    for name in SWEPT:
        parser.add_argument("--" + name.replace("_", "-"), type=whole_numbers, help=numbers)


def whole_numbers(text: str) -> tuple[int, ...]:
    """Numbers with commas between them."""
    parts = text.split(",")
    if not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(
            f"must be whole numbers of at least 1 with commas between, such as 2,4,8; got {text!r}"
        )
    return tuple(int(part) for part in parts)
