"""Checkpoints of random vision towers of any size, for tests and measurements:

python -m tests.visual_encoder.random_tower DIR --depth 8 --hidden-size 640 --num-heads 8
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from visual_encoder import VisionConfig
from visual_encoder.tower import VisionTower


def write_random_tower(directory: Path, vision_config: Mapping[str, Any]) -> None:
    """Write a tower alone, in bfloat16. Its activations stay near one, as a trained one's do."""
    directory.mkdir(parents=True)
    with torch.device("meta"):
        shapes = VisionTower(VisionConfig.from_dict(vision_config)).state_dict()
    torch.manual_seed(0)
    tensors = {f"visual.{name}": random_weight(tensor.shape) for name, tensor in shapes.items()}
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps({"vision_config": dict(vision_config)}))


def random_weight(shape: torch.Size) -> torch.Tensor:
    """A matrix scaled by its width; a norm's scale or a bias around one half."""
    if len(shape) == 1:
        return torch.empty(shape).uniform_(0.2, 0.8).to(torch.bfloat16)
    half_width = (3 / shape[1:].numel()) ** 0.5  # of a uniform distribution with that deviation
    return torch.empty(shape, dtype=torch.bfloat16).uniform_(-half_width, half_width)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--hidden-size", type=int, default=640)
    parser.add_argument("--num-heads", type=int, default=8)
    arguments = parser.parse_args()
    write_random_tower(
        arguments.directory,
        {
            "depth": arguments.depth,
            "hidden_size": arguments.hidden_size,
            "num_heads": arguments.num_heads,
            "intermediate_size": arguments.hidden_size * 8 // 3 // 4 * 4,
            "out_hidden_size": arguments.hidden_size * 2,
            "fullatt_block_indexes": list(range(7, arguments.depth, 8)),
        },
    )


if __name__ == "__main__":
    main()
