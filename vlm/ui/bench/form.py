"""What the form of the Benchmark page holds, and the plan made of it.

The form gives loose values: an emptied number is None. Here they become a `BenchPlan` or a
`SweepPlan`, or one sentence that names the field, its limit and what it held.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eagle.types import SamplingParams
from visual_encoder.types import ImageTokenLimits
from vlm.bench import BenchPlan
from vlm.bench_options import whole_numbers
from vlm.config import Settings
from vlm.errors import ConfigError
from vlm.questions import (
    BUNDLED_FILE,
    PICTURE_QUESTION,
    PICTURE_SUFFIXES,
    Question,
    parse_questions,
    picture_questions,
    read_questions,
)
from vlm.sweep import SweepPlan

QUESTION_SUFFIXES = (".jsonl", ".json")
# A deeper or wider tree would keep the engine inside one step for long, and Stop waits for it.
MOST_STEPS, MOST_TOP_K, MOST_NODES, MOST_SETTINGS = 12, 16, 128, 240


@dataclass(frozen=True, slots=True)
class BenchForm:
    """The fields in the order in which the page shows them.

    `most_questions` counts those of one category; 0 takes all.
    """

    kind: Literal["bench", "sweep"]
    source: Literal["bundled", "own"]
    categories: tuple[str, ...]
    files: tuple[Path, ...]
    picture_question: str
    most_questions: int
    max_new_tokens: int
    repeats: int
    draft_steps: tuple[int, ...]
    draft_top_ks: tuple[int, ...]
    verify_tree_sizes: tuple[int, ...]
    image_tokens: tuple[int, ...]

    @classmethod
    def from_values(cls, values: Sequence[Any], settings: Settings) -> BenchForm:
        """Raises `ConfigError`."""
        kind, source, categories, files, ask, most, longest, repeats, *swept = values
        steps, top_ks, sizes, budgets = swept
        return cls(
            kind=kind,
            source=source,
            categories=tuple(categories or ()),
            files=tuple(map(Path, files or ())),
            picture_question=(ask or "").strip() or PICTURE_QUESTION,
            most_questions=_at_least(0, "Questions a category", most),
            max_new_tokens=_at_least(1, "The longest answer", longest),
            repeats=_at_least(1, "Repeats", repeats),
            draft_steps=_numbers("Depth", steps, MOST_STEPS) or (settings.draft_step,),
            draft_top_ks=_numbers("Top-k", top_ks, MOST_TOP_K) or (settings.draft_top_k,),
            verify_tree_sizes=_numbers("Verified tokens", sizes, MOST_NODES)
            or (settings.verify_tree_size,),
            image_tokens=_numbers("Image tokens a picture", budgets),
        )

    def plan(
        self, settings: Settings, sampling: SamplingParams, limits: ImageTokenLimits
    ) -> BenchPlan | SweepPlan:
        """Raises `ConfigError` for questions that cannot be used."""
        questions = tuple(_first_of_each(self._questions(), self.most_questions))
        if self.kind == "bench":
            return BenchPlan(
                questions,
                repeats=self.repeats,
                max_new_tokens=self.max_new_tokens,
                sampling=sampling,
                ignore_eos=settings.ignore_eos,
                limits=limits,
            )
        self._check_budgets(limits)
        plan = SweepPlan(
            questions,
            draft_steps=self.draft_steps,
            draft_top_ks=self.draft_top_ks,
            verify_tree_sizes=self.verify_tree_sizes,
            image_tokens=self.image_tokens,
            max_new_tokens=self.max_new_tokens,
            sampling=sampling,
            ignore_eos=settings.ignore_eos,
            limits=limits,
        )
        num_settings = len(plan.trees) * len(plan.budgets)
        if num_settings > MOST_SETTINGS:
            raise ConfigError(
                f"These are {num_settings} settings and the map holds at most {MOST_SETTINGS}: "
                f"leave some values out."
            )
        return plan

    def _check_budgets(self, limits: ImageTokenLimits) -> None:
        """The other two limits hold for the whole sweep, so what it varies stays between them."""
        least, most = limits.min_image_tokens, limits.max_image_tokens
        for budget in self.image_tokens:
            if not least <= budget <= most:
                raise ConfigError(
                    f"Image tokens a picture must lie between the settings' {least} (at least, a "
                    f"picture) and {most} (at most, all pictures), got {budget}."
                )

    def _questions(self) -> list[Question]:
        if self.source == "own":
            return uploaded_questions(self.files, self.picture_question)
        chosen = [item for item in read_questions(BUNDLED_FILE) if item.category in self.categories]
        if not chosen:
            raise ConfigError("No category is chosen: choose at least one.")
        return chosen


def uploaded_questions(files: Sequence[Path], picture_question: str) -> list[Question]:
    """The questions of a `question.jsonl`, or one about each picture."""
    listings = [path for path in files if path.suffix.lower() in QUESTION_SUFFIXES]
    pictures = [path for path in files if path.suffix.lower() in PICTURE_SUFFIXES]
    for path in files:
        if path not in listings and path not in pictures:
            raise ConfigError(
                f"{path.name} is neither a question.jsonl nor a picture "
                f"({', '.join(PICTURE_SUFFIXES)}): take it out."
            )
    if len(listings) > 1:
        raise ConfigError(f"There are {len(listings)} files of questions: choose one at a time.")
    if listings:
        return _listed(listings[0], {path.name: path for path in pictures})
    if not pictures:
        raise ConfigError("Choose a question.jsonl or some pictures first.")
    return picture_questions(pictures, picture_question)


def _listed(listing: Path, pictures: dict[str, Path]) -> list[Question]:
    """Only pictures that came with the file: its paths must not reach others of this machine."""
    try:
        text = listing.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{listing.name} cannot be read as questions: {error}.") from error
    return [_with_pictures(item, pictures) for item in parse_questions(text, listing.name, Path())]


def _with_pictures(question: Question, pictures: dict[str, Path]) -> Question:
    for image in question.images:
        if image.name not in pictures:
            raise ConfigError(
                f"Question {question.id} is about {image.name}, which did not come with the file: "
                f"choose its pictures together with it."
            )
    images = tuple(pictures[image.name] for image in question.images)
    return Question(question.id, question.category, question.turns, images)


def _first_of_each(questions: Sequence[Question], most: int) -> list[Question]:
    """At most that many questions of each category; 0 is no limit."""
    counts: dict[str, int] = {}
    kept = []
    for question in questions:
        counts[question.category] = counts.get(question.category, 0) + 1
        if most == 0 or counts[question.category] <= most:
            kept.append(question)
    return kept


def _at_least(least: int, label: str, value: float | None) -> int:
    if value is None or value < least:
        got = "nothing" if value is None else int(value)
        raise ConfigError(f"{label} must be at least {least}, got {got}.")
    return int(value)


def _numbers(label: str, text: str | None, most: int | None = None) -> tuple[int, ...]:
    """Numbers with commas between; none for an empty field."""
    if not (text or "").strip():
        return ()
    try:
        found = whole_numbers(str(text))
    except (ArgumentTypeError, ValueError) as error:
        raise ConfigError(f"{label} {error}.") from error
    if most is not None and max(found) > most:
        raise ConfigError(f"{label} may be at most {most}, got {max(found)}.")
    return tuple(dict.fromkeys(found))


def bundled_categories(*, takes_pictures: bool) -> list[tuple[str, str, bool]]:
    """Label, name, and whether a base like this one can answer them."""
    questions = read_questions(BUNDLED_FILE)
    found = []
    for name in dict.fromkeys(question.category for question in questions):
        members = [question for question in questions if question.category == name]
        usable = takes_pictures or not any(question.images for question in members)
        found.append((f"{name} ({len(members)})", name, usable))
    return found
