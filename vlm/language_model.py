"""One decoder for Qwen2.5-VL's language model, Qwen3 and Llama 3.1, read top to bottom.

The families differ by data only: biases on q/k/v (Qwen2.5), norms on q and k (Qwen3), the rotary
table (M-RoPE, llama3 scaling), a tied or an untied head. Activations are (T, ...): one sequence,
T rows a call. The target of `eagle.decode`; it has never seen a picture, only embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from eagle.kv_cache import KVCache
from eagle.layers import (
    Linear,
    RMSNorm,
    Rotary,
    RotaryConfig,
    attend,
    attention_bias,
    cache_dtype,
    fuse,
    rotate,
)
from eagle.models import TargetOutput
from eagle.tree import DraftTree
from eagle.types import MergedPrompt
from vlm.errors import CheckpointError

# Longer prompts run in pieces of this many rows, which bounds the memory of a prefill.
PREFILL_ROWS = 1024


@dataclass(frozen=True, slots=True)
class LanguageModelConfig:
    """Shape of the decoder. `qkv_bias` and `qk_norm` tell the families apart."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rotary: RotaryConfig
    qkv_bias: bool
    qk_norm: bool
    tie_word_embeddings: bool
    max_position_embeddings: int

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> LanguageModelConfig:
        """Read a config.json, flat (transformers 4) or with a `text_config` (5)."""
        text: Mapping[str, Any] = config.get("text_config") or config
        family = str(config.get("model_type", ""))
        if text.get("use_sliding_window"):
            raise CheckpointError(
                "The base uses sliding-window attention (use_sliding_window true), which is not "
                "implemented: only full attention is."
            )
        try:
            heads = int(text["num_attention_heads"])
            head_dim = int(text.get("head_dim") or text["hidden_size"] // heads)
            tied = text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))
            return cls(
                vocab_size=int(text["vocab_size"]),
                hidden_size=int(text["hidden_size"]),
                intermediate_size=int(text["intermediate_size"]),
                num_layers=int(text["num_hidden_layers"]),
                num_attention_heads=heads,
                num_key_value_heads=int(text.get("num_key_value_heads") or heads),
                head_dim=head_dim,
                rms_norm_eps=float(text["rms_norm_eps"]),
                rotary=RotaryConfig.from_json(text, head_dim, 10000.0),
                qkv_bias=family.startswith("qwen2") or bool(text.get("attention_bias")),
                qk_norm=family == "qwen3",
                tie_word_embeddings=bool(config.get("tie_word_embeddings", tied)),
                max_position_embeddings=int(text["max_position_embeddings"]),
            )
        except KeyError as error:
            raise CheckpointError(f"The base's config.json has no {error}.") from error

    def expected_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor of the language model, by its name below `model.`, and `lm_head.weight`."""
        hidden = self.hidden_size
        queries = self.num_attention_heads * self.head_dim
        keys = self.num_key_value_heads * self.head_dim
        layer: dict[str, tuple[int, ...]] = {
            "input_layernorm.weight": (hidden,),
            "post_attention_layernorm.weight": (hidden,),
            "self_attn.q_proj.weight": (queries, hidden),
            "self_attn.k_proj.weight": (keys, hidden),
            "self_attn.v_proj.weight": (keys, hidden),
            "self_attn.o_proj.weight": (hidden, queries),
            "mlp.gate_proj.weight": (self.intermediate_size, hidden),
            "mlp.up_proj.weight": (self.intermediate_size, hidden),
            "mlp.down_proj.weight": (hidden, self.intermediate_size),
        }
        if self.qkv_bias:
            sizes = {"q": queries, "k": keys, "v": keys}
            layer |= {f"self_attn.{axis}_proj.bias": (size,) for axis, size in sizes.items()}
        if self.qk_norm:
            layer |= {f"self_attn.{axis}_norm.weight": (self.head_dim,) for axis in "qk"}
        shapes = {
            f"layers.{index}.{name}": shape
            for index in range(self.num_layers)
            for name, shape in layer.items()
        }
        shapes |= {"embed_tokens.weight": (self.vocab_size, hidden), "norm.weight": (hidden,)}
        if not self.tie_word_embeddings:
            shapes["lm_head.weight"] = (self.vocab_size, hidden)
        return shapes


class DecoderLayer:
    """Attention and SwiGLU, each behind a norm and added to the residual stream."""

    def __init__(
        self, config: LanguageModelConfig, index: int, tensors: dict[str, torch.Tensor]
    ) -> None:
        self.config, self.index = config, index

        def take(name: str) -> torch.Tensor:
            # Popped, so that the checkpoint's copy is freed as soon as it is fused.
            return tensors.pop(f"layers.{index}.{name}")

        def norm(name: str) -> RMSNorm:
            return RMSNorm(take(f"{name}.weight"), config.rms_norm_eps)

        weight = fuse([take(f"self_attn.{axis}_proj.weight") for axis in "qkv"])
        bias = None
        if config.qkv_bias:
            bias = fuse([take(f"self_attn.{axis}_proj.bias") for axis in "qkv"])
        self.qkv = Linear(weight, bias)
        self.attention_out = Linear(take("self_attn.o_proj.weight"))
        self.gate_up = Linear(fuse([take("mlp.gate_proj.weight"), take("mlp.up_proj.weight")]))
        self.down = Linear(take("mlp.down_proj.weight"))
        self.attention_norm, self.mlp_norm = (
            norm("input_layernorm"),
            norm("post_attention_layernorm"),
        )
        self.query_norm = norm("self_attn.q_norm") if config.qk_norm else None
        self.key_norm = norm("self_attn.k_norm") if config.qk_norm else None

    def __call__(
        self,
        hidden: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        bias: torch.Tensor,
        cache: KVCache,
    ) -> torch.Tensor:
        """hidden (T, H) -> (T, H); appends T rows to this layer of the cache."""
        hidden = hidden + self._attention(self.attention_norm(hidden), cos, sin, bias, cache)
        gate, up = self.gate_up(self.mlp_norm(hidden)).chunk(2, dim=-1)
        return hidden + self.down(F.silu(gate) * up)

    def _attention(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        bias: torch.Tensor,
        cache: KVCache,
    ) -> torch.Tensor:
        c = self.config
        heads = self.qkv(x).view(x.shape[0], -1, c.head_dim)
        queries, turning = c.num_attention_heads, c.num_attention_heads + c.num_key_value_heads
        query, key, value = heads[:, :queries], heads[:, queries:turning], heads[:, turning:]
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        turned = rotate(torch.cat((query, key), dim=1), cos, sin)
        query, key = turned[:, :queries], turned[:, queries:]
        keys, values = cache.append(self.index, key, value, bias.shape[1])
        return self.attention_out(attend(query, keys, values, bias))


class LanguageModel:
    """The decoder with its weights; a `TargetModel`.

    `tensors` is consumed: names as in `expected_shapes`. `aux_layers` are the hidden states that
    the draft reads: k means after k layers, 0 the embeddings, before any final norm.
    """

    def __init__(
        self,
        config: LanguageModelConfig,
        tensors: dict[str, torch.Tensor],
        aux_layers: tuple[int, ...] = (),
    ) -> None:
        self.config = config
        self.aux_layers = aux_layers
        self.embedding = tensors.pop("embed_tokens.weight")
        self.device, self.dtype = self.embedding.device, self.embedding.dtype
        self.layers = [DecoderLayer(config, index, tensors) for index in range(config.num_layers)]
        self.norm = RMSNorm(tensors.pop("norm.weight"), config.rms_norm_eps)
        self.head = Linear(tensors.pop("lm_head.weight", self.embedding))
        self.rotary = Rotary(config.rotary, self.device, self.dtype)
        assert not tensors, f"unused tensors: {sorted(tensors)}"

    def new_cache(self, capacity: int) -> KVCache:
        c = self.config
        return KVCache(
            c.num_layers,
            c.num_key_value_heads,
            c.head_dim,
            capacity,
            dtype=cache_dtype(self.dtype, self.device),
            device=self.device,
        )

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """(T,) -> (T, H)."""
        return F.embedding(token_ids, self.embedding)

    @torch.inference_mode()
    def prefill(self, prompt: MergedPrompt, cache: KVCache) -> TargetOutput:
        """Append the whole prompt to the empty cache; logits (1, V) of its last token."""
        cache.truncate(0)
        aux_parts: list[torch.Tensor] = []
        for start in range(0, len(prompt), PREFILL_ROWS):
            rows = slice(start, start + PREFILL_ROWS)
            embeds = prompt.inputs_embeds[rows].to(self.dtype)
            hidden, aux = self.forward(embeds, prompt.position_ids[:, rows], cache)
            aux_parts.append(aux)
        return TargetOutput(self.logits(hidden[-1:]), torch.cat(aux_parts))

    @torch.inference_mode()
    def verify(self, tree: DraftTree, rope_delta: int, cache: KVCache) -> TargetOutput:
        """Append all nodes of a tree; logits (T, V). A node sees the cache and its ancestors."""
        token_ids = torch.tensor(tree.token_ids, device=self.device)
        positions = torch.tensor(tree.depths, device=self.device) + (cache.length + rope_delta)
        mask = tree.ancestor_mask.to(self.device)
        hidden, aux = self.forward(self.embed(token_ids), positions.expand(3, -1), cache, mask)
        return TargetOutput(self.logits(hidden), aux)

    def forward(
        self,
        hidden: torch.Tensor,
        position_ids: torch.Tensor,
        cache: KVCache,
        mask: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """All layers over T rows -> hidden states (T, H) before the final norm, and the auxiliary
        hidden states side by side (T, len(aux_layers) * H).

        hidden (T, H) are embeddings; position_ids (3, T); mask (T, T) bool, None for causal.
        """
        rows = hidden.shape[0]
        cos, sin = self.rotary(position_ids)
        bias = attention_bias(rows, cache.length, cache.window(rows), mask, self.device)
        captured = {0: hidden} if 0 in self.aux_layers else {}
        for count, layer in enumerate(self.layers, start=1):
            hidden = layer(hidden, cos, sin, bias, cache)
            if count in self.aux_layers:
                captured[count] = hidden
        cache.advance(rows)
        aux = [captured[layer] for layer in self.aux_layers]
        return hidden, torch.cat(aux, dim=-1) if aux else hidden[:, :0]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(T, H) -> (T, V)."""
        return self.head(self.norm(hidden))
