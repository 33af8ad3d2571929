"""Write and read what the repository carries of the bundled base.

In and out, in one folder: `visual.safetensors`, bfloat16 under the names of a checkpoint's
`visual.*` with that prefix left off; `visual.json`, the vision config; and `adapter/`, what the
language model learned, as a LoRA adapter in PEFT's own form.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

WEIGHTS_NAME = "visual.safetensors"
CONFIG_NAME = "visual.json"
ADAPTER_NAME = Path("adapter") / "adapter_model.safetensors"
ADAPTER_CONFIG_NAME = Path("adapter") / "adapter_config.json"
# A decoder's layers inside PEFT's wrapper inside LlamaForCausalLM.
_PEFT_PREFIX = "base_model.model.model."


def write_visual_weights(weights: dict[str, Tensor], config: dict[str, Any], folder: Path) -> None:
    """Both files, replaced one at a time and each of them whole."""
    _write_halved(weights, folder / WEIGHTS_NAME)
    (folder / CONFIG_NAME).write_text(json.dumps(config, indent=2) + "\n")


def read_visual_weights(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights as stored, and the vision config."""
    config: dict[str, Any] = json.loads((folder / CONFIG_NAME).read_text())
    return load_file(folder / WEIGHTS_NAME), config


def write_adapter(weights: Mapping[str, Tensor], config: dict[str, Any], folder: Path) -> None:
    """`weights`: "layers.0.self_attn.q_proj.lora_A" and so on; `config`: PEFT's."""
    named = {f"{_PEFT_PREFIX}{name}.weight": weight for name, weight in weights.items()}
    _write_halved(named, folder / ADAPTER_NAME)
    (folder / ADAPTER_CONFIG_NAME).write_text(json.dumps(config, indent=2) + "\n")


def read_adapter_updates(folder: Path) -> dict[str, Tensor]:
    """What the adapter adds to each weight, float32: "layers.0.self_attn.q_proj.weight" and so on.

    B A alpha / r (arXiv 2106.09685, section 4.1).
    """
    config = json.loads((folder / ADAPTER_CONFIG_NAME).read_text(encoding="utf-8"))
    weights = load_file(folder / ADAPTER_NAME)
    scale = config["lora_alpha"] / config["r"]
    updates = {}
    for name, down in weights.items():
        if name.endswith(".lora_A.weight"):
            up = weights[name.replace(".lora_A.", ".lora_B.")]
            target = name.removeprefix(_PEFT_PREFIX).replace(".lora_A.weight", ".weight")
            updates[target] = scale * (up.float() @ down.float())
    return updates


def _write_halved(weights: Mapping[str, Tensor], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    halved = {name: weight.to(torch.bfloat16).contiguous() for name, weight in weights.items()}
    partial = path.with_suffix(".partial")
    save_file(halved, partial, metadata={"format": "pt"})
    partial.replace(path)
