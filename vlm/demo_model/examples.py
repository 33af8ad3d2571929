"""Draw the example pictures of the page and check that the model answers them rightly.

In: the weights in the assets folder. Out: `assets/examples/*.png` and `examples.json`, a list of
{"image", "question", "expects"}, the last one the words that the answer must contain. The cards are
things that the model is good at: each is drawn five times, four of the pictures must be answered
rightly, and the first of those is kept.
"""

import itertools
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from vlm.demo_model.dialogues import Turn
from vlm.demo_model.evaluation import Question, answer_all, load_bundled
from vlm.demo_model.material import Material, training_material
from vlm.demo_model.objects import OBJECTS
from vlm.demo_model.printing import write_word
from vlm.demo_model.scenes import draw_chart, draw_shapes, draw_these
from vlm.demo_model.sheet import Item, Scene
from vlm.demo_model.train import TrainingFiles
from vlm.demo_model.wording import NUMBER_WORDS
from vlm.pipeline import VlmPipeline

logger = logging.getLogger(__name__)

_SIZE = (4, 4)  # image tokens; what most training pictures had
_CARD_PIXELS = 336
_PICTURES_ASKED = 5
_LEAST_RIGHT = 4

Draw = Callable[[np.random.Generator, Material, int, int], Scene]


@dataclass(frozen=True, slots=True)
class ExampleCard:
    """What is drawn, what is asked, and how the words that the answer must contain follow."""

    file_name: str
    draw: Draw
    question: str
    expects: Callable[[Scene], tuple[str, ...]]  # empty: the picture does not suit the question


def _these(*names: str) -> Draw:
    named = {known.name: known for known in OBJECTS}
    shown = [named[name] for name in names]
    return lambda rng, material, rows, columns: draw_these(rng, material, shown, rows, columns)


def _names(scene: Scene) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.name for item in scene.items))


def _number_of_things(scene: Scene) -> tuple[str, ...]:
    return (NUMBER_WORDS[len(scene.items)],)


def _only_color(scene: Scene) -> tuple[str, ...]:
    return _color(scene.items[0]) if len(scene.items) == 1 else ()


def _highest(scene: Scene) -> tuple[str, ...]:
    return _color(max(scene.items, key=lambda item: item.height))


def _color(item: Item) -> tuple[str, ...]:
    return (item.color,) if item.color else ()


def _print(word: str) -> Draw:
    return lambda rng, material, rows, columns: write_word(rng, material, word, rows, columns)


CARDS = (
    ExampleCard("lion.png", _these("lion"), "What is this?", _names),
    ExampleCard("toys.png", _these("robot", "unicorn"), "Describe the picture.", _names),
    ExampleCard("dogs.png", _these(*["dog"] * 3), "How many dogs are there?", _number_of_things),
    ExampleCard("word.png", _print("coffee"), "What does it say?", _names),
    ExampleCard("shape.png", draw_shapes, "What color is the {name}?", _only_color),
    ExampleCard("chart.png", draw_chart, "Which bar is the highest?", _highest),
)


def write_examples(files: TrainingFiles, folder: Path) -> None:
    """Draw and ask every card; write pictures and list only if all are answered well."""
    pipeline = load_bundled(files)
    material = training_material(files.artwork_cache)
    kept = [_ask_card(pipeline, material, card, index) for index, card in enumerate(CARDS)]
    folder.mkdir(parents=True, exist_ok=True)
    listed = []
    for card, question in zip(CARDS, kept, strict=True):
        picture = Image.fromarray(question.scene.pixels)
        size = (_CARD_PIXELS, _CARD_PIXELS)
        picture.resize(size, Image.Resampling.BICUBIC).save(folder / card.file_name, optimize=True)
        words = [word for (word,) in question.turn.expected]
        listed.append(
            {"image": card.file_name, "question": question.turn.question, "expects": words}
        )
    (folder / "examples.json").write_text(json.dumps(listed, indent=2) + "\n")


def _ask_card(pipeline: VlmPipeline, material: Material, card: ExampleCard, index: int) -> Question:
    """The first of the card's pictures that is answered rightly; ValueError if too few are."""
    questions = list(itertools.islice(_draw_card(material, card, index), _PICTURES_ASKED))
    answers = list(answer_all(pipeline, questions))
    for answered in answers:
        logger.info(
            "%s: %s -> %s", card.file_name, answered.question.turn.question, answered.answer
        )
    right = [answered.question for answered in answers if answered.is_right]
    if len(right) < _LEAST_RIGHT:
        raise ValueError(
            f"{card.file_name}: {len(right)} of {len(answers)} pictures were answered rightly; "
            f"a card needs {_LEAST_RIGHT}. Nothing was written."
        )
    return right[0]


def _draw_card(material: Material, card: ExampleCard, index: int) -> Iterator[Question]:
    """Pictures that suit the card's question, without end."""
    for seed in itertools.count():
        # Another background for every card.
        scene = card.draw(np.random.default_rng((index, seed)), material, *_SIZE)
        if words := card.expects(scene):
            asked = card.question.format(name=scene.items[0].name)
            turn = Turn("example", asked, "", tuple((word,) for word in words))
            yield Question(scene, card.file_name, turn)
