"""Towers of other shapes than the contract suite's, and what the tower promises about training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.visual_encoder.tiny_tower import (
    REQUESTS,
    VISION,
    random_patches,
    reference_embeddings,
    write_checkpoint,
)
from visual_encoder import VisionConfig, create_encoder
from visual_encoder.tower import VisionTower
from visual_encoder.windows import grid_tensors


@pytest.mark.parametrize(
    "vision",
    [
        {"hidden_size": 160, "num_heads": 2},  # head size 80, as in the 3B to 72B
        {"hidden_size": 128, "num_heads": 2, "depth": 2, "fullatt_block_indexes": [1]},
        {"fullatt_block_indexes": []},
        {"fullatt_block_indexes": [0, 1, 2, 3]},
        {"window_size": 56},
        {"rope_parameters": {"rope_type": "axial", "rope_theta": 500.0}},
    ],
    ids=str,
)
def test_other_shapes_equal_transformers(tmp_path: Path, vision: dict[str, Any]) -> None:
    reference = write_checkpoint(tmp_path, **vision)
    encoder = create_encoder("torch", tmp_path, dtype=torch.float32, cache_dir=tmp_path)
    for grid_thw in REQUESTS[::4]:
        patches = random_patches(grid_thw)
        expected = reference_embeddings(reference, patches)
        assert (encoder.encode(patches).embeddings - expected).abs().max() < 1e-5


def test_every_weight_can_be_trained() -> None:
    """The tower is also what the bundled model is trained with: gradients reach every weight."""
    tower = VisionTower(VisionConfig.from_dict(VISION))
    patches = random_patches(((1, 10, 14), (1, 4, 4)))
    grid = grid_tensors(patches.grid_thw, tower.config)
    tower(patches.pixel_values, grid).square().sum().backward()
    assert all(
        weight.grad is not None and weight.grad.abs().sum() > 0 for weight in tower.parameters()
    )
    assert all(torch.isfinite(weight.grad).all() for weight in tower.parameters())
