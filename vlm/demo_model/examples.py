"""Draw the example pictures of the page and check that the model answers them rightly.

In: the weights in the assets folder. Out: `assets/examples/*.png` and `examples.json`, a list of
{"image", "question", "expects"}. The cards are things that the model is good at: of each card's
first few pictures the first that it answers rightly is kept, and a card without one is an error.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from vlm.demo_model.dialogues import Turn
from vlm.demo_model.evaluation import Question, answer_all, load_bundled
from vlm.demo_model.material import Material, training_material
from vlm.demo_model.objects import OBJECTS
from vlm.demo_model.printing import draw_number
from vlm.demo_model.scenes import draw_chart, draw_shapes, draw_these
from vlm.demo_model.sheet import Scene
from vlm.demo_model.train import TrainingFiles
from vlm.pipeline import VlmPipeline

logger = logging.getLogger(__name__)

_SIZE = (4, 4)  # image tokens; what most training pictures had
_CARD_PIXELS = 336
_MOST_PICTURES = 40

Draw = Callable[[np.random.Generator, Material, int, int], Scene]


@dataclass(frozen=True, slots=True)
class ExampleCard:
    """What is drawn, what is asked, and how the words that the answer must contain follow."""

    file_name: str
    draw: Draw
    question: str
    expects: Callable[[Scene], str | None]  # None: the picture does not suit the question


def _one(name: str) -> Draw:
    shown = next(known for known in OBJECTS if known.name == name)
    return lambda rng, material, rows, columns: draw_these(rng, material, [shown], rows, columns)


def _says(words: str, _: Scene) -> str:
    return words


def _only_color(scene: Scene) -> str | None:
    return scene.items[0].color if len(scene.items) == 1 else None


def _number(scene: Scene) -> str:
    return "".join(item.name for item in scene.items)


def _highest(scene: Scene) -> str | None:
    return max(scene.items, key=lambda item: item.height).color


CARDS = (
    ExampleCard("lion.png", _one("lion"), "What is this?", partial(_says, "lion")),
    ExampleCard("unicorn.png", _one("unicorn"), "Describe the picture.", partial(_says, "unicorn")),
    ExampleCard(
        "guitar.png", _one("guitar"), "Is there a guitar in the picture?", partial(_says, "yes")
    ),
    ExampleCard("shape.png", draw_shapes, "What color is the {name}?", _only_color),
    ExampleCard("number.png", draw_number, "What number is this?", _number),
    ExampleCard("chart.png", draw_chart, "Which bar is the highest?", _highest),
)


def write_examples(files: TrainingFiles, folder: Path) -> None:
    """Draw and ask every card; write pictures and list only if all cards have an answer."""
    pipeline = load_bundled(files)
    material = training_material(files.artwork_cache)
    found = [_first_right(pipeline, material, card, index) for index, card in enumerate(CARDS)]
    missing = [card.file_name for card, kept in zip(CARDS, found, strict=True) if kept is None]
    if missing:
        raise ValueError(f"answered wrongly: {', '.join(missing)}")
    folder.mkdir(parents=True, exist_ok=True)
    listed = []
    for card, kept in zip(CARDS, found, strict=True):
        assert kept is not None
        picture = Image.fromarray(kept.scene.pixels)
        size = (_CARD_PIXELS, _CARD_PIXELS)
        picture.resize(size, Image.Resampling.BICUBIC).save(folder / card.file_name, optimize=True)
        question = kept.turn.question
        listed.append({"image": card.file_name, "question": question, "expects": kept.turn.answer})
    (folder / "examples.json").write_text(json.dumps(listed, indent=2) + "\n")


def _first_right(
    pipeline: VlmPipeline, material: Material, card: ExampleCard, index: int
) -> Question | None:
    for seed in range(_MOST_PICTURES):
        # Another background for every card.
        scene = card.draw(np.random.default_rng((index, seed)), material, *_SIZE)
        words = card.expects(scene)
        if words is None:
            continue
        asked = card.question.format(name=scene.items[0].name)
        question = Question(scene, card.file_name, Turn("example", asked, words, ((words,),)))
        (answered,) = answer_all(pipeline, [question])
        logger.info("%s, seed %d: %s -> %s", card.file_name, seed, asked, answered.answer)
        if answered.is_right:
            return question
    return None
