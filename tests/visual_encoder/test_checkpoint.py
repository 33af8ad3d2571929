"""Loading is strict: whatever does not fit is an error that names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.visual_encoder.conftest import TinyCheckpoint
from tests.visual_encoder.tiny_tower import VISION, Tensors, edit_tensors
from visual_encoder import CheckpointError, VisionConfig, load_tower, load_vision_config
from visual_encoder.tower import VisionTower

CPU = torch.device("cpu")
QKV = "visual.blocks.2.attn.qkv.weight"

# vision_config of Qwen/Qwen2.5-VL-7B-Instruct and -32B-Instruct as published.
PUBLISHED_7B = {
    "depth": 32,
    "hidden_act": "silu",
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "num_heads": 16,
    "in_chans": 3,
    "out_hidden_size": 3584,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "spatial_patch_size": 14,
    "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31],
    "tokens_per_second": 2,
    "temporal_patch_size": 2,
}
PUBLISHED_32B = {
    "hidden_size": 1280,
    "in_chans": 3,
    "intermediate_size": 3456,
    "model_type": "qwen2_5_vl",
    "out_hidden_size": 5120,
    "spatial_patch_size": 14,
    "tokens_per_second": 2,
    "torch_dtype": "bfloat16",
}


def load(directory: Path, dtype: torch.dtype = torch.float32) -> VisionTower:
    return load_tower(directory, dtype=dtype, device=CPU)


def rename(tensors: Tensors, old: str, new: str) -> Tensors:
    return {key.replace(old, new): tensor for key, tensor in tensors.items()}


def prefix_of(directory: Path) -> str:
    keys = load_file(directory / "model.safetensors")
    return next(key for key in keys if "visual." in key).partition("visual.")[0] + "visual."


@pytest.mark.parametrize("prefix", ["visual.", "model.visual."])
def test_both_prefixes_load(checkpoint_copy: Path, tiny: TinyCheckpoint, prefix: str) -> None:
    written = prefix_of(checkpoint_copy)
    edit_tensors(checkpoint_copy, lambda tensors: rename(tensors, written, prefix))
    loaded, expected = load(checkpoint_copy).state_dict(), tiny.tower.state_dict()
    assert loaded.keys() == expected.keys()
    assert all(torch.equal(loaded[name], expected[name]) for name in loaded)


def test_a_missing_tensor_is_named(checkpoint_copy: Path) -> None:
    edit_tensors(
        checkpoint_copy, lambda ts: {key: t for key, t in ts.items() if not key.endswith(QKV)}
    )
    with pytest.raises(CheckpointError, match=QKV):
        load(checkpoint_copy)


def test_an_unexpected_tensor_is_named(checkpoint_copy: Path) -> None:
    extra = prefix_of(checkpoint_copy) + "blocks.9.attn.qkv.weight"
    edit_tensors(checkpoint_copy, lambda tensors: tensors | {extra: torch.zeros(1)})
    with pytest.raises(CheckpointError, match=r"visual\.blocks\.9\.attn\.qkv\.weight"):
        load(checkpoint_copy)


def test_a_misshapen_tensor_is_named_with_both_shapes(checkpoint_copy: Path) -> None:
    def cut(tensors: Tensors) -> Tensors:
        return {key: t[:-1] if key.endswith(QKV) else t for key, t in tensors.items()}

    edit_tensors(checkpoint_copy, cut)
    with pytest.raises(CheckpointError, match=rf"{QKV}.*\(191, 64\).*\(192, 64\)"):
        load(checkpoint_copy)


def shard(directory: Path) -> None:
    """Split model.safetensors in two, with an index, as big checkpoints are published."""
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    weight_map = {}
    for position, key in enumerate(sorted(tensors)):
        weight_map[key] = f"model-0000{position % 2 + 1}-of-00002.safetensors"
    for name in set(weight_map.values()):
        part = {key: tensors[key] for key, file in weight_map.items() if file == name}
        save_file(part, directory / name)
    index = {"metadata": {}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def test_a_sharded_checkpoint_loads(checkpoint_copy: Path, tiny: TinyCheckpoint) -> None:
    shard(checkpoint_copy)
    loaded = load(checkpoint_copy).state_dict()
    assert all(torch.equal(loaded[k], value) for k, value in tiny.tower.state_dict().items())


def test_an_absent_shard_is_named(checkpoint_copy: Path) -> None:
    shard(checkpoint_copy)
    (checkpoint_copy / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"has no model-00002-of-00002\.safetensors"):
        load(checkpoint_copy)


def test_a_damaged_file_is_named(checkpoint_copy: Path) -> None:
    (checkpoint_copy / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(CheckpointError, match=r"model\.safetensors cannot be read"):
        load(checkpoint_copy)


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_bad_config_is_named(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_vision_config(tmp_path)


def test_a_text_only_model_has_no_tower(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    with pytest.raises(CheckpointError, match="text-only"):
        load_vision_config(tmp_path)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_are_loaded_in_the_wanted_format(tiny: TinyCheckpoint, dtype: torch.dtype) -> None:
    assert {tensor.dtype for tensor in load(tiny.directory, dtype).state_dict().values()} == {dtype}


def test_published_configs_are_understood() -> None:
    seven, thirty_two = map(VisionConfig.from_dict, (PUBLISHED_7B, PUBLISHED_32B))
    assert (seven.head_dim, seven.window_tokens, seven.out_hidden_size) == (80, 16, 3584)
    assert (thirty_two.depth, thirty_two.num_heads, thirty_two.intermediate_size) == (32, 16, 3456)


def test_a_tower_written_by_transformers_is_understood(tiny: TinyCheckpoint) -> None:
    config = load_vision_config(tiny.directory)
    assert {name: getattr(config, name) for name in VISION} == VISION | {
        "fullatt_block_indexes": (1, 3)
    }


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"deepstack_visual_indexes": [1]}, "unknown field 'deepstack_visual_indexes'"),
        ({"patch_size": 16}, "patch_size = 16"),
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"spatial_merge_size": 4}, "spatial_merge_size = 4"),
        ({"depth": "32"}, "'depth' is '32', not an integer"),
        ({"num_heads": 3}, "num_heads 3"),
        ({"fullatt_block_indexes": [4]}, "full-attention block 4"),
        ({"window_size": 14}, "window_size 14"),
        ({"depth": 0}, "size below 1"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_type 'yarn'"),
        ({"rope_parameters": "axial"}, "'rope_parameters' is 'axial'"),
        ({"fullatt_block_indexes": 3}, "'fullatt_block_indexes' is 3, not a list"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_cannot_be_computed_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CheckpointError, match=complaint):
        VisionConfig.from_dict(VISION | change)


def test_a_required_field_is_named() -> None:
    with pytest.raises(CheckpointError, match="lacks the field 'out_hidden_size'"):
        VisionConfig.from_dict({"hidden_size": 64})
