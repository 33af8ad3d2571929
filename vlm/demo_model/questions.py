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
)
_SEE = (
    "What do you see?",
    "What do you see here?",
    "What can you see?",
    "What do you see in this {picture}?",
    "What can you see in the {picture}?",
)
_SHOWS = (
    "What is in the {picture}?",
    "What is in this {picture}?",
    "What does the {picture} show?",
    "What is shown in this {picture}?",
    "What object is in the {picture}?",
    "What is on the {picture}?",
)
_NAME = (
    "Name the object.",
    "Name the object in this {picture}.",
    "Name what you see.",
    "What is this? Answer briefly.",
)
_DESCRIBE = (
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
_BACKGROUND = (
    "What color is the background?",
    "What is the color of the background?",
    "Which color does the background have?",
)


def ask_each(rng: np.random.Generator, scenes: list[Scene]) -> list[QuestionAnswer]:
    """One question per scene, all of one random kind, so that they are about as long."""
    kind = _KINDS[rng.choice(len(_KINDS), p=_KIND_ODDS)]
    return [_fill_in(rng, kind(rng, scene)) for scene in scenes]


def _fill_in(rng: np.random.Generator, exchange: QuestionAnswer) -> QuestionAnswer:
    word = _PICTURE_WORDS[rng.choice(len(_PICTURE_WORDS), p=(0.5, 0.35, 0.15))]
    return QuestionAnswer(exchange.question.replace("{picture}", word), exchange.answer)


def sentence(text: str) -> str:
    """`text` with a capital first letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def _pick(rng: np.random.Generator, choices: tuple[str, ...]) -> str:
    return choices[rng.integers(len(choices))]


def _ask_this(rng: np.random.Generator, scene: Scene) -> QuestionAnswer:
    return QuestionAnswer(_pick(rng, _THIS), f"This is {scene.shown.phrase}.")


def _ask_see(rng: np.random.Generator, scene: Scene) -> QuestionAnswer:
    return QuestionAnswer(_pick(rng, _SEE), f"I see {scene.shown.phrase}.")


def _ask_shows(rng: np.random.Generator, scene: Scene) -> QuestionAnswer:
    return QuestionAnswer(_pick(rng, _SHOWS), f"The picture shows {scene.shown.phrase}.")


def _ask_name(rng: np.random.Generator, scene: Scene) -> QuestionAnswer:
    return QuestionAnswer(_pick(rng, _NAME), sentence(scene.shown.phrase))


def _ask_describe(rng: np.random.Generator, scene: Scene) -> QuestionAnswer:
    background = "a background of " + " and ".join(scene.background)
    if len(scene.background) == 1:
        color = scene.background[0]
        background = f"{'an' if color == 'orange' else 'a'} {color} background"
    answer = f"The picture shows {scene.shown.phrase} on {background}."
    return QuestionAnswer(_pick(rng, _DESCRIBE), answer)


def _ask_present(rng: np.random.Generator, scene: Scene) -> QuestionAnswer:
    asked = scene.shown if rng.random() < 0.5 else _other_object(rng, scene.shown)
    question = _pick(rng, _PRESENT).replace("{phrase}", asked.phrase)
    reply = "Yes" if asked == scene.shown else "No"
    return QuestionAnswer(question, f"{reply}, this is {scene.shown.phrase}.")


def _ask_color(rng: np.random.Generator, scene: Scene) -> QuestionAnswer:
    answer = f"The background is {' and '.join(scene.background)}."
    return QuestionAnswer(_pick(rng, _BACKGROUND), answer)


def _other_object(rng: np.random.Generator, shown: NamedObject) -> NamedObject:
    others = [candidate for candidate in OBJECTS if candidate != shown]
    return others[rng.integers(len(others))]


# More than half of all questions ask for nothing but the object's name.
_KINDS: tuple[Callable[[np.random.Generator, Scene], QuestionAnswer], ...] = (
    _ask_this,
    _ask_see,
    _ask_shows,
    _ask_name,
    _ask_describe,
    _ask_present,
    _ask_color,
)
_KIND_ODDS = (0.16, 0.14, 0.14, 0.12, 0.16, 0.16, 0.12)
