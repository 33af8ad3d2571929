"""The Qwen2.5-VL vision tower: patches in, one embedding per image token out.

Read top to bottom: norm, feed-forward, attention, block, merger, tower. Tensor names are those of
the checkpoints, so weights load without renaming. Which patches may attend to which is an argument
(two functions from q, k, v to the mixed values), because engines compute that differently; see
`attend_within_frames` and `attend_within_windows` for the plain ones.

N patches, T = N / 4 image tokens, H heads of D values; C = H * D is the tower's width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visual_encoder.types import (
    NUM_CHANNELS,
    PATCH_SIZE,
    PATCHES_PER_TOKEN,
    TEMPORAL_PATCH_SIZE,
    VisionConfig,
)
from visual_encoder.windows import GridTensors, to_window_order

# (q, k, v), each (N, H, D) with q and k rotated -> (N, H, D)
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]

MASKED = -30000.0  # stands for minus infinity; finite, so that float16 keeps it and no row is NaN


class RMSNorm(nn.Module):
    """Scale rows to unit root mean square, in float32 whatever the tower computes in."""

    def __init__(self, size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        x32 = x.float()
        x32 = x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + self.eps)
        scaled: Tensor = self.weight * x32.to(x.dtype)
        return scaled


class FeedForward(nn.Module):
    """SwiGLU with biases."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        projected: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return projected


class Attention(nn.Module):
    """Multi-head attention with 2-D rotary positions; `attend` decides who sees whom."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.head_dim = config.head_dim
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        q, k, v = self.qkv(x).reshape(-1, 3, self.num_heads, self.head_dim).unbind(1)
        mixed = attend(rotate(q, cos, sin), rotate(k, cos, sin), v)
        projected: Tensor = self.proj(mixed.reshape(-1, self.num_heads * self.head_dim))
        return projected


class Block(nn.Module):
    """Attention and feed-forward, each on normalised input and added to its stream."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.norm1 = RMSNorm(config.hidden_size)
        self.norm2 = RMSNorm(config.hidden_size)
        self.attn = Attention(config)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        x = x + self.attn(self.norm1(x), cos, sin, attend)
        x = x + self.mlp(self.norm2(x))
        return x


class PatchEmbed(nn.Module):
    """One linear map per patch, stored in checkpoints as a 3-D convolution."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        kernel = (TEMPORAL_PATCH_SIZE, PATCH_SIZE, PATCH_SIZE)
        self.proj = nn.Conv3d(NUM_CHANNELS, config.hidden_size, kernel, stride=kernel, bias=False)

    def forward(self, pixel_values: Tensor) -> Tensor:
        weight = self.proj.weight.flatten(1)
        return F.linear(pixel_values.to(weight.dtype), weight)


class Merger(nn.Module):
    """Four neighbouring patches become one image token of the language model's width."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.width = config.hidden_size * PATCHES_PER_TOKEN
        self.ln_q = RMSNorm(config.hidden_size)
        self.mlp = nn.Sequential(
            nn.Linear(self.width, self.width),
            nn.GELU(),
            nn.Linear(self.width, config.out_hidden_size),
        )

    def forward(self, x: Tensor) -> Tensor:
        merged: Tensor = self.mlp(self.ln_q(x).reshape(-1, self.width))
        return merged


class VisionTower(nn.Module):
    """The whole tower, for any number of images of any size in one call."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = PatchEmbed(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.merger = Merger(config)

    def forward(self, pixel_values: Tensor, grid: GridTensors) -> Tensor:
        """(N, 1176) patches and their grid's tensors -> (T, out_hidden_size), in token order."""
        return self.encode(
            pixel_values,
            grid.cos,
            grid.sin,
            grid.window_index,
            grid.reverse_index,
            within_frames=partial(attend_within_frames, cu_seqlens=grid.cu_seqlens),
            within_windows=partial(
                attend_within_windows,
                gather=grid.window_gather,
                slot=grid.window_slot,
                bias=additive_bias(grid.window_valid)[:, None, None, :],
            ),
        )

    def encode(
        self,
        pixel_values: Tensor,
        cos: Tensor,
        sin: Tensor,
        window_index: Tensor,
        reverse_index: Tensor,
        *,
        within_frames: Attend,
        within_windows: Attend,
    ) -> Tensor:
        """The forward pass with both kinds of attention given from outside."""
        x = to_window_order(self.patch_embed(pixel_values), window_index)
        for index, block in enumerate(self.blocks):
            full = index in self.config.fullatt_block_indexes
            x = block(x, cos, sin, within_frames if full else within_windows)
        merged: Tensor = self.merger(x)
        return merged.index_select(0, reverse_index)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x[d], x[d + D/2]) of a head by its patch's angle, in float32.

    x is (N, H, D), cos and sin are (N, D / 2).
    """
    first, second = x.float().chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(x.dtype)


def additive_bias(allowed: Tensor) -> Tensor:
    """0 where a boolean mask allows attention, a large negative number where it does not."""
    return torch.where(allowed, 0.0, MASKED)


def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """Scaled dot-product attention of (..., H, L, D); the bias broadcasts to (..., H, L, L)."""
    bias = None if bias is None else bias.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def attend_to_all(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """Attention of all given patches with all; the bias is (1, 1, N, N)."""
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    return attention(q, k, v, bias)[0].transpose(0, 1)


def attend_within_frames(q: Tensor, k: Tensor, v: Tensor, *, cu_seqlens: Tensor) -> Tensor:
    """Full attention inside each frame, frame by frame, so that no (N, N) mask is ever built."""
    lengths = cu_seqlens.diff().tolist()
    frames = zip(*(torch.split(x, lengths) for x in (q, k, v)), strict=True)
    return torch.cat([attend_to_all(*frame) for frame in frames])


def attend_within_windows(
    q: Tensor, k: Tensor, v: Tensor, *, gather: Tensor, slot: Tensor, bias: Tensor
) -> Tensor:
    """Attention inside windows, all at once as W padded windows of P patches.

    gather (W, P) and slot (N,) are those of `GridTensors`; bias (W, 1, 1, P) hides the padding.
    """
    windows, patches = gather.shape
    heads, head_dim = q.shape[1:]

    def spread(x: Tensor) -> Tensor:  # (N, H, D) -> (W, H, P, D)
        rows = x.reshape(-1, heads * head_dim).index_select(0, gather.flatten())
        return rows.reshape(windows, patches, heads, head_dim).transpose(1, 2)

    mixed = attention(spread(q), spread(k), spread(v), bias)
    rows = mixed.transpose(1, 2).reshape(windows * patches, heads * head_dim)
    return rows.index_select(0, slot).reshape(-1, heads, head_dim)
