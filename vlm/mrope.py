"""M-RoPE positions of Qwen2.5-VL: pure integers.

Text advances all three axes (temporal, height, width) together. An image keeps the temporal axis
still and counts rows and columns of its merged grid from the current position; the text after it
goes on behind the largest position used (Qwen2.5-VL technical report, arXiv 2502.13923).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

Grid = tuple[int, int, int]  # temporal, height, width in patches


def num_grid_tokens(grid: Grid, merge_size: int) -> int:
    """Image tokens of a patch grid."""
    temporal, height, width = grid
    return temporal * (height // merge_size) * (width // merge_size)


def mrope_positions(
    num_tokens: int, image_starts: Sequence[int], grids: Sequence[Grid], merge_size: int
) -> tuple[torch.Tensor, int]:
    """Positions (3, num_tokens) int64 and the rope delta.

    `image_starts` are the indices of each image's first token. A token generated at index i has
    position i + delta on all axes.
    """
    parts: list[torch.Tensor] = []
    index = position = 0
    for start, grid in zip(image_starts, grids, strict=True):
        parts.append(_text_positions(position, start - index))
        position += start - index
        image = _image_positions(grid, merge_size) + position
        parts.append(image)
        position = int(image.max()) + 1
        index = start + image.shape[1]
    parts.append(_text_positions(position, num_tokens - index))
    position += num_tokens - index
    return torch.cat(parts, dim=1), position - num_tokens


def _text_positions(first: int, count: int) -> torch.Tensor:
    return torch.arange(first, first + count).expand(3, count)


def _image_positions(grid: Grid, merge_size: int) -> torch.Tensor:
    """(3, tokens), counted from 0. Frames of one image all have temporal position 0 upwards."""
    temporal, height, width = grid[0], grid[1] // merge_size, grid[2] // merge_size
    axes = torch.meshgrid(
        torch.arange(temporal), torch.arange(height), torch.arange(width), indexing="ij"
    )
    return torch.stack([axis.flatten() for axis in axes])
