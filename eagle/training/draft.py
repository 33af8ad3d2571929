"""The trainable EAGLE-3 head. Its parameter names are those of the SpecForge checkpoint.

B batch, L slots, H hidden size, Vd draft vocabulary, d head size. One slot t joins the base's
feature of token t with the embedding of token t + 1 at position t. What is done with the pieces,
and in which order, is `eagle.training.ttt`'s.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True, slots=True)
class DraftShape:
    """Everything that fixes the tensors of a draft."""

    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    rms_norm_eps: float
    rope_theta: float
    mrope_section: tuple[int, int, int] | None = None
    fc_norm: bool = False  # EAGLE-3.1: each captured state is normed before they are fused
    norm_output: bool = False  # EAGLE-3.1: what is recycled is the normed output


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (normed * self.weight).to(x.dtype)


class SelfAttention(nn.Module):
    """Only the projections; inputs are 2H wide, embedding first."""

    def __init__(self, shape: DraftShape) -> None:
        super().__init__()
        width, d = 2 * shape.hidden_size, shape.head_dim
        self.q_proj = nn.Linear(width, shape.num_heads * d, bias=False)
        self.k_proj = nn.Linear(width, shape.num_kv_heads * d, bias=False)
        self.v_proj = nn.Linear(width, shape.num_kv_heads * d, bias=False)
        self.o_proj = nn.Linear(shape.num_heads * d, shape.hidden_size, bias=False)


class MLP(nn.Module):
    def __init__(self, shape: DraftShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class DraftLayer(nn.Module):
    def __init__(self, shape: DraftShape) -> None:
        super().__init__()
        self.self_attn = SelfAttention(shape)
        self.mlp = MLP(shape)
        self.input_layernorm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.hidden_norm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)


class Draft(nn.Module):
    """The head's weights, and the steps of its forward pass that are the same at every TTT step."""

    def __init__(self, shape: DraftShape) -> None:
        super().__init__()
        self.shape = shape
        if shape.fc_norm:
            self.fc_norm = nn.ModuleList(
                RMSNorm(shape.hidden_size, shape.rms_norm_eps) for _ in range(3)
            )
        self.fc = nn.Linear(3 * shape.hidden_size, shape.hidden_size, bias=False)
        self.midlayer = DraftLayer(shape)
        self.norm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.lm_head = nn.Linear(shape.hidden_size, shape.draft_vocab_size, bias=False)

    def fuse(self, aux: torch.Tensor) -> torch.Tensor:
        """The base's low, mid and high states (B, L, 3H) -> features (B, L, H)."""
        if self.shape.fc_norm:
            parts = zip(self.fc_norm, aux.chunk(3, dim=-1), strict=True)
            aux = torch.cat([norm(part) for norm, part in parts], dim=-1)
        features: torch.Tensor = self.fc(aux)
        return features

    def join(self, embeds: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """(B, L, H) twice -> (B, L, 2H), each half normed on its own."""
        layer = self.midlayer
        return torch.cat((layer.input_layernorm(embeds), layer.hidden_norm(hidden)), dim=-1)

    def queries(self, joined: torch.Tensor, rope: Rope) -> torch.Tensor:
        return rope.turn(self.midlayer.self_attn.q_proj(joined).unflatten(-1, self._heads))

    def keys_values(self, joined: torch.Tensor, rope: Rope) -> tuple[torch.Tensor, torch.Tensor]:
        attention = self.midlayer.self_attn
        keys = rope.turn(attention.k_proj(joined).unflatten(-1, self._heads))
        return keys, attention.v_proj(joined).unflatten(-1, self._heads)

    def finish(self, hidden: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Residuals around attention and MLP."""
        layer = self.midlayer
        hidden = hidden + layer.self_attn.o_proj(attended)
        out: torch.Tensor = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return out

    def recycled(self, hidden: torch.Tensor) -> torch.Tensor:
        """What the next step reads in place of the base's feature."""
        return self.norm(hidden) if self.shape.norm_output else hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.lm_head(self.norm(hidden))
        return out

    @property
    def _heads(self) -> tuple[int, int]:
        return -1, self.shape.head_dim


class Rope:
    """Cosines and sines (B, L, 1, d) for positions on three axes; equal axes are ordinary RoPE."""

    def __init__(self, shape: DraftShape, positions: torch.Tensor) -> None:
        """`positions` is (3, B, L)."""
        half = shape.head_dim // 2
        section = shape.mrope_section or (half, 0, 0)
        exponents = torch.arange(half, device=positions.device).float() / half
        inverse = shape.rope_theta**-exponents
        axes = [axis for axis, size in enumerate(section) for _ in range(size)]
        chosen = positions[torch.tensor(axes, device=positions.device)]  # (half, B, L)
        angles = chosen.permute(1, 2, 0).float() * inverse
        angles = torch.cat((angles, angles), dim=-1).unsqueeze(2)
        self._cos, self._sin = angles.cos(), angles.sin()

    def turn(self, x: torch.Tensor) -> torch.Tensor:
        """Rotate (B, L, heads, d), half-rotation layout."""
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
        return x * self._cos.to(x.dtype) + turned * self._sin.to(x.dtype)
