"""Reading a base checkpoint: which family it is, and its language model's tensors, strictly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from eagle.checkpoint import iterate_tensors, read_config
from vlm.errors import CheckpointError
from vlm.language_model import LanguageModel, LanguageModelConfig

VISION_FAMILIES = frozenset({"qwen2_5_vl"})
TEXT_FAMILIES = frozenset({"qwen3", "llama"})

# transformers 4 and 5 name the same tensors differently; the longer prefix comes first.
LANGUAGE_PREFIXES = ("model.language_model.", "language_model.model.", "model.")
VISION_PREFIXES = ("visual.", "model.visual.")


def base_config(directory: Path) -> dict[str, Any]:
    """The base's config.json. Raises `CheckpointError` for a family that is not run here."""
    config = read_config(directory)
    family = config.get("model_type")
    known = VISION_FAMILIES | TEXT_FAMILIES
    if family not in known:
        raise CheckpointError(
            f"{directory} has model_type '{family}'; supported are {', '.join(sorted(known))}."
        )
    return config


def sees_images(config: dict[str, Any]) -> bool:
    return config["model_type"] in VISION_FAMILIES


def load_language_model(
    directory: Path,
    config: dict[str, Any],
    *,
    aux_layers: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> LanguageModel:
    """Load the decoder; `on_bytes` is told the size of every tensor that was read.

    Raises `CheckpointError` naming the first tensor that is missing, unexpected or of another shape
    than config.json says.
    """
    shape = LanguageModelConfig.from_json(config)
    expected = shape.expected_shapes()
    tensors: dict[str, torch.Tensor] = {}
    for full_name, tensor in iterate_tensors(directory):
        on_bytes(tensor.nbytes)
        name = _language_name(full_name)
        if name is None or (name == "lm_head.weight" and shape.tie_word_embeddings):
            continue
        if name not in expected:
            raise CheckpointError(
                f"{directory} holds a tensor that is not understood: {full_name}."
            )
        if tuple(tensor.shape) != expected[name]:
            raise CheckpointError(
                f"{full_name} has shape {tuple(tensor.shape)}; config.json asks for "
                f"{expected[name]}."
            )
        tensors[name] = tensor.to(device, dtype)
    missing = sorted(expected.keys() - tensors.keys())
    if missing:
        raise CheckpointError(
            f"{directory} lacks the tensor {missing[0]} ({len(missing)} missing in all)."
        )
    return LanguageModel(shape, tensors, aux_layers)


def _language_name(full_name: str) -> str | None:
    """The name below `model.`; None for the vision tower and for stored rotary tables."""
    if full_name.startswith(VISION_PREFIXES) or full_name.endswith("rotary_emb.inv_freq"):
        return None
    for prefix in LANGUAGE_PREFIXES:
        if full_name.startswith(prefix):
            return full_name.removeprefix(prefix)
    return full_name
