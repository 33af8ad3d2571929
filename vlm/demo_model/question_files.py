"""Write pictures of the picture world with questions about them, for training a draft.

Comes in: material and a seed. Goes out: a folder of PNG files and `questions.jsonl`, an object a
line with `prompt`, `image` (relative to the file) and `category`, as `python -m eagle
generate-data --prompts` reads them. The base answers them itself; what the picture shows is not
written down.
"""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from vlm.demo_model.dialogues import ask
from vlm.demo_model.material import Material
from vlm.demo_model.tower_stage import draw_any

QUESTIONS_FILE = "questions.jsonl"
# Rows and columns of image tokens, and how often; mostly what the page's default leaves of a photo.
_SIZES = ((3, 3), (4, 4), (3, 4), (4, 3), (5, 5), (8, 8))
_SIZE_ODDS = (0.15, 0.5, 0.1, 0.1, 0.1, 0.05)
_DESCRIBING = ("name", "describe")  # long answers; the others are a few words


def write_questions(material: Material, folder: Path, number: int, seed: int) -> Path:
    """`number` pictures with a question each. Returns the questions' file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / QUESTIONS_FILE
    with path.open("w", encoding="utf-8") as lines:
        for index in range(number):
            rng = np.random.default_rng((seed, index))
            scene = draw_any(rng, material, *_SIZES[rng.choice(len(_SIZES), p=_SIZE_ODDS)])
            (turn,) = ask(rng, scene, 1)
            image = f"{seed}-{index:05}.png"
            Image.fromarray(scene.pixels).save(folder / image)
            kind = "image description" if turn.kind in _DESCRIBING else "short image answer"
            line = {"prompt": turn.question, "image": image, "category": kind}
            lines.write(json.dumps(line) + "\n")
    return path
