"""Everything about a request that follows from its patch grids alone, shared by all engines.

In: `grid_thw` and the tower's configuration. Out: integer index tensors and rotary angles. No
weight and no pixel is seen here, so engines can be exported once and fed these for any size.

The tower reorders image tokens so that those of one attention window (112 x 112 pixels, smaller
at a picture's border) are neighbours; that order is called window order below.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from transformers.vision_utils import (
    get_vision_cu_seqlens,
    get_vision_position_ids,
    get_vision_window_index,
)

from visual_encoder.types import MERGE_SIZE, PATCH_SIZE, PATCHES_PER_TOKEN, GridTHW, VisionConfig


@dataclass(frozen=True, slots=True)
class GridTensors:
    """N patches, T = N / 4 image tokens, F frames, W windows, P patches in a full window."""

    window_index: torch.Tensor  # (T,) int64: which token stands at each place of the window order
    reverse_index: torch.Tensor  # (T,) int64: the inverse permutation
    cos: torch.Tensor  # (N, head_dim / 2) float32, in window order
    sin: torch.Tensor  # (N, head_dim / 2) float32, in window order
    cu_seqlens: torch.Tensor  # (F + 1,) int32: where each frame starts; attention stays within
    frame_ids: torch.Tensor  # (N,) int32: frame of each patch, the same fact in another form
    window_gather: torch.Tensor  # (W, P) int64: patches of each window, padded with its first
    window_valid: torch.Tensor  # (W, P) bool: False at the padding
    window_slot: torch.Tensor  # (N,) int64: where in the flattened (W, P) each patch landed

    def to(self, device: torch.device) -> GridTensors:
        """The same tensors on `device`."""
        return GridTensors(*(getattr(self, item.name).to(device) for item in fields(self)))


def grid_tensors(grid_thw: GridTHW, config: VisionConfig) -> GridTensors:
    """Compute the tensors of a request on the CPU; a few milliseconds."""
    grid = torch.tensor(grid_thw, dtype=torch.int64)
    window_index, cu_window_seqlens = get_vision_window_index(
        grid, MERGE_SIZE, config.window_size, PATCH_SIZE
    )
    cos, sin = rotary_angles(grid, config)
    cu_seqlens = get_vision_cu_seqlens(grid)
    frame_lengths = cu_seqlens.diff().long()
    frame_ids = torch.arange(len(frame_lengths), dtype=torch.int32)
    gather, valid, slot = padded_windows(cu_window_seqlens, config)
    return GridTensors(
        window_index=window_index,
        reverse_index=torch.argsort(window_index),
        cos=to_window_order(cos, window_index),
        sin=to_window_order(sin, window_index),
        cu_seqlens=cu_seqlens,
        # Windows never cross a frame and keep the frames' order, so no reordering is needed.
        frame_ids=frame_ids.repeat_interleave(frame_lengths),
        window_gather=gather,
        window_valid=valid,
        window_slot=slot,
    )


def rotary_angles(grid: torch.Tensor, config: VisionConfig) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of the 2-D rotary angles, each (N, head_dim / 2), in patch order.

    The first half of the columns turns with a patch's row, the second with its column. A head's
    two halves are rotated by the same angles, so the angles are kept once.
    """
    positions = get_vision_position_ids(grid, MERGE_SIZE)  # (N, 2): row, column
    axis_dim = config.head_dim // 2
    exponents = torch.arange(0, axis_dim, 2, dtype=torch.float32) / axis_dim
    inverse_frequencies = 1.0 / config.rope_theta**exponents  # (head_dim / 4,)
    angles = (positions[..., None].float() * inverse_frequencies).flatten(1)
    return angles.cos(), angles.sin()


def padded_windows(
    cu_window_seqlens: torch.Tensor, config: VisionConfig
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gather, validity and slot tensors that lay ragged windows out as a (W, P) rectangle."""
    starts = cu_window_seqlens[:-1].long()
    lengths = cu_window_seqlens.diff().long()
    window_patches = config.window_tokens * PATCHES_PER_TOKEN
    offsets = torch.arange(window_patches)
    valid = offsets < lengths[:, None]
    gather = starts[:, None] + torch.where(valid, offsets, 0)
    return gather, valid, valid.flatten().nonzero().flatten()


def to_window_order(rows: torch.Tensor, window_index: torch.Tensor) -> torch.Tensor:
    """Reorder (N, width) patch rows, moving the four patches of a token together."""
    tokens = rows.reshape(-1, PATCHES_PER_TOKEN * rows.shape[1])
    return tokens.index_select(0, window_index).reshape(-1, rows.shape[1])
