"""Draw the example pictures of the page and check that the model answers them rightly.

In: the weights in the assets folder. Out: `assets/examples/*.png` and `examples.json`, a
list of {"image", "question", "expects"}; an example the model gets wrong is an error.
"""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from vlm.demo_model.artwork import load_font_artwork
from vlm.demo_model.evaluation import answer_batch
from vlm.demo_model.objects import OBJECTS
from vlm.demo_model.train import TrainingFiles, load_composed
from vlm.demo_model.weights import read_visual_weights

logger = logging.getLogger(__name__)

# 64 image tokens, the default limit of one picture: nothing is resized before the model.
_SIZE = 224


@dataclass(frozen=True, slots=True)
class ExamplePicture:
    """One card of the page: an object before a gradient, and what is asked about it."""

    file_name: str
    name: str
    question: str
    expects: str
    top_color: tuple[int, int, int]
    bottom_color: tuple[int, int, int]


_YELLOW = (255, 226, 142), (244, 196, 84)
_GREEN = (120, 196, 120), (70, 158, 80)
_BLUE = (110, 160, 240), (58, 108, 206)
_ORANGE = (252, 172, 84), (238, 134, 40)
_PINK = (250, 176, 206), (236, 136, 180)
_PURPLE = (160, 104, 200), (122, 66, 164)

EXAMPLES = (
    ExamplePicture("lion.png", "lion", "What is this?", "lion", *_GREEN),
    ExamplePicture("hamburger.png", "hamburger", "What is in the picture?", "hamburger", *_BLUE),
    ExamplePicture("unicorn.png", "unicorn", "What can you see?", "unicorn", *_PINK),
    ExamplePicture("pumpkin.png", "pumpkin", "What is shown in this image?", "pumpkin", *_ORANGE),
    ExamplePicture("carrot.png", "carrot", "Name the object in this picture.", "carrot", *_PURPLE),
    ExamplePicture("fox.png", "fox", "Describe the picture.", "fox", *_YELLOW),
)


def draw_example(example: ExamplePicture) -> Image.Image:
    """The object, upright and in the middle, before a vertical gradient."""
    (shown,) = (candidate for candidate in OBJECTS if candidate.name == example.name)
    glyph = load_font_artwork([shown.codepoint])[shown.codepoint]
    glyph = glyph.resize(
        [round(side * 0.72 * _SIZE / max(glyph.size)) for side in glyph.size],
        Image.Resampling.LANCZOS,
    )
    share = np.linspace(0, 1, _SIZE)[:, None, None]
    rows = (1 - share) * np.array(example.top_color) + share * np.array(example.bottom_color)
    pixels = np.broadcast_to(rows, (_SIZE, _SIZE, 3)).round().astype(np.uint8)
    picture = Image.fromarray(pixels)
    corner = ((_SIZE - glyph.width) // 2, (_SIZE - glyph.height) // 2)
    picture.paste(glyph, corner, glyph)
    return picture


def write_examples(files: TrainingFiles, folder: Path) -> None:
    """Draw every example, ask the model, and write the list only if all answers hold."""
    model, tokenizer = load_composed(files.gguf())
    weights, _ = read_visual_weights(files.assets)
    model.model.visual.load_state_dict(weights)
    folder.mkdir(parents=True, exist_ok=True)
    wrong = []
    for example in EXAMPLES:
        picture = draw_example(example)
        (answer,) = answer_batch(model, tokenizer, np.asarray(picture)[None], example.question)
        logger.info("%s: %s -> %s", example.file_name, example.question, answer)
        if example.expects.lower() not in answer.lower():
            wrong.append(example.file_name)
        picture.save(folder / example.file_name, optimize=True)
    if wrong:
        raise ValueError(f"answered wrongly: {', '.join(wrong)}")
    listed = [
        {"image": e.file_name, "question": e.question, "expects": e.expects} for e in EXAMPLES
    ]
    (folder / "examples.json").write_text(json.dumps(listed, indent=2) + "\n")
