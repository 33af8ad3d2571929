"""What is asked about a picture, and what a right answer says.

In: a scene and a random generator. Out: a question with its answer. Each kind of question
has one form of answer, so that the loss asks for knowledge of the picture and not for a
guess at the wording.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vlm.demo_model.objects import OBJECTS, NamedObject
from vlm.demo_model.scenes import Scene


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """One exchange about one picture."""

    question: str
    answer: str


_PICTURE_WORDS = ("picture", "image", "photo")
_THIS = (
    "What is this?",
    "What's this?",
    "What is that?",
    "Which object is this?",
    "Can you tell me what this is?",
    "What kind of thing is this?",
    "Name the object.",
    "Name the object in this {picture}.",
)
_SHOWS = (
    "What do you see?",
    "What do you see here?",
    "What can you see?",
    "What do you see in this {picture}?",
    "What can you see in the {picture}?",
    "What is in the {picture}?",
    "What is in this {picture}?",
    "What does the {picture} show?",
    "What is shown in this {picture}?",
    "What object is in the {picture}?",
    "What is on the {picture}?",
    "Describe the {picture}.",
    "Describe this {picture}.",
    "Describe what you see.",
    "Please describe this {picture}.",
    "Tell me about this {picture}.",
)
_PRESENT = (
    "Is there {phrase} in the {picture}?",
    "Is there {phrase}?",
    "Do you see {phrase}?",
    "Is this {phrase}?",
    "Does the {picture} show {phrase}?",
)


def ask_each(rng: np.random.Generator, scenes: list[Scene]) -> list[QuestionAnswer]:
    """One question per scene, all of one random kind, so that they are about as long."""
    kind = _KINDS[rng.choice(len(_KINDS), p=_KIND_ODDS)]
    return [_fill_in(rng, kind(rng, scene)) for scene in scenes]


def _fill_in(rng: np.random.Generator, exchange: QuestionAnswer) -> QuestionAnswer:
    word = _PICTURE_WORDS[rng.choice(len(_PICTURE_WORDS), p=(0.5, 0.35, 0.15))]
    return QuestionAnswer(exchange.question.replace("{picture}", word), exchange.answer)


def _pick(rng: np.random.Generator, choices: tuple[str, ...]) -> str:
    return choices[rng.integers(len(choices))]


def _ask_this(rng: np.random.Generator, scene: Scene) -> QuestionAnswer:
    return QuestionAnswer(_pick(rng, _THIS), f"This is {scene.shown.phrase}.")


def _ask_shows(rng: np.random.Generator, scene: Scene) -> QuestionAnswer:
    return QuestionAnswer(_pick(rng, _SHOWS), f"The picture shows {scene.shown.phrase}.")


def _ask_present(rng: np.random.Generator, scene: Scene) -> QuestionAnswer:
    asked = scene.shown if rng.random() < 0.5 else _other_object(rng, scene.shown)
    question = _pick(rng, _PRESENT).replace("{phrase}", asked.phrase)
    reply = "Yes" if asked == scene.shown else "No"
    return QuestionAnswer(question, f"{reply}, this is {scene.shown.phrase}.")


def _other_object(rng: np.random.Generator, shown: NamedObject) -> NamedObject:
    others = [candidate for candidate in OBJECTS if candidate != shown]
    return others[rng.integers(len(others))]


_KINDS: tuple[Callable[[np.random.Generator, Scene], QuestionAnswer], ...] = (
    _ask_this,
    _ask_shows,
    _ask_present,
)
_KIND_ODDS = (0.4, 0.42, 0.18)
