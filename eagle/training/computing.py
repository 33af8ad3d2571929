"""States that were not stored, computed again: the base reads prompt and answer in one pass.

They are what `generate-data` would have stored, up to the rounding of one pass over the whole text
in place of a pass a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import torch

from eagle.errors import EagleConfigError
from eagle.training.base import Base
from eagle.training.batch_decode import BatchDecoder, Completion, Request
from eagle.training.dataset import Example
from eagle.training.images import ImageMerger, MergedInput
from eagle.training.shards import Features


class FeatureComputer:
    """Runs the base over the examples of a batch, all at once."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._merger: ImageMerger | None = None

    def __call__(self, examples: Sequence[Example]) -> list[Features]:
        # The draft may be trained in another precision; the base keeps its own.
        with torch.autocast(self._base.model.device.type, enabled=False):
            requests = [self._request(row, example) for row, example in enumerate(examples)]
            found = {done.request.key: done.features for done in self._run(requests)}
        return [found[row] for row in range(len(examples))]

    def _run(self, requests: Sequence[Request]) -> list[Completion]:
        """All at once, by a decoder of their own: its hooks on the base must not outlive them."""
        longest = max(len(request.prompt_ids) for request in requests)
        decoder = BatchDecoder(self._base, rows=len(requests), capacity=longest + 1)
        with closing(decoder):
            return list(decoder.run(requests))

    def _request(self, row: int, example: Example) -> Request:
        """All tokens but the last as a prompt; the one token it answers is of no use."""
        record = example.record
        return Request(
            key=row,
            prompt_ids=record.prompt_ids + record.answer_ids[:-1],
            temperature=0.0,
            max_new_tokens=1,
            seed=0,
            merged=None if record.image is None else self._merged(example),
        )

    @torch.inference_mode()
    def _merged(self, example: Example) -> MergedInput:
        record, device = example.record, self._base.model.device
        self._merger = self._merger or ImageMerger(self._base)
        features, _ = self._merger.see(example.picture)
        if len(features) != len(record.placeholders):
            raise EagleConfigError(
                f"{example.picture} gives {len(features)} image tokens, but the training set was "
                f"written when it gave {len(record.placeholders)}: generate the data again."
            )
        embed: Any = self._base.model.get_input_embeddings()
        ids = torch.tensor(record.prompt_ids + record.answer_ids[:-1], device=device)
        is_image = torch.zeros(len(ids), dtype=torch.bool, device=device)
        is_image[list(record.placeholders)] = True
        embeds = embed(ids)
        embeds[is_image] = features.to(embeds.dtype)
        return MergedInput(embeds, torch.tensor(record.positions, device=device), is_image)
