"""One encoder for every engine that runs the exported graph.

Patches in, features out: the grid's tensors are computed here, the engine's runner gets the
graph's inputs by name and returns its output. Budgets of a built engine are checked before it runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from visual_encoder.errors import ImageRefused
from visual_encoder.onnx_graph import model_inputs
from visual_encoder.resize_plan import MIN_FLAG, PER_IMAGE_FLAG, TOTAL_FLAG
from visual_encoder.types import (
    EncoderInfo,
    ImagePatches,
    ImageTokenLimits,
    VisionConfig,
    VisionFeatures,
    check_patches,
)
from visual_encoder.windows import grid_tensors

Runner = Callable[[dict[str, torch.Tensor]], torch.Tensor]  # the graph's inputs -> its output


class ExportedEncoder:
    """A runner, the tower's configuration, and the budget the engine was built for."""

    def __init__(
        self,
        runner: Runner,
        config: VisionConfig,
        info: EncoderInfo,
        limits: ImageTokenLimits | None,
    ) -> None:
        self._runner = runner
        self._config = config
        self._limits = limits
        self.info = info

    @property
    def name(self) -> str:
        """The engine's name."""
        return self.info.engine

    @torch.inference_mode()
    def encode(self, patches: ImagePatches) -> VisionFeatures:
        """See `VisualEncoder.encode`. Raises `ImageRefused` outside the engine's budget."""
        check_patches(patches)
        if self._limits is not None:
            check_budget(patches, self._limits)
        started = time.perf_counter()
        inputs = model_inputs(patches.pixel_values, grid_tensors(patches.grid_thw, self._config))
        embeddings = self._runner({name: tensor.contiguous() for name, tensor in inputs.items()})
        return VisionFeatures(
            embeddings=embeddings,
            grid_thw=patches.grid_thw,
            engine=self.name,
            seconds=time.perf_counter() - started,
        )


def check_budget(patches: ImagePatches, limits: ImageTokenLimits) -> None:
    """Raise `ImageRefused` for pictures that the engine was not built for."""
    tokens = patches.num_image_tokens
    judged = [(sum(tokens), limits.max_image_tokens, TOTAL_FLAG)]
    judged += [(number, limits.max_image_tokens_per_image, PER_IMAGE_FLAG) for number in tokens]
    for actual, limit, flag in judged:
        if actual > limit:
            raise _outside(actual, "at most", limit, flag)
    if min(tokens) < limits.min_image_tokens:
        raise _outside(min(tokens), "at least", limits.min_image_tokens, MIN_FLAG)


def _outside(actual: int, bound: str, limit: int, flag: str) -> ImageRefused:
    what = "pictures of the request take" if flag == TOTAL_FLAG else "picture takes"
    return ImageRefused(
        f"The {what} {actual} image tokens, and the visual engine was built for {bound} {limit} "
        f"({flag}): choose limits within the engine's, or build another engine.",
        actual=actual,
        limit=limit,
        flag=flag,
    )
