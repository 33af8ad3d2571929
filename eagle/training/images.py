"""Prompts with a picture, merged as the base itself merges them (through transformers).

What comes in: a rendered chat prompt with one placeholder, and a picture. What goes out: the
expanded token ids, the embeddings with the picture's features in place, and positions on three
axes. Which of its embeddings the draft sees at the placeholders is `eagle.training.collate`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import AutoImageProcessor

from eagle.training.base import Base


@dataclass(frozen=True, slots=True)
class MergedInput:
    """A prompt of n tokens whose placeholders are filled."""

    embeds: torch.Tensor  # (n, H)
    positions: torch.Tensor  # (3, n)
    is_image: torch.Tensor  # (n,) bool: the placeholders

    @property
    def image_embeds(self) -> torch.Tensor:
        """(k, H) what stands at the placeholders."""
        return self.embeds[self.is_image]


class ImageMerger:
    """Turns prompts with a picture into what the base reads."""

    def __init__(self, base: Base) -> None:
        self._model: Any = base.model
        self._tokenizer = base.tokenizer
        loader: Any = AutoImageProcessor
        self._processor = loader.from_pretrained(base.path)
        self._image_token: int = base.model.config.image_token_id

    @torch.inference_mode()
    def merge(self, prompt: str, picture: Path) -> tuple[tuple[int, ...], MergedInput]:
        """Token ids (n) and the merged input of a prompt with exactly one placeholder."""
        features, grid = self.see(picture)
        ids = self._expand(prompt, len(features))
        return tuple(ids.tolist()), self._fill(ids, features, grid)

    @torch.inference_mode()
    def see(self, picture: Path) -> tuple[torch.Tensor, torch.Tensor]:
        """A picture's features (k, H) and its grid of patches (1, 3)."""
        with Image.open(picture) as image:
            inputs = self._processor(images=[image.convert("RGB")], return_tensors="pt")
        inputs = inputs.to(self._model.device)
        vision = self._model.get_image_features(inputs["pixel_values"], inputs["image_grid_thw"])
        return torch.cat(list(vision.pooler_output)), inputs["image_grid_thw"]

    def _fill(self, ids: torch.Tensor, features: torch.Tensor, grid: torch.Tensor) -> MergedInput:
        ids = ids.to(self._model.device)
        is_image = ids == self._image_token
        embeds = self._model.get_input_embeddings()(ids)
        embeds[is_image] = features.to(embeds.dtype)
        positions, _ = self._model.model.get_rope_index(
            ids[None], mm_token_type_ids=is_image.int()[None], image_grid_thw=grid
        )
        return MergedInput(embeds, positions[:, 0], is_image)

    def _expand(self, prompt: str, count: int) -> torch.Tensor:
        """Ids of the prompt with its placeholder repeated `count` times."""
        ids: list[int] = []
        for token in self._tokenizer(prompt, add_special_tokens=False)["input_ids"]:
            ids += [token] * (count if token == self._image_token else 1)
        return torch.tensor(ids)
