"""A small random Qwen2.5-VL checkpoint, written by transformers, and its tower as the reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import (
    Qwen2_5_VisionTransformerPretrainedModel,
)

from visual_encoder.types import PATCH_DIM, PATCH_SIZE, GridTHW, ImagePatches

ReferenceTower = Qwen2_5_VisionTransformerPretrainedModel
Tensors = dict[str, torch.Tensor]

VISION = {
    "depth": 4,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_heads": 2,
    "out_hidden_size": 48,
    "fullatt_block_indexes": [1, 3],
}
TEXT = {
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 64,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}

# A small tower with the head size (80), the window size and the order of blocks (seven of windows,
# then one of full attention) of the 3B to 72B.
BIG_PATTERN: dict[str, Any] = {
    "depth": 8,
    "hidden_size": 160,
    "intermediate_size": 428,
    "num_heads": 2,
    "fullatt_block_indexes": [7],
}

# Patch grids of forty requests: squares, ordinary photos, strips one token high or wide up to an
# aspect of 200, windows cut at one or both borders, several images of different sizes, two clips.
REQUESTS: tuple[GridTHW, ...] = (
    ((1, 2, 2),),
    ((1, 2, 4),),
    ((1, 4, 4),),
    ((1, 8, 8),),
    ((1, 8, 10),),
    ((1, 16, 16),),
    ((1, 10, 14),),
    ((1, 14, 10),),
    ((1, 24, 36),),
    ((1, 18, 26),),
    ((1, 32, 32),),
    ((1, 30, 22),),
    ((1, 6, 50),),
    ((1, 50, 6),),
    ((1, 2, 64),),
    ((1, 64, 2),),
    ((1, 2, 400),),
    ((1, 400, 2),),
    ((1, 4, 300),),
    ((1, 54, 38),),
    ((1, 16, 16), (1, 10, 14)),
    ((1, 2, 2), (1, 2, 2)),
    ((1, 4, 4), (1, 26, 18), (1, 8, 30)),
    ((1, 2, 90), (1, 90, 2), (1, 2, 2)),
    ((1, 8, 8), (1, 8, 8), (1, 8, 8), (1, 8, 8), (1, 8, 8)),
    ((2, 12, 20),),
    ((1, 6, 6), (3, 4, 10)),
    ((1, 12, 12),),
    ((1, 22, 8),),
    ((1, 44, 28),),
    ((1, 36, 64),),
    ((1, 64, 64),),
    ((1, 8, 128),),
    ((1, 240, 4),),
    ((1, 16, 90), (1, 90, 16)),
    ((1, 20, 30), (1, 6, 100), (1, 40, 24)),
    ((1, 400, 2), (1, 2, 400), (1, 20, 20)),
    ((1, 2, 2), (1, 32, 32), (1, 2, 300)),
    ((1, 10, 10), (1, 10, 10)),
    ((1, 4, 2), (1, 6, 2), (1, 8, 2), (1, 10, 2)),
)


def write_checkpoint(directory: Path, **vision: Any) -> ReferenceTower:
    """Save a whole tiny model with transformers; return its vision tower in float32.

    `vision` overrides fields of the vision configuration.
    The tower's weights are drawn so that activations stay near one: transformers' own small
    initial values would hide errors.
    """
    torch.manual_seed(0)
    config = Qwen2_5_VLConfig(vision_config=VISION | vision, text_config=TEXT)
    model = Qwen2_5_VLForConditionalGeneration(config).eval()
    tower = model.model.visual
    for parameter in tower.parameters():
        fan_in = parameter[0].numel()
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=fan_in**-0.5)
        else:
            torch.nn.init.normal_(parameter, mean=0.5, std=0.3)
    model.save_pretrained(directory)
    reference: ReferenceTower = tower
    return reference


@torch.no_grad()
def reference_embeddings(tower: ReferenceTower, patches: ImagePatches) -> torch.Tensor:
    """transformers' answer, (num_image_tokens, out_hidden_size)."""
    output = tower(patches.pixel_values, grid_thw=torch.tensor(patches.grid_thw))
    embeddings: torch.Tensor = output.pooler_output
    return embeddings


def random_patches(grid_thw: GridTHW, seed: int = 0) -> ImagePatches:
    """Normally distributed pixels for the given grids."""
    generator = torch.Generator().manual_seed(seed)
    num_patches = sum(t * h * w for t, h, w in grid_thw)
    return ImagePatches(
        pixel_values=torch.randn(num_patches, PATCH_DIM, generator=generator),
        grid_thw=grid_thw,
        resized_sizes=tuple((h * PATCH_SIZE, w * PATCH_SIZE) for _, h, w in grid_thw),
    )


def edit_tensors(directory: Path, edit: Callable[[Tensors], Tensors]) -> None:
    """Rewrite a checkpoint's tensors."""
    path = directory / "model.safetensors"
    save_file(edit(load_file(path)), path)
