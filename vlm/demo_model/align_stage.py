"""Second stage: the tower learns to be read by the language model, which stays as it is.

In: a composed model whose tower went through the first stage. Out: a tower whose tokens
make the frozen language model give the right answer. The loss is next-token cross-entropy
at the answer's positions, under the real chat template and the real 3-D positions. The
first stage's loss goes on beside it, on pictures of its own: it is far cheaper a picture,
and most of what is still to be learned is which object is which.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    DynamicCache,
    PreTrainedTokenizerBase,
    Qwen2_5_VLForConditionalGeneration,
)

from vlm.demo_model.artwork import Artwork
from vlm.demo_model.composition import VISION_END, VISION_START
from vlm.demo_model.objects import OBJECTS
from vlm.demo_model.questions import QuestionAnswer, ask_each
from vlm.demo_model.scenes import PIXELS_PER_TOKEN, Scene, draw_scene
from vlm.demo_model.tower_stage import LARGE_SIZE_ODDS, TowerStage, held_out_scenes, last_layer
from vlm.demo_model.training_loop import ParameterGroup, batches_of
from vlm.demo_model.vision_tower import run_tower, to_pixel_values

SYSTEM_PROMPT = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
_PREFIX = f"<|im_start|>system\n{SYSTEM_PROMPT}<|im_end|>\n<|im_start|>user\n{VISION_START}"
_TURN = VISION_END + "{question}<|im_end|>\n<|im_start|>assistant\n"
# Every token costs about half a GFLOP, so most pictures are small ones, and a few large.
_PICTURES_PER_BATCH = 12
_MAX_IMAGE_TOKENS_PER_BATCH = 256
_SIZES = (84, 112, 140, 168, 196, 224)
_SIZE_ODDS = (0.38, 0.22, 0.10, 0.06, 0.06, 0.18)
_NAMING_WEIGHT = 0.2
_PROMPT_RATE_SCALE = 15.0
_IGNORED = -100


@dataclass(frozen=True, slots=True)
class _Batch:
    token_ids: Tensor  # (batch, tokens after the picture)
    labels: Tensor  # (batch, tokens after the picture), _IGNORED outside answers


def prompt_text(image: str, question: str) -> str:
    """The whole prompt of one question about one picture, up to where the answer begins."""
    return _PREFIX + image + _TURN.format(question=question)


class AlignStage:
    """Next-token loss through the frozen language model."""

    learning_rate = 4e-4
    report_seconds = 150.0  # the check costs several steps

    def __init__(
        self,
        model: Qwen2_5_VLForConditionalGeneration,
        artworks: Sequence[Artwork],
        tokenizer: PreTrainedTokenizerBase,
    ) -> None:
        embeddings = model.model.language_model.embed_tokens.weight.detach().clone()
        # The last bias is the same in every image token: a prompt that says how to answer.
        # It belongs to the answers, so the first stage's loss keeps the bias it came with.
        own_bias = last_layer(model.model.visual).bias.detach().clone() - embeddings.mean(0)
        self._naming = TowerStage(
            model.model.visual,
            artworks,
            tokenizer,
            embeddings,
            own_bias=own_bias,
            size_odds=LARGE_SIZE_ODDS,
        )
        self._artworks = artworks
        self._tokenizer = tokenizer
        self._tower = model.model.visual
        # Frozen weights in the type autocast would choose: nothing is converted step by step.
        self._language_model = model.model.language_model.requires_grad_(False).bfloat16()
        self._prefix_ids = tokenizer.encode(_PREFIX)
        self._prefix = self._run_prefix()
        self._held_out = held_out_scenes(artworks, num_scenes=len(OBJECTS), size=84)[::4]

    @property
    def trained(self) -> nn.Module:
        """Tower and merger; the language model is not among them."""
        tower: nn.Module = self._tower
        return tower

    def parameter_groups(self) -> list[ParameterGroup]:
        """The bias that serves as a prompt starts from nothing and has far to go."""
        prompt = last_layer(self._tower).bias
        others = tuple(p for p in self._tower.parameters() if p is not prompt)
        return [
            ParameterGroup(others, rate_scale=1.0),
            ParameterGroup((prompt,), rate_scale=_PROMPT_RATE_SCALE),
        ]

    def loss(self, rng: np.random.Generator) -> tuple[Tensor, int]:
        """One batch of pictures of one size, one question each."""
        size = int(rng.choice(_SIZES, p=_SIZE_ODDS))
        tokens_per_picture = (size // PIXELS_PER_TOKEN) ** 2
        num_pictures = min(_PICTURES_PER_BATCH, _MAX_IMAGE_TOKENS_PER_BATCH // tokens_per_picture)
        shown = rng.integers(len(OBJECTS), size=num_pictures)
        scenes = [draw_scene(rng, self._artworks, OBJECTS[i], size, size) for i in shown]
        logits, labels = self._answer_logits(scenes, ask_each(rng, scenes))
        answers = F.cross_entropy(logits.float(), labels)
        names, num_named = self._naming.loss(rng)
        return answers + _NAMING_WEIGHT * names, num_pictures + num_named

    @torch.no_grad()
    def held_out_accuracy(self) -> float:
        """Answers to "What is this?" of which every token is the likeliest one."""
        right = 0
        for scenes in batches_of(self._held_out, 34):
            exchanges = [
                QuestionAnswer("What is this?", f"This is {scene.shown.phrase}.")
                for scene in scenes
            ]
            logits, labels = self._answer_logits(scenes, exchanges)
            hits = (logits.argmax(-1) == labels).tolist()
            answer_lengths = [len(self._tokenizer.encode(e.answer)) + 1 for e in exchanges]
            for length in answer_lengths:
                right += all(hits[:length])
                hits = hits[length:]
        return right / len(self._held_out)

    def _answer_logits(
        self, scenes: list[Scene], exchanges: list[QuestionAnswer]
    ) -> tuple[Tensor, Tensor]:
        """Logits (answer tokens of all pictures, vocabulary) and the tokens they should give."""
        pixels = np.stack([scene.pixels for scene in scenes])
        height, width = pixels.shape[1:3]
        with torch.autocast("cpu", torch.bfloat16):
            image = run_tower(self._tower, to_pixel_values(pixels), height, width)
        batch = self._tokenize(exchanges)
        embed = self._language_model.embed_tokens
        inputs = torch.cat((image.to(embed.weight.dtype), embed(batch.token_ids)), dim=1)
        positions = image_and_text_positions(
            len(self._prefix_ids),
            height // PIXELS_PER_TOKEN,
            width // PIXELS_PER_TOKEN,
            batch.token_ids.shape[1],
        )
        hidden = self._language_model(
            inputs_embeds=inputs,
            position_ids=positions[:, None].expand(-1, len(scenes), -1),
            past_key_values=self._prefix_cache(len(scenes)),
            use_cache=True,
        ).last_hidden_state[:, image.shape[1] :]
        wanted = batch.labels[:, 1:] != _IGNORED  # the token before a label predicts it
        logits = F.linear(hidden[:, :-1][wanted], embed.weight)
        return logits, batch.labels[:, 1:][wanted]

    def _tokenize(self, exchanges: list[QuestionAnswer]) -> _Batch:
        """Right-padded: attention is causal, so no answer sees its padding."""
        rows, labels = [], []
        for exchange in exchanges:
            asked = self._tokenizer.encode(_TURN.format(question=exchange.question))
            answer = self._tokenizer.encode(f"{exchange.answer}<|im_end|>")
            rows.append(asked + answer)
            labels.append([_IGNORED] * len(asked) + answer)
        length = max(map(len, rows))
        return _Batch(
            torch.tensor([row + [0] * (length - len(row)) for row in rows]),
            torch.tensor([row + [_IGNORED] * (length - len(row)) for row in labels]),
        )

    @torch.no_grad()
    def _run_prefix(self) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of everything before the picture, the same for every example."""
        cache: Any = DynamicCache()
        self._language_model(
            input_ids=torch.tensor([self._prefix_ids]), past_key_values=cache, use_cache=True
        )
        return [(layer.keys, layer.values) for layer in cache.layers]

    def _prefix_cache(self, batch_size: int) -> DynamicCache:
        cache = DynamicCache()
        for index, (keys, values) in enumerate(self._prefix):
            shape = (batch_size, -1, -1, -1)
            cache.update(keys.expand(shape), values.expand(shape), index)
        return cache


def image_and_text_positions(start: int, rows: int, columns: int, text_length: int) -> Tensor:
    """Positions (3, rows * columns + text_length) of one picture and the text behind it."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    image = start + torch.stack((torch.zeros_like(y), y, x)).flatten(1)
    text = start + max(rows, columns) + torch.arange(text_length)
    return torch.cat((image, text.expand(3, -1)), dim=1)
