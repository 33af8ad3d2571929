"""Run transformers' Qwen2.5-VL vision tower over a batch of pictures of one size.

In: pictures as uint8. Out: image tokens (batch, tokens, hidden). transformers runs packed
pictures window by window in a Python loop; training spends less with one batched attention
under a mask. The parameters stay those of the transformers module, so that what is trained
is what is shipped, and a test holds the two forwards together.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import (
    Qwen2_5_VisionTransformerPretrainedModel as VisionTower,
)

PATCH = 14
MERGE = 2
READING_BLOCKS = 3
"""Letters are to be seen after so many blocks: those that follow put them together."""
# The mean and deviation every Qwen2.5-VL preprocessor uses (CLIP's).
_MEAN = torch.tensor([0.48145466, 0.4578275, 0.40821073]).view(3, 1, 1)
_STD = torch.tensor([0.26862954, 0.26130258, 0.27577711]).view(3, 1, 1)

DEMO_VISION_CONFIG: dict[str, Any] = {
    "depth": 6,
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_heads": 4,
    "out_hidden_size": 576,
    "hidden_act": "silu",
    "in_channels": 3,
    "patch_size": PATCH,
    "spatial_merge_size": MERGE,
    "temporal_patch_size": 2,
    "tokens_per_second": 2,
    "window_size": 112,
    "fullatt_block_indexes": [2, 5],
}


@dataclass(frozen=True, slots=True)
class Grid:
    """The patch grid of one picture size, patches ordered merge block by merge block."""

    cos: Tensor  # (patches, head_dim)
    sin: Tensor  # (patches, head_dim)
    same_window: Tensor | None  # (patches, patches) bool, None where one window holds all


def build_tower(config: dict[str, Any]) -> VisionTower:
    """A randomly initialised tower; the weights follow torch's global seed."""
    tower = VisionTower(Qwen2_5_VLVisionConfig(**config))
    # transformers' fixed deviation of 0.02 is meant for wide models: at this width it leaves
    # every block close to the identity, and the first minutes of training teach little.
    for name, parameter in tower.named_parameters():
        if parameter.ndim >= 2:
            writes_to_residual = name.endswith(("attn.proj.weight", "down_proj.weight"))
            gain = (2 * config["depth"]) ** -0.5 if writes_to_residual else 1.0
            fan_in = parameter[0].numel()
            torch.nn.init.normal_(parameter, std=gain * fan_in**-0.5)
    return tower


def to_pixel_values(pictures: npt.NDArray[np.uint8], device: torch.device | str = "cpu") -> Tensor:
    """(batch, height, width, 3) -> patches (batch, patches, 3 * 2 * 14 * 14)."""
    values = torch.tensor(pictures, device=device).permute(0, 3, 1, 2).float().div_(255)
    values = (values - _MEAN.to(device)) / _STD.to(device)
    batch, channels, height, width = values.shape
    block = PATCH * MERGE
    tiles = values.view(
        batch, channels, height // block, MERGE, PATCH, width // block, MERGE, PATCH
    )
    tiles = tiles.permute(0, 2, 5, 3, 6, 1, 4, 7)  # batch, block y, x, y in, x in, channel, patch
    still = tiles.unsqueeze(6).expand(*tiles.shape[:6], 2, PATCH, PATCH)  # a still is two frames
    return still.reshape(batch, -1, channels * 2 * PATCH * PATCH)


def run_tower(tower: VisionTower, pixel_values: Tensor, height: int, width: int) -> Tensor:
    """(batch, patches, 1176) of `height` x `width` pixels -> (batch, tokens, out_hidden)."""
    _, merged = run_blocks(tower, pixel_values, height, width)
    tokens: Tensor = tower.merger.mlp(merged)
    return tokens.float()


def run_blocks(
    tower: VisionTower,
    pixel_values: Tensor,
    height: int,
    width: int,
    *,
    compiled: bool = False,
) -> tuple[Tensor, Tensor]:
    """Halfway, after `READING_BLOCKS`, the patches (batch, patches, hidden); and at the end what
    the merger's layers take, (batch, tokens, 4 * hidden), four patches side by side.
    """
    config: Any = tower.config
    head_dim = config.hidden_size // config.num_heads
    grid = _grid(height, width, head_dim, config.window_size, pixel_values.device)
    return (_compiled_blocks if compiled else _blocks)(tower, pixel_values, grid)


def _blocks(tower: VisionTower, pixel_values: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    config: Any = tower.config
    hidden = F.linear(pixel_values, tower.patch_embed.proj.weight.flatten(1)).float()
    halfway = hidden
    for index, module in enumerate(tower.blocks):
        block: Any = module
        mask = None if index in config.fullatt_block_indexes else grid.same_window
        hidden = hidden + _attend(block.attn, _norm(block.norm1, hidden), grid, mask)
        hidden = hidden + block.mlp(_norm(block.norm2, hidden))
        if index + 1 == READING_BLOCKS:
            halfway = hidden
    normed = _norm(tower.merger.ln_q, hidden)
    return halfway, normed.view(normed.shape[0], -1, MERGE**2 * normed.shape[2])


# One graph a picture size, kept in torch's own cache on disk.
_compiled_blocks = torch.compile(_blocks, dynamic=False)


def _norm(norm: Any, hidden: Tensor) -> Tensor:
    return F.rms_norm(hidden, norm.weight.shape, norm.weight, norm.variance_epsilon)


def _attend(attention: Any, hidden: Tensor, grid: Grid, mask: Tensor | None) -> Tensor:
    qkv = attention.qkv(hidden).view(*hidden.shape[:2], 3, attention.num_heads, -1)
    query, key, value = qkv.permute(2, 0, 3, 1, 4)
    cos, sin = grid.cos.to(query.dtype), grid.sin.to(query.dtype)
    query = query * cos + _rotate_half(query) * sin
    key = key * cos + _rotate_half(key) * sin
    # Written out: at these lengths scaled_dot_product_attention is no faster on a CPU.
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    mixed = scores.softmax(-1).to(value.dtype) @ value
    projected: Tensor = attention.proj(mixed.transpose(1, 2).flatten(2))
    return projected


def _rotate_half(values: Tensor) -> Tensor:
    first, second = values.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


@cache
def _grid(height: int, width: int, head_dim: int, window: int, device: torch.device) -> Grid:
    rows, columns = height // PATCH, width // PATCH
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    y, x = _by_merge_block(y), _by_merge_block(x)
    frequencies = 1.0 / 10000 ** (torch.arange(0, head_dim // 2, 2) / (head_dim // 2))
    angles = torch.cat((y[:, None] * frequencies, x[:, None] * frequencies), dim=-1)
    angles = torch.cat((angles, angles), dim=-1)
    window_patches = window // PATCH
    window_id = (y // window_patches) * columns + x // window_patches
    same_window = window_id[:, None] == window_id[None, :]
    mask = None if bool(same_window.all()) else same_window.to(device)
    return Grid(angles.cos().to(device), angles.sin().to(device), mask)


def _by_merge_block(coordinates: Tensor) -> Tensor:
    rows, columns = coordinates.shape
    blocks = coordinates.view(rows // MERGE, MERGE, columns // MERGE, MERGE)
    return blocks.permute(0, 2, 1, 3).reshape(-1)
