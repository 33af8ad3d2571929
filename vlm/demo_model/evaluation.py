"""How often the composed model names what it is shown, decoded greedily in float32.

In: a composed model with its trained tower, scenes it was not trained on. Out: counts with
a 95 % Wilson interval. Everything goes through transformers' own forward and generate, none
of it through the shortcuts of training.
"""

import logging
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedTokenizerBase, Qwen2_5_VLForConditionalGeneration

from vlm.demo_model.align_stage import prompt_text
from vlm.demo_model.composition import IMAGE_PAD
from vlm.demo_model.scenes import PIXELS_PER_TOKEN, Scene
from vlm.demo_model.tower_stage import held_out_scenes
from vlm.demo_model.train import (
    TrainingFiles,
    fluent_artworks,
    held_out_artworks,
    load_composed,
    noto_artworks,
)
from vlm.demo_model.training_loop import batches_of
from vlm.demo_model.vision_tower import PATCH, to_pixel_values
from vlm.demo_model.weights import read_visual_weights

logger = logging.getLogger(__name__)

QUESTION = "What do you see?"
_BATCH = 16


@dataclass(frozen=True, slots=True)
class Accuracy:
    """`right` of `total`, and what was answered instead, most frequent first."""

    right: int
    total: int
    mistakes: tuple[tuple[str, int], ...]  # ("dog: This is a cat.", 2)

    def __str__(self) -> str:
        low, high = wilson_interval(self.right, self.total)
        share = 100 * self.right / self.total
        return (
            f"{share:.1f} % ({self.right} of {self.total}; "
            f"95 % interval {100 * low:.1f} to {100 * high:.1f})"
        )


def wilson_interval(right: int, total: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share."""
    z = 1.959964
    share = right / total
    center = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return (center - spread) / scale, (center + spread) / scale


def naming_accuracy(
    model: Qwen2_5_VLForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    scenes: Sequence[Scene],
    question: str,
) -> Accuracy:
    """The share of scenes, all of one size, whose answer names the object."""
    right, mistakes = 0, Counter[str]()
    for batch in batches_of(list(scenes), _BATCH):
        pixels = np.stack([scene.pixels for scene in batch])
        answers = answer_batch(model, tokenizer, pixels, question)
        for scene, answer in zip(batch, answers, strict=True):
            if scene.shown.is_named_in(answer):
                right += 1
            else:
                mistakes[f"{scene.shown.name}: {answer}"] += 1
    return Accuracy(right, len(scenes), tuple(mistakes.most_common()))


@torch.no_grad()
def answer_batch(
    model: Qwen2_5_VLForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    pixels: npt.NDArray[np.uint8],
    question: str,
    max_new_tokens: int = 40,
) -> list[str]:
    """Greedy answers to one question about pictures (batch, height, width, 3)."""
    batch, height, width, _ = pixels.shape
    num_tokens = (height // PIXELS_PER_TOKEN) * (width // PIXELS_PER_TOKEN)
    prompt = prompt_text(IMAGE_PAD * num_tokens, question)
    input_ids = torch.tensor([tokenizer.encode(prompt)] * batch)
    grid = torch.tensor([[1, height // PATCH, width // PATCH]] * batch)
    model_to_run: Any = model  # transformers types generate for another self
    output = model_to_run.generate(
        input_ids=input_ids,
        attention_mask=torch.ones_like(input_ids),
        mm_token_type_ids=(input_ids == model.config.image_token_id).int(),
        pixel_values=to_pixel_values(pixels).flatten(0, 1),
        image_grid_thw=grid,
        do_sample=False,
        max_new_tokens=max_new_tokens,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
        pad_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
    )
    answers: list[str] = tokenizer.batch_decode(
        output[:, input_ids.shape[1] :], skip_special_tokens=True
    )
    return answers


def evaluate(files: TrainingFiles, num_scenes: int, sizes: Sequence[int]) -> None:
    """Log the naming accuracy of the weights in the assets folder, set by set."""
    model, tokenizer = load_composed(files.gguf())
    weights, _ = read_visual_weights(files.assets)
    model.model.visual.load_state_dict(weights)
    sets = {
        "Noto, new scenes": noto_artworks(files.artwork_cache),
        "Fluent 3D, new scenes": fluent_artworks(files.artwork_cache),
        "Twemoji, artwork never seen": held_out_artworks(files.artwork_cache),
    }
    for set_name, artworks in sets.items():
        for size in sizes:
            scenes = held_out_scenes(artworks, num_scenes, size)
            accuracy = naming_accuracy(model, tokenizer, scenes, QUESTION)
            logger.info("%s, %d pixels, %r: %s", set_name, size, QUESTION, accuracy)
            for mistake, count in accuracy.mistakes[:12]:
                logger.info("    %d x %s", count, mistake)
