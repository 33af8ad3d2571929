"""Questions to measure with: the bundled set, a file in MT-bench's form, or a folder of pictures.

A file has one JSON object a line with `turns`, a list of texts, and optionally `question_id`,
`category` and `images`, paths beside the file; pictures belong to the first turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlm.errors import ConfigError

BUNDLED_FILE = Path(__file__).parents[1] / "assets" / "bench" / "questions.jsonl"
PICTURE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")
PICTURE_QUESTION = "Describe the picture."


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation to have; `images` come with its first turn."""

    id: str
    category: str
    turns: tuple[str, ...]
    images: tuple[Path, ...] = ()


def find_questions(source: Path | None, picture_question: str = PICTURE_QUESTION) -> list[Question]:
    """The bundled set, the pictures of a folder, or the questions of a file."""
    if source is not None and source.is_dir():
        return questions_about(source, picture_question)
    return read_questions(BUNDLED_FILE if source is None else source)


def read_questions(path: Path) -> list[Question]:
    """Raises `ConfigError` naming the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as questions: {error}.") from error
    return parse_questions(text, str(path), path.parent)


def parse_questions(text: str, name: str, folder: Path) -> list[Question]:
    """The questions of a file called `name` whose pictures lie in `folder`."""
    questions = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                questions.append(_question(json.loads(line), number, folder))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ConfigError(
                    f"{name}, line {number} cannot be read as a question: it must be a JSON object "
                    f"with 'turns', a list of texts ({error})."
                ) from error
    if not questions:
        raise ConfigError(f"{name} holds no questions: write one JSON object with 'turns' a line.")
    return questions


def _question(values: Any, number: int, folder: Path) -> Question:
    turns = values["turns"]
    if not isinstance(turns, list) or not turns or not all(isinstance(t, str) for t in turns):
        raise ValueError(f"'turns' is {str(turns)[:40]!r}")
    return Question(
        id=str(values.get("question_id", number)),
        category=str(values.get("category", "all")),
        turns=tuple(turns),
        images=tuple(folder / name for name in values.get("images", ())),
    )


def questions_about(folder: Path, text: str) -> list[Question]:
    """One question a picture of the folder."""
    pictures = [p for p in folder.iterdir() if p.suffix.lower() in PICTURE_SUFFIXES]
    if not pictures:
        raise ConfigError(
            f"{folder} holds no pictures: put {', '.join(PICTURE_SUFFIXES)} files there."
        )
    return picture_questions(pictures, text)


def picture_questions(pictures: Iterable[Path], text: str) -> list[Question]:
    """One question a picture, in order of name."""
    ordered = sorted(pictures, key=lambda path: path.name)
    return [Question(picture.name, "pictures", (text,), (picture,)) for picture in ordered]
