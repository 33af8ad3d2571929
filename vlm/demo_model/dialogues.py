"""What is asked about a picture, and what a right answer says.

In: a scene and a random generator. Out: turns of question and answer. Each kind of question has
one long form of answer and some a short one, so that the loss asks for knowledge of the picture and
not for a guess at the wording.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vlm.demo_model.objects import OBJECTS, NamedObject, plain_words
from vlm.demo_model.scenes import SHAPES
from vlm.demo_model.sheet import Item, Scene
from vlm.demo_model.surfaces import COLORS
from vlm.demo_model.wording import (
    NUMBER_WORDS,
    counted,
    join_words,
    plural,
    plural_noun,
    with_article,
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One question about a picture.

    An answer is right when it contains one phrase of every tuple in `expected`, as whole words,
    and none of `unexpected`.
    """

    kind: str
    question: str
    answer: str
    expected: tuple[tuple[str, ...], ...]
    unexpected: tuple[str, ...] = ()

    def is_right(self, answer: str) -> bool:
        """Whether `answer` says what it must."""
        said = f" {plain_words(answer)} "

        def contains(phrase: str) -> bool:
            return f" {plain_words(phrase)} " in said

        return all(any(map(contains, phrases)) for phrases in self.expected) and not any(
            map(contains, self.unexpected)
        )


def ask(rng: np.random.Generator, scene: Scene, number: int) -> list[Turn]:
    """At most `number` turns about one scene, of different kinds, in random order."""
    asking = _ASKED_OF[scene.items[0].kind]
    weights = np.array([weight for _, weight in asking])
    order = rng.choice(len(asking), len(asking), replace=False, p=weights / weights.sum())
    turns: list[Turn] = []
    for index in order:
        turn = asking[index][0](rng, scene)
        if turn is not None:
            turns.append(turn)
        if len(turns) == number:
            break
    return turns


def _pick(rng: np.random.Generator, choices: Sequence[str]) -> str:
    word = ("picture", "image", "photo")[rng.choice(3, p=(0.55, 0.3, 0.15))]
    return choices[int(rng.integers(len(choices)))].replace("{picture}", word)


def _phrase(item: Item) -> str:
    """What one item is called, with its article."""
    if item.named is not None:
        return item.named.phrase
    return with_article(f"{item.color} {item.name}")


def _names(item: Item) -> tuple[str, ...]:
    """What counts as naming the item, one or several of it."""
    singular = (item.name,) if item.named is None else (item.named.name, *item.named.synonyms)
    return singular + tuple(plural_noun(name) for name in singular)


def _content(scene: Scene) -> str:
    first = scene.items[0]
    match first.kind:
        case "word":
            return f'the word "{first.name}"'
        case "number":
            return f"the number {_printed_number(scene)}"
        case "bar":
            colors = [str(item.color) for item in scene.items]
            return f"a bar chart with {NUMBER_WORDS[len(colors)]} bars: {join_words(colors)}"
        case _:
            counts = Counter(_phrase(item) for item in _in_reading_order(scene))
            return join_words([counted(number, phrase) for phrase, number in counts.items()])


def _in_reading_order(scene: Scene) -> list[Item]:
    """By the first image token that shows the item: an order that an answer can foresee."""
    return sorted(scene.items, key=lambda item: (item.cells[0], item.center))


def _printed_number(scene: Scene) -> str:
    return "".join(item.name for item in scene.items)


_WHAT = (
    "What is this?", "What's this?", "What is that?", "What do you see?", "What can you see?",
    "What do you see here?", "What is in this {picture}?", "What is in the {picture}?",
    "What is shown in the {picture}?", "What does this {picture} show?",
    "What can you see in this {picture}?", "Can you tell me what this is?",
    "Name what you see.",
)  # fmt: skip
_DESCRIBE = (
    "Describe the {picture}.", "Describe this {picture}.", "Please describe what you see.",
    "Tell me about this {picture}.", "Describe the {picture} in one sentence.",
    "Give me a description of the {picture}.", "Describe everything in the {picture}.",
    "Describe this.",
)  # fmt: skip
_ONE_WORD = (
    "What is this? Answer in one word.", "In one word, what is this?",
    "Name the object. Answer with the name only.", "What is it? Just the name.",
)  # fmt: skip


def _ask_what(rng: np.random.Generator, scene: Scene) -> Turn:
    opening = "This is" if len(scene.items) == 1 else "I see"
    if scene.items[0].kind == "number":
        opening = "This is"
    return Turn(
        "name", _pick(rng, _WHAT), f"{opening} {_content(scene)}.", _expected_content(scene)
    )


def _ask_one_word(rng: np.random.Generator, scene: Scene) -> Turn | None:
    first = scene.items[0]
    if len(scene.items) > 1 or first.named is None:
        return None
    answer = first.name[0].upper() + first.name[1:] + "."
    return Turn("name", _pick(rng, _ONE_WORD), answer, (_names(first),))


def _ask_describe(rng: np.random.Generator, scene: Scene) -> Turn:
    ground = f"on {with_article(' and '.join(scene.background))} background"
    answer = f"The picture shows {_content(scene)}"
    answer += "." if scene.items[0].kind == "bar" else f" {ground}."
    return Turn("describe", _pick(rng, _DESCRIBE), answer, _expected_content(scene))


def _expected_content(scene: Scene) -> tuple[tuple[str, ...], ...]:
    match scene.items[0].kind:
        case "number":
            return ((_printed_number(scene),),)
        case "bar":
            return (("chart", "bars"),)
        case _:
            counts = Counter(_phrase(item) for item in scene.items)
            numbers = {(NUMBER_WORDS[n], str(n)): None for n in counts.values() if n > 1}
            return (*dict.fromkeys(_names(item) for item in scene.items), *numbers)


def _ask_how_many(rng: np.random.Generator, scene: Scene) -> Turn:
    if rng.random() < 0.12:
        other = _absent(rng, scene)
        return Turn(
            "count",
            _pick(rng, _HOW_MANY).replace("{things}", plural(other.phrase)),
            f"I can't see {other.phrase} here.",
            (("can't", "no", "zero", "none"),),
        )
    item = scene.items[rng.integers(len(scene.items))]
    number = scene.counts()[item.name]
    phrase = item.named.phrase if item.named else with_article(item.name)
    verb = "is" if number == 1 else "are"
    amount = f"one {phrase.split(' ', 1)[1]}" if number == 1 else counted(number, phrase)
    return Turn(
        _count_kind(number),
        _pick(rng, _HOW_MANY).replace("{things}", plural(phrase)),
        f"There {verb} {amount}.",
        ((NUMBER_WORDS[number], str(number), *(("a", "an") if number == 1 else ())),),
        ("can't", "no"),
    )


_HOW_MANY = (
    "How many {things} are there?", "How many {things} do you see?",
    "How many {things} are in the {picture}?", "How many {things} can you see?",
    "Count the {things}.", "How many {things}?",
)  # fmt: skip


def _ask_total(rng: np.random.Generator, scene: Scene) -> Turn:
    things = "shapes" if scene.items[0].kind == "shape" else "objects"
    if scene.items[0].kind == "bar":
        things = "bars"
    number = len(scene.items)
    verb, noun = ("is", things[:-1]) if number == 1 else ("are", things)
    return Turn(
        _count_kind(number),
        _pick(rng, _HOW_MANY).replace("{things}", things),
        f"There {verb} {NUMBER_WORDS[number]} {noun}.",
        ((NUMBER_WORDS[number], str(number)),),
    )


def _count_kind(number: int) -> str:
    """Kept apart: up to four people count at a glance, and so should a model of this size."""
    return "count" if number <= 4 else "count (five or six)"


def _ask_background(rng: np.random.Generator, scene: Scene) -> Turn:
    question = _pick(
        rng,
        ("What color is the background?", "Which color is the background?",
         "What is the background color?", "What color is behind it?"),
    )  # fmt: skip
    colors = scene.background
    return Turn(
        "color",
        question.replace("color", "colour") if rng.random() < 0.15 else question,
        f"The background is {' and '.join(colors)}.",
        tuple((color, "grey") if color == "gray" else (color,) for color in colors),
    )


def _ask_shape_color(rng: np.random.Generator, scene: Scene) -> Turn | None:
    item = scene.items[rng.integers(len(scene.items))]
    colors = {str(other.color) for other in scene.items if other.name == item.name}
    if len(colors) > 1:
        return None
    number = scene.counts()[item.name]
    noun, verb = (item.name, "is") if number == 1 else (plural(f"a {item.name}"), "are")
    question = _pick(
        rng, ("What color {verb} the {noun}?", "Which color {verb} the {noun}?")
    ).format(verb=verb, noun=noun)
    return Turn(
        "color",
        question,
        f"The {noun} {verb} {item.color}.",
        ((str(item.color),),),
        tuple(color for color in COLORS if color != item.color),
    )


def _ask_present(rng: np.random.Generator, scene: Scene) -> Turn:
    shown = [item.named for item in scene.items if item.named is not None]
    there = bool(shown) and rng.random() < 0.5
    asked = shown[rng.integers(len(shown))] if there else _absent(rng, scene)
    answer = f"Yes, there is {asked.phrase}." if there else f"No, I can't see {asked.phrase} here."
    if there and scene.counts()[asked.name] > 1:
        answer = f"Yes, there are {counted(scene.counts()[asked.name], asked.phrase)}."
    return _yes_no(_pick(rng, _PRESENT).replace("{thing}", asked.phrase), answer)


def _ask_shape_present(rng: np.random.Generator, scene: Scene) -> Turn:
    shown = {(str(item.color), item.name) for item in scene.items}
    if rng.random() < 0.5:
        color, shape = sorted(shown)[rng.integers(len(shown))]
    else:
        color = list(COLORS)[rng.integers(len(COLORS))]
        shape = SHAPES[rng.integers(len(SHAPES))]
    thing = with_article(f"{color} {shape}")
    there = (color, shape) in shown
    answer = f"Yes, there is {thing}." if there else f"No, I can't see {thing} here."
    return _yes_no(_pick(rng, _PRESENT).replace("{thing}", thing), answer)


_PRESENT = (
    "Is there {thing} in the {picture}?", "Is there {thing}?", "Do you see {thing}?",
    "Can you see {thing}?", "Does the {picture} show {thing}?", "Is this {thing}?",
)  # fmt: skip


def _yes_no(question: str, answer: str) -> Turn:
    if answer.startswith("Yes"):
        return Turn("yes/no", question, answer, (("yes",),), ("no", "can't"))
    return Turn("yes/no", question, answer, (("no", "can't"),), ("yes",))


def _absent(rng: np.random.Generator, scene: Scene) -> NamedObject:
    """An object that the scene does not show, by any of its names."""
    names = {name for item in scene.items if item.named for name in _names(item)}
    others = [shown for shown in OBJECTS if names.isdisjoint((shown.name, *shown.synonyms))]
    return others[rng.integers(len(others))]


def _ask_where(rng: np.random.Generator, scene: Scene) -> Turn | None:
    item = scene.items[rng.integers(len(scene.items))]
    if scene.counts()[item.name] > 1:
        return None
    x, y = item.center
    across = "left" if x < 0.4 else "right" if x > 0.6 else ""
    along = "top" if y < 0.4 else "bottom" if y > 0.6 else ""
    if abs(x - 0.5) < 0.14 and abs(y - 0.5) < 0.14:
        across = along = ""
    words = tuple((word,) for word in (along, across) if word)
    where = f"at the {along} {across}".rstrip() if along else f"on the {across}"
    noun = item.name if item.named is None else item.named.phrase.split(" ", 1)[1]
    question = _pick(rng, ("Where is the {noun}?", "Where in the {picture} is the {noun}?"))
    return Turn(
        "where",
        question.replace("{noun}", noun),
        f"The {noun} is {where if words else 'in the middle'}.",
        words or (("middle", "center"),),
    )


def _ask_beside(rng: np.random.Generator, scene: Scene) -> Turn | None:
    if len(scene.items) != 2 or scene.items[0].name == scene.items[1].name:
        return None
    left, right = sorted(scene.items, key=lambda item: item.center[0])
    if right.center[0] - left.center[0] < 0.3:
        return None
    side, other, asked = ("left", left, right) if rng.random() < 0.5 else ("right", right, left)
    noun = _phrase(asked).split(" ", 1)[1]
    return Turn(
        "beside",
        _pick(rng, (f"What is to the {side} of the {noun}?", f"What is {side} of the {noun}?")),
        f"To the {side} of the {noun} is {_phrase(other)}.",
        (_names(other),),
    )


def _ask_read(rng: np.random.Generator, scene: Scene) -> Turn:
    number = scene.items[0].kind == "number"
    said = _printed_number(scene) if number else scene.items[0].name
    if rng.random() < 0.25:
        question = _pick(
            rng,
            ("Read the text. Answer with the text only.", "What does it say? Just the text."),
        )
        return Turn("read", question, f"{said}", ((said,),))
    asked: tuple[str, ...] = (
        "What does it say?", "What does the {picture} say?", "Read the text.", "What is written?",
        "What is written here?", "What text is in the {picture}?", "Can you read this?",
        "What is written in the {picture}?",
    )  # fmt: skip
    if number:
        asked = (*asked, "Which number is this?", "What number do you see?")
    else:
        asked = (*asked, "Which word is this?", "What word do you see?", "Read the word.")
    quoted = said if number else f'"{said}"'
    return Turn("read", _pick(rng, asked), f"It says {quoted}.", ((said,),))


def _ask_extreme(rng: np.random.Generator, scene: Scene) -> Turn:
    highest = rng.random() < 0.5
    ranked = sorted(scene.items, key=lambda item: item.height, reverse=highest)
    word = ("highest", "tallest", "biggest") if highest else ("lowest", "shortest", "smallest")
    question = _pick(
        rng,
        ("Which bar is the {word}?", "Which bar is {word}?", "What color is the {word} bar?"),
    )
    color = str(ranked[0].color)
    return Turn(
        "chart",
        question.replace("{word}", word[rng.integers(3)]),
        f"The {color} bar is the {word[0]}.",
        ((color,),),
        tuple(other for other in COLORS if other != color),
    )


_Asker = Callable[[np.random.Generator, Scene], Turn | None]
_ASKED_OF: dict[str, tuple[tuple[_Asker, float], ...]] = {
    "object": (
        (_ask_what, 3.0), (_ask_one_word, 1.0), (_ask_describe, 2.0), (_ask_how_many, 4.0),
        (_ask_total, 0.7), (_ask_background, 1.0), (_ask_present, 2.0), (_ask_where, 1.0),
        (_ask_beside, 1.5),
    ),
    "shape": (
        (_ask_what, 2.0), (_ask_describe, 1.5), (_ask_how_many, 4.0), (_ask_total, 0.8),
        (_ask_background, 0.8), (_ask_shape_color, 2.0), (_ask_shape_present, 1.5),
        (_ask_present, 0.3), (_ask_where, 0.7), (_ask_beside, 1.0),
    ),
    "word": (
        (_ask_read, 4.0), (_ask_what, 1.0), (_ask_describe, 0.7), (_ask_background, 0.4),
        (_ask_present, 0.4),
    ),
    "number": (
        (_ask_read, 4.0), (_ask_what, 1.0), (_ask_describe, 0.7), (_ask_background, 0.4),
        (_ask_present, 0.3),
    ),
    "bar": (
        (_ask_extreme, 4.0), (_ask_what, 1.0), (_ask_describe, 1.5), (_ask_total, 1.0),
        (_ask_background, 0.3), (_ask_present, 0.3),
    ),
}  # fmt: skip
