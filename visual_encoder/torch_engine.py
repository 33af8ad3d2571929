"""The reference engine: the tower in PyTorch, eager on a CPU, compiled on a GPU.

Patches in, features out; every other engine is measured against this one, and this one against
transformers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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
from visual_encoder.windows import GridTensors, grid_tensors

NAME = "torch"

Forward = Callable[[torch.Tensor, GridTensors], torch.Tensor]


class TorchEncoder:
    """A loaded tower and the device it runs on."""

    name = NAME

    def __init__(
        self, tower: VisionTower, device: torch.device, info: EncoderInfo, *, compiled: bool
    ) -> None:
        self._config = tower.config
        self._device = device
        self._forward: Forward = torch.compile(tower, dynamic=True) if compiled else tower
        self.info = info

    @classmethod
    def load(
        cls,
        model_dir: Path,
        *,
        dtype: torch.dtype,
        device: torch.device,
        reason: str,
        compiled: bool | None = None,
    ) -> TorchEncoder:
        """Load a checkpoint's tower. `compiled` None: on a GPU only, since on a CPU compiling takes
        minutes and gains a few percent. Raises `CheckpointError`.

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
        on_gpu = device.type == "cuda"
        return cls(tower, device, info, compiled=on_gpu if compiled is None else compiled)

    @torch.inference_mode()
    def encode(self, patches: ImagePatches) -> VisionFeatures:
        """See `VisualEncoder.encode`."""
        check_patches(patches)
        started = time.perf_counter()
        grid = grid_tensors(patches.grid_thw, self._config).to(self._device)
        embeddings = self._forward(patches.pixel_values.to(self._device), grid).float()
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return VisionFeatures(
            embeddings=embeddings,
            grid_thw=patches.grid_thw,
            engine=NAME,
            seconds=time.perf_counter() - started,
        )
