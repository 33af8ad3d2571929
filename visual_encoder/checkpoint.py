"""The vision tower inside a Hugging Face checkpoint: its configuration and its tensors, strictly.

Reads config.json and safetensors files, one or sharded, and only the tower's tensors out of them.
A missing, unexpected or wrongly shaped tensor is an error that names it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from visual_encoder.errors import CheckpointError
from visual_encoder.tower import VisionTower
from visual_encoder.types import VisionConfig

INDEX_FILE = "model.safetensors.index.json"
SINGLE_FILE = "model.safetensors"
PREFIXES = ("model.visual.", "visual.")  # transformers 5, transformers 4


def load_vision_config(model_dir: Path) -> VisionConfig:
    """The checkpoint's `vision_config`. Raises `CheckpointError` when absent or not understood."""
    config = _read_json(model_dir / "config.json")
    vision = config.get("vision_config")
    if not isinstance(vision, dict):
        raise CheckpointError(f"{model_dir}/config.json has no vision_config: a text-only model.")
    return VisionConfig.from_dict(vision)


class TowerTensors:
    """The tower's tensors in a checkpoint, checked by name and shape, read one at a time."""

    def __init__(self, model_dir: Path) -> None:
        """Reads no data. Raises `CheckpointError` naming the first tensor that is missing,
        unexpected or misshapen."""
        self.config = load_vision_config(model_dir)
        with torch.device("meta"):
            expected = VisionTower(self.config).state_dict()
        self.num_values = sum(tensor.numel() for tensor in expected.values())
        self._places: dict[str, tuple[Path, str]] = {}
        for path in _tensor_files(model_dir):
            with _opened(path) as tensors:
                for key, name in _tower_keys(tensors):
                    shape = tuple(tensors.get_slice(key).get_shape())
                    _check_tensor(name, shape, expected, model_dir)
                    self._places[name] = (path, key)
        missing = [name for name in expected if name not in self._places]
        if missing:
            raise CheckpointError(
                f"{model_dir} lacks {len(missing)} of the vision tower's tensors, first "
                f"'visual.{missing[0]}'."
            )

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def read(self, name: str) -> torch.Tensor:
        """The tensor `name`, as stored."""
        path, key = self._places[name]
        with _opened(path) as tensors:
            tensor: torch.Tensor = tensors.get_tensor(key)
        return tensor


def load_tower(model_dir: Path, *, dtype: torch.dtype, device: torch.device) -> VisionTower:
    """Build the tower and load its weights in `dtype` on `device`, ready for inference.

    Raises `CheckpointError` naming the first tensor that is missing, unexpected or misshapen.
    """
    tensors = TowerTensors(model_dir)
    with torch.device("meta"):
        tower = VisionTower(tensors.config)
    weights = {name: tensors.read(name).to(device=device, dtype=dtype) for name in tensors}
    tower.load_state_dict(weights, assign=True)
    return tower.requires_grad_(False).eval()


def iterate_tower_tensors(model_dir: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """(name without prefix, tensor) of every tower tensor, one at a time, ordered by file."""
    for path in _tensor_files(model_dir):
        with _opened(path) as tensors:
            for key, name in _tower_keys(tensors):
                yield name, tensors.get_tensor(key)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as tensors:
            yield tensors
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def _tower_keys(tensors: Any) -> Iterator[tuple[str, str]]:
    """(key in the file, name in the tower) of the tower's tensors."""
    for key in sorted(tensors.keys()):
        prefix = next((p for p in PREFIXES if key.startswith(p)), None)
        if prefix is not None:
            yield key, key.removeprefix(prefix)


def _check_tensor(
    name: str, shape: tuple[int, ...], expected: dict[str, torch.Tensor], model_dir: Path
) -> None:
    if name not in expected:
        raise CheckpointError(
            f"{model_dir} has the tensor 'visual.{name}', which the vision tower of its "
            "config.json does not have."
        )
    if shape != expected[name].shape:
        raise CheckpointError(
            f"Tensor 'visual.{name}' of {model_dir} has shape {shape}, but its "
            f"config.json asks for {tuple(expected[name].shape)}."
        )


def _tensor_files(model_dir: Path) -> list[Path]:
    """The safetensors files that may hold tower tensors, each once."""
    if (model_dir / INDEX_FILE).exists():
        weight_map = _read_json(model_dir / INDEX_FILE).get("weight_map", {})
        names = sorted({file for key, file in weight_map.items() if key.startswith(PREFIXES)})
    else:
        names = [SINGLE_FILE]
    absent = [name for name in names if not (model_dir / name).exists()]
    if absent:
        raise CheckpointError(f"{model_dir} is incomplete: it has no {absent[0]}.")
    return [model_dir / name for name in names]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{path.parent} has no {path.name}.") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is not a JSON object.")
    return content
