"""The reference engine: the tower in eager PyTorch, on a CPU or a GPU.

Patches in, features out; every other engine is measured against this one, and this one against
transformers.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

from visual_encoder.checkpoint import load_tower
from visual_encoder.tower import VisionTower
from visual_encoder.types import (
    EncoderInfo,
    ImagePatches,
    VisionFeatures,
    check_patches,
)
from visual_encoder.windows import grid_tensors

NAME = "torch"


class TorchEncoder:
    """A loaded tower and the device it runs on."""

    name = NAME

    def __init__(self, tower: VisionTower, device: torch.device, info: EncoderInfo) -> None:
        self._tower = tower
        self._device = device
        self.info = info

    @classmethod
    def load(
        cls, model_dir: Path, *, dtype: torch.dtype, device: torch.device, reason: str
    ) -> TorchEncoder:
        """Load a checkpoint's tower. Raises `CheckpointError`.

        The number of CPU threads is torch's own, set by the application for the whole process.
        """
        tower = load_tower(model_dir, dtype=dtype, device=device)
        info = EncoderInfo(
            engine=NAME,
            device=str(device),
            dtype=str(dtype).removeprefix("torch."),
            hidden_size=tower.config.out_hidden_size,
            reason=reason,
        )
        return cls(tower, device, info)

    @torch.inference_mode()
    def encode(self, patches: ImagePatches) -> VisionFeatures:
        """See `VisualEncoder.encode`."""
        check_patches(patches)
        started = time.perf_counter()
        grid = grid_tensors(patches.grid_thw, self._tower.config).to(self._device)
        embeddings = self._tower(patches.pixel_values.to(self._device), grid).float()
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return VisionFeatures(
            embeddings=embeddings,
            grid_thw=patches.grid_thw,
            engine=NAME,
            seconds=time.perf_counter() - started,
        )
