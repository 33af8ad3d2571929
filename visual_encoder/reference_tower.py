"""transformers' own vision tower, in eager float32: what every engine is compared with."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from visual_encoder.checkpoint import TowerTensors
from visual_encoder.types import ImagePatches


class ReferenceTower:
    """Patches in, embeddings out, computed by transformers."""

    def __init__(self, model_dir: Path) -> None:
        """Load the tower of a checkpoint. Raises `CheckpointError`."""
        from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
        from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import (
            Qwen2_5_VisionTransformerPretrainedModel,
        )

        tensors = TowerTensors(model_dir)
        values = asdict(tensors.config)
        rope = {"rope_type": "axial", "rope_theta": values.pop("rope_theta")}
        values["fullatt_block_indexes"] = list(values["fullatt_block_indexes"])
        config = Qwen2_5_VLVisionConfig(**values, rope_parameters=rope)
        tower: Any = Qwen2_5_VisionTransformerPretrainedModel(config)
        tower.load_state_dict({name: tensors.read(name).float() for name in tensors}, assign=True)
        self._tower = tower.eval().requires_grad_(False)

    @torch.inference_mode()
    def encode(self, patches: ImagePatches) -> torch.Tensor:
        """(num_image_tokens, hidden_size) float32."""
        grid_thw = torch.tensor(patches.grid_thw)
        embeddings: torch.Tensor = self._tower(
            patches.pixel_values, grid_thw=grid_thw
        ).pooler_output
        return embeddings
