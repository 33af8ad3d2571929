"""The bundled example questions with their pictures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

EXAMPLES_FOLDER = Path(__file__).parents[2] / "assets" / "examples"


@dataclass(frozen=True, slots=True)
class Example:
    """A card of the empty chat."""

    image: Path
    question: str


def load_examples(folder: Path = EXAMPLES_FOLDER) -> tuple[Example, ...]:
    """The examples listed in `examples.json`; none when the folder has no such list."""
    listing = folder / "examples.json"
    if not listing.exists():
        return ()
    entries = json.loads(listing.read_text(encoding="utf-8"))
    return tuple(Example(folder / entry["image"], entry["question"]) for entry in entries)
