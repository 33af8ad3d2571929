"""The EAGLE-3 head: fuse the target's hidden states, one decoder layer, a small vocabulary.

One slot t joins the target's feature of token t with the embedding of token t + 1, at position t,
and predicts token t + 2 (EAGLE-3, arXiv 2503.01840; shapes as in the released checkpoints, where
the joined 2H vector goes straight into q, k and v). Inside a tree the feature is the head's own
output of the parent. This module knows tensors; trees are `eagle.drafting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import torch
import torch.nn.functional as F

from eagle.draft_config import DraftConfig
from eagle.kv_cache import KVCache
from eagle.layers import Linear, RMSNorm, Rotary, attend, attention_bias, cache_dtype, fuse, rotate


class DraftHead:
    """Weights of one draft. T rows a call; H hidden size, Vd draft vocabulary.

    `tensors` carries the names of the SpecForge form without `midlayer.`; `embedding` is the
    target's (V, H) table unless the draft owns one.
    """

    def __init__(
        self, config: DraftConfig, tensors: Mapping[str, torch.Tensor], embedding: torch.Tensor
    ) -> None:
        self.config = config
        self.embedding = tensors.get("embed_tokens.weight", embedding)
        self.dtype, self.device = tensors["fc.weight"].dtype, tensors["fc.weight"].device
        self.rotary = Rotary(config.rotary, self.device, self.dtype)

        def norm(name: str) -> RMSNorm:
            return RMSNorm(tensors[f"{name}.weight"], config.rms_norm_eps)

        names = [f"self_attn.{axis}_proj.weight" for axis in "qkv"]
        self.qkv = Linear(fuse([tensors[name] for name in names]))
        self.attention_out = Linear(tensors["self_attn.o_proj.weight"])
        self.gate_up = Linear(
            fuse([tensors["mlp.gate_proj.weight"], tensors["mlp.up_proj.weight"]])
        )
        self.down = Linear(tensors["mlp.down_proj.weight"])
        self.fc = Linear(tensors["fc.weight"])
        self.head = Linear(tensors["lm_head.weight"])
        self.input_norm, self.hidden_norm = norm("input_layernorm"), norm("hidden_norm")
        self.mlp_norm, self.final_norm = norm("post_attention_layernorm"), norm("norm")
        self.fc_input_norm = norm("input_norm") if config.norm_before_fc else None
        self.aux_norms = [norm(f"fc_norm.{i}") for i in range(config.num_aux * config.fc_norm)]
        self.to_target = torch.arange(config.draft_vocab_size, device=self.device)
        if "d2t" in tensors:
            self.to_target = self.to_target + tensors["d2t"]

    @cached_property
    def draft_id_of(self) -> dict[int, int]:
        """The draft vocabulary by target token."""
        return {token: index for index, token in enumerate(self.to_target.tolist())}

    def new_cache(self, capacity: int) -> KVCache:
        c = self.config
        return KVCache(
            1,
            c.num_key_value_heads,
            c.head_dim,
            capacity,
            dtype=cache_dtype(self.dtype, self.device),
            device=self.device,
        )

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """(T,) target ids -> (T, H)."""
        return F.embedding(token_ids, self.embedding).to(self.dtype)

    def fuse_aux(self, aux_hidden: torch.Tensor) -> torch.Tensor:
        """The target's hidden states (T, num_aux * Ht), low to high -> features (T, H)."""
        aux_hidden = aux_hidden.to(self.dtype)
        if self.fc_input_norm is not None:
            aux_hidden = self.fc_input_norm(aux_hidden)
        if self.aux_norms:
            parts = aux_hidden.chunk(len(self.aux_norms), dim=-1)
            normed = [norm(part) for norm, part in zip(self.aux_norms, parts, strict=True)]
            aux_hidden = torch.cat(normed, dim=-1)
        return self.fc(aux_hidden)

    def forward(
        self,
        embeds: torch.Tensor,
        features: torch.Tensor,
        position_ids: torch.Tensor,
        cache: KVCache,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """One layer over T slots, appended to `cache` -> hidden states (T, H).

        embeds and features (T, H); position_ids (3, T); mask as in `attention_bias`.
        """
        c, rows = self.config, embeds.shape[0]
        normed = self.hidden_norm(features)
        joined = torch.cat((self.input_norm(embeds), normed), dim=-1)
        heads = self.qkv(joined).view(rows, -1, c.head_dim)
        queries, turning = c.num_attention_heads, c.num_attention_heads + c.num_key_value_heads
        turned = rotate(heads[:, :turning], *self.rotary(position_ids))
        query, key = turned[:, :queries], turned[:, queries:]
        # A tree mask covers columns written by earlier calls, which are not counted in `length`.
        written = 0 if mask is None else mask.shape[1] - rows
        window = cache.window(rows)
        keys, values = cache.append(0, key, heads[:, turning:], window)
        bias = attention_bias(rows, cache.length - written, window, mask, self.device)
        cache.advance(rows)
        residual = normed if c.norm_before_residual else features
        residual = residual + self.attention_out(attend(query, keys, values, bias))
        gate, up = self.gate_up(self.mlp_norm(residual)).chunk(2, dim=-1)
        return residual + self.down(F.silu(gate) * up)

    def recycled(self, hidden: torch.Tensor) -> torch.Tensor:
        """What a child slot gets as its feature: before the final norm, after it in EAGLE-3.1."""
        return self.final_norm(hidden) if self.config.norm_output else hidden

    def log_probabilities(self, hidden: torch.Tensor) -> torch.Tensor:
        """(T, H) -> (T, Vd) float32, over the draft vocabulary."""
        return self.head(self.final_norm(hidden)).float().log_softmax(-1)
