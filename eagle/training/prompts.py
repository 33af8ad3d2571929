"""Prompts to train on: templates over topics, small sums, and turns that the base invents itself.

Prompt number i of a seed is always the same, whatever was made before it. A prompt is held out
for evaluation, or trained on, by a hash of its text alone, so that neither a new seed nor a resumed
run can move one across.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle.errors import EagleConfigError
from eagle.training.topics import PASSAGES, STARTERS, TEMPLATES, TOPICS

HELD_OUT_ONE_IN = 40
INVENTED_SHARE = 0.3
ARITHMETIC_SHARE = 0.05
REWRITE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class PromptSeed:
    """What the user's turn starts from; with `invented`, the base writes the rest of the turn."""

    text: str
    category: str
    invented: bool = False
    image: Path | None = None


def is_held_out(prompt: str, image: Path | None = None) -> bool:
    """Whether this prompt, about this picture, belongs to the slice that no draft is trained on."""
    digest = hashlib.sha256(f"{prompt}{image.name if image else ''}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % HELD_OUT_ONE_IN == 0


def prompt_seed(seed: int, index: int) -> PromptSeed:
    """Prompt number `index` of the endless list that `seed` names."""
    rng = random.Random(f"{seed}/{index}")
    draw = rng.random()
    if draw < INVENTED_SHARE:
        return PromptSeed(rng.choice(STARTERS), "invented", invented=True)
    if draw < INVENTED_SHARE + ARITHMETIC_SHARE:
        return PromptSeed(_arithmetic(rng), "maths")
    if draw < INVENTED_SHARE + ARITHMETIC_SHARE + REWRITE_SHARE:
        instruction, passage = rng.choice(_REWRITES), rng.choice(PASSAGES)
        return PromptSeed(f"{instruction}\n\n{passage}", "rewrite")
    category = rng.choice(sorted(TEMPLATES))
    template = rng.choice(TEMPLATES[category])
    first, second = rng.sample(TOPICS, 2)
    return PromptSeed(template.format(topic=first, other=second), category)


def read_prompts(path: Path) -> list[PromptSeed]:
    """Prompts from a JSONL file: an object a line, with `prompt` (or MT-bench's `turns`, of which
    the first is taken) and perhaps `category`, `image`.

    Pictures are found relative to the file. Raises `EagleConfigError` naming a line that has
    another form.
    """
    seeds = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                record = json.loads(line)
                text = record["prompt"] if "prompt" in record else record["turns"][0]
            except (ValueError, KeyError, IndexError, TypeError) as error:
                raise EagleConfigError(
                    f"Line {number} of {path} is no prompt (a JSON object with 'prompt' or "
                    f"'turns'): {error!r}"
                ) from error
            image = path.parent / record["image"] if record.get("image") else None
            category = record.get("category", "image" if image else "file")
            seeds.append(PromptSeed(text, category, image=image))
    return seeds


_REWRITES: Sequence[str] = (
    "Summarize the following text in one sentence.",
    "Rewrite this text in simpler words.",
    "Rewrite the following text in a formal tone.",
    "Fix the grammar and improve this text.",
    "What is the main idea of this text?",
    "Give this text a title and three keywords.",
    "Turn the following text into a list of bullet points.",
    "Continue this text with two more sentences.",
    "Write three questions about the following text.",
    "Make this text shorter.",
)

_NAMES = ("Anna", "Ben", "Carla", "David", "Emma", "Farid", "Grace", "Hugo", "Ines", "Jonas")
_THINGS = ("apples", "books", "marbles", "stickers", "coins", "cookies", "pencils", "stamps")


def _sum(rng: random.Random) -> str:
    a, b = rng.randint(2, 99), rng.randint(2, 99)
    return f"What is {a} {rng.choice(('plus', 'minus', 'times', '+', '-', '*'))} {b}?"


def _story_sum(rng: random.Random) -> str:
    name, thing = rng.choice(_NAMES), rng.choice(_THINGS)
    a, b, c = rng.randint(3, 30), rng.randint(2, 20), rng.randint(2, 6)
    return rng.choice(
        (
            f"{name} has {a} {thing} and buys {b} more. How many {thing} does {name} have now?",
            f"{name} shares {a * c} {thing} equally among {c} friends. How many does each get?",
            f"A box holds {a} {thing}. How many {thing} are in {c} boxes? Show the steps.",
            f"{name} had {a + b} {thing} and gave {b} away. How many are left? Explain.",
        )
    )


def _percentage(rng: random.Random) -> str:
    return f"What is {rng.choice((5, 10, 20, 25, 50, 75))} % of {rng.randint(2, 40) * 20}?"


def _arithmetic(rng: random.Random) -> str:
    makers: tuple[Callable[[random.Random], str], ...] = (_sum, _story_sum, _percentage)
    return rng.choice(makers)(rng)
