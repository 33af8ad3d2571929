"""A transformers base as the target of real decoding, so that a draft can be measured by itself.

In: a `Base`. Out: an `eagle.models.TargetModel`. Trees are verified under their own mask, keys and
values live in an `eagle.kv_cache.KVCache`; nothing here is tuned for speed.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import AttentionInterface

from eagle.kv_cache import KVCache
from eagle.models import TargetOutput
from eagle.training.base import Base
from eagle.training.batch_decode import StateCapture
from eagle.tree import DraftTree
from eagle.types import MergedPrompt

ATTENTION_NAME = "eagle_tree"


def masked_attention(
    module: nn.Module,
    query: torch.Tensor,  # (1, nh, T, d)
    key: torch.Tensor,  # (1, nkv, rows, d)
    value: torch.Tensor,  # (1, nkv, rows, d)
    attention_mask: torch.Tensor,  # (1, 1, T, rows) bool
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Grouped-query attention under an explicit mask."""
    out = F.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=True
    )
    return out.transpose(1, 2), None


AttentionInterface.register(ATTENTION_NAME, masked_attention)


class _CacheBridge:
    """The one method that transformers' attention layers call, over a `KVCache`."""

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows = self._cache.length + key.shape[2]
        window = self._cache.window(key.shape[2])
        keys, values = self._cache.append(
            layer, key[0].transpose(0, 1), value[0].transpose(0, 1), window
        )
        return keys[None, :, :rows], values[None, :, :rows]


class TransformersTarget:
    """Captures hidden states `aux_layers` (indices into hidden_states) in the same forward."""

    def __init__(self, base: Base, aux_layers: tuple[int, ...]) -> None:
        self.base = base
        # The visual encoder keeps its own attention, which is not causal.
        base.decoder.set_attn_implementation(ATTENTION_NAME)
        self._embed: Any = base.model.get_input_embeddings()
        self._capture = StateCapture(base.decoder, [layer - 1 for layer in aux_layers])

    def new_cache(self, capacity: int) -> KVCache:
        text = self.base.text_config
        head_dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        return KVCache(
            text.num_hidden_layers,
            text.num_key_value_heads,
            head_dim,
            capacity,
            dtype=self.base.model.dtype,
            device=self.base.model.device,
        )

    def close(self) -> None:
        """Take the hooks off the base again."""
        self._capture.close()

    @torch.inference_mode()
    def prefill(self, prompt: MergedPrompt, cache: KVCache) -> TargetOutput:
        cache.truncate(0)
        rows = len(prompt)
        causal = torch.ones(rows, rows, dtype=torch.bool).tril()
        output = self._forward(prompt.inputs_embeds, prompt.position_ids, causal, cache)
        return TargetOutput(output.logits[-1:], output.aux_hidden)

    @torch.inference_mode()
    def verify(self, tree: DraftTree, rope_delta: int, cache: KVCache) -> TargetOutput:
        device = self.base.model.device
        embeds = self._embed(torch.tensor(tree.token_ids, device=device))
        slots = cache.length + torch.tensor(tree.depths) + rope_delta
        committed = torch.ones(len(tree), cache.length, dtype=torch.bool)
        mask = torch.cat((committed, tree.ancestor_mask), dim=1)
        return self._forward(embeds, slots.expand(3, -1), mask, cache)

    def _forward(
        self, embeds: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor, cache: KVCache
    ) -> TargetOutput:
        """embeds (T, H), positions (3, T), mask (T, rows); T rows are appended to the cache."""
        device = self.base.model.device
        positions = positions.to(device)[:, None]
        self.base.decoder(
            inputs_embeds=embeds[None],
            position_ids=positions if self.base.is_multi_axis else positions[0],
            attention_mask=mask.to(device)[None, None],
            past_key_values=_CacheBridge(cache),
            use_cache=True,
        )
        cache.advance(embeds.shape[0])
        states = self._capture.collect()[0]
        hidden = self.base.head.shape[1]
        logits = states[:, -hidden:] @ self.base.head.T
        return TargetOutput(logits, states[:, :-hidden])
