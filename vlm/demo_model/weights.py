"""Write and read the vision weights that the repository carries.

In and out: `visual.safetensors`, bfloat16 under the names of a checkpoint's `visual.*` with
that prefix left off, and `visual.json`, the vision config.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

WEIGHTS_NAME = "visual.safetensors"
CONFIG_NAME = "visual.json"


def write_visual_weights(weights: dict[str, Tensor], config: dict[str, Any], folder: Path) -> None:
    """Both files, replaced one at a time and each of them whole."""
    folder.mkdir(parents=True, exist_ok=True)
    halved = {name: weight.to(torch.bfloat16).contiguous() for name, weight in weights.items()}
    partial = folder / f"{WEIGHTS_NAME}.partial"
    save_file(halved, partial, metadata={"format": "pt"})
    partial.replace(folder / WEIGHTS_NAME)
    (folder / CONFIG_NAME).write_text(json.dumps(config, indent=2) + "\n")


def read_visual_weights(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights as stored, and the vision config."""
    config: dict[str, Any] = json.loads((folder / CONFIG_NAME).read_text())
    return load_file(folder / WEIGHTS_NAME), config
