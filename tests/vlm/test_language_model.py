"""Parity of our decoder with transformers, and of tree passes with one-by-one passes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from eagle.tree import ROOT, DraftTree
from eagle.types import MergedPrompt
from tests import tiny
from vlm.checkpoint import base_config, load_language_model
from vlm.errors import CheckpointError
from vlm.language_model import LanguageModel
from vlm.mrope import mrope_positions

TOLERANCE = 1e-4
FAMILIES = ("llama", "qwen3", "qwen2_5_vl")
AUX = (2, 3, 4)
GRIDS = {0: (), 1: ((1, 8, 6),), 3: ((1, 4, 4), (1, 2, 12), (1, 10, 6))}


def load(directory: Path, aux_layers: tuple[int, ...] = AUX) -> LanguageModel:
    return load_language_model(
        directory,
        base_config(directory),
        aux_layers=aux_layers,
        dtype=torch.float32,
        device=torch.device("cpu"),
    )


def text_prompt(model: LanguageModel, token_ids: list[int]) -> MergedPrompt:
    ids = torch.tensor(token_ids)
    embeds = model.embed(ids)
    return MergedPrompt(ids, embeds, embeds, torch.arange(len(ids)).expand(3, -1), 0)


def image_prompt_ids(grids: tuple[tuple[int, int, int], ...]) -> tuple[list[int], list[int]]:
    """Some text, then each picture between its markers, with text after it."""
    ids, starts = [5, 9, 14], []
    for index, grid in enumerate(grids):
        ids.append(tiny.VISION_START)
        starts.append(len(ids))
        ids += [tiny.IMAGE_PAD] * (grid[1] * grid[2] // 4)
        ids += [tiny.VISION_END, 20 + index, 31]
    return [*ids, 40, 41, 42], starts


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_text_logits_and_hidden_states_match(family: str, tied: bool, tmp_path: Path) -> None:
    reference = tiny.write(family, tmp_path, tied=tied)
    model = load(tmp_path)
    ids = [3 + (i * 37) % 150 for i in range(90)]
    with torch.no_grad():
        expected = reference(input_ids=torch.tensor([ids]), output_hidden_states=True)
    cache = model.new_cache(256)
    output = model.prefill(text_prompt(model, ids), cache)
    assert (output.logits[0] - expected.logits[0, -1]).abs().max() < TOLERANCE
    wanted = torch.cat([expected.hidden_states[layer][0] for layer in AUX], dim=-1)
    assert (output.aux_hidden - wanted).abs().max() < TOLERANCE

    token_by_token = model.new_cache(256)
    for position, token in enumerate(ids):
        step = model.verify(DraftTree.root_only(token), 0, token_by_token)
        difference = (step.logits[0] - expected.logits[0, position]).abs().max()
        assert difference < TOLERANCE
        assert (step.aux_hidden[0] - wanted[position]).abs().max() < TOLERANCE
    assert token_by_token.length == cache.length == len(ids)


@pytest.mark.parametrize("num_images", [0, 1, 3])
def test_image_prompts_match(num_images: int, tmp_path: Path) -> None:
    """Prompts with pictures of different sizes: features scattered, M-RoPE positions as in
    transformers, then a generated token behind them."""
    reference = tiny.write("qwen2_5_vl", tmp_path)
    model = load(tmp_path)
    grids = GRIDS[num_images]
    ids, starts = image_prompt_ids(grids)
    input_ids = torch.tensor([ids])
    kwargs = {}
    embeds = model.embed(input_ids[0]).clone()
    if grids:
        grid_thw = torch.tensor(grids)
        pixels = torch.randn(int(grid_thw.prod(-1).sum()), 1176)
        kwargs = {
            "pixel_values": pixels,
            "image_grid_thw": grid_thw,
            "mm_token_type_ids": (input_ids == tiny.IMAGE_PAD).int(),
        }
        with torch.no_grad():
            features = reference.model.get_image_features(pixels, grid_thw).pooler_output
        embeds[input_ids[0] == tiny.IMAGE_PAD] = torch.cat(list(features))
    positions, delta = mrope_positions(len(ids), starts, grids, 2)
    prompt = MergedPrompt(input_ids[0], embeds, embeds, positions, delta)
    with torch.no_grad():
        expected = reference(input_ids=input_ids, output_hidden_states=True, **kwargs)
    cache = model.new_cache(256)
    output = model.prefill(prompt, cache)
    assert (output.logits[0] - expected.logits[0, -1]).abs().max() < TOLERANCE
    wanted = torch.cat([expected.hidden_states[layer][0] for layer in AUX], dim=-1)
    assert (output.aux_hidden - wanted).abs().max() < TOLERANCE

    longer = torch.tensor([[*ids, 77]])
    if grids:
        kwargs["mm_token_type_ids"] = (longer == tiny.IMAGE_PAD).int()
    with torch.no_grad():
        expected_next = reference(input_ids=longer, **kwargs).logits[0, -1]
    step = model.verify(DraftTree.root_only(77), delta, cache)
    assert (step.logits[0] - expected_next).abs().max() < TOLERANCE


def random_tree(size: int, seed: int) -> DraftTree:
    """Parents in breadth-first order, tokens at random."""
    rng = random.Random(seed)
    parents, depths = [ROOT], [0]
    nodes = sorted(rng.randrange(0, node) for node in range(1, size))
    for node, parent in enumerate(nodes, start=1):
        parent = min(parent, node - 1)
        parents.append(parent)
        depths.append(depths[parent] + 1)
    return DraftTree(tuple(rng.randrange(3, 150) for _ in range(size)), tuple(parents))


def root_to_node(tree: DraftTree, node: int) -> list[int]:
    path = []
    while node != ROOT:
        path.append(node)
        node = tree.parents[node]
    return path[::-1]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
def test_every_path_of_a_tree_equals_that_path_alone(
    family: str, seed: int, tmp_path: Path
) -> None:
    """Bit for bit: sums are exact before they are rounded, so the cache row of a token and the
    number of its neighbours do not matter."""
    tiny.write(family, tmp_path)
    model = load(tmp_path)
    prompt = text_prompt(model, [4, 8, 15, 16, 23, 42])
    tree = random_tree(24, seed)
    cache = model.new_cache(128)
    model.prefill(prompt, cache)
    output = model.verify(tree, 0, cache)
    leaves = [node for node in range(len(tree)) if not tree.children[node]]
    for leaf in leaves:
        cache.truncate(len(prompt))
        for node in root_to_node(tree, leaf):
            alone = model.verify(DraftTree.root_only(tree.token_ids[node]), 0, cache)
            torch.testing.assert_close(alone.logits[0], output.logits[node], rtol=0, atol=1e-5)
            torch.testing.assert_close(
                alone.aux_hidden[0], output.aux_hidden[node], rtol=0, atol=1e-5
            )


def test_long_prompts_run_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.write("llama", tmp_path)
    model = load(tmp_path)
    prompt = text_prompt(model, [3 + i % 140 for i in range(70)])
    whole = model.prefill(prompt, model.new_cache(128))
    monkeypatch.setattr("vlm.language_model.PREFILL_ROWS", 16)
    pieces = model.prefill(prompt, model.new_cache(128))
    torch.testing.assert_close(whole.logits, pieces.logits, rtol=0, atol=1e-5)
    torch.testing.assert_close(whole.aux_hidden, pieces.aux_hidden, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [("drop", "lacks the tensor layers.3.mlp.up_proj.weight"), ("add", "model.layers.3.extra")],
)
def test_strict_loading_names_the_tensor(change: str, message: str, tmp_path: Path) -> None:
    tiny.write("qwen3", tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    if change == "drop":
        del tensors["model.layers.3.mlp.up_proj.weight"]
    else:
        tensors["model.layers.3.extra"] = torch.zeros(1)
    save_file(tensors, path)
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path)


def test_sharded_checkpoints_load(tmp_path: Path) -> None:
    model = tiny.build("llama")
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    loaded = load(tmp_path)
    ids = [3, 4, 5]
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([ids])).logits[0, -1]
    output = loaded.prefill(text_prompt(loaded, ids), loaded.new_cache(16))
    assert (output.logits[0] - expected).abs().max() < TOLERANCE


def test_other_families_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(CheckpointError, match="model_type 'gpt2'"):
        base_config(tmp_path)


def test_configs_of_transformers_4_mean_the_same(tmp_path: Path) -> None:
    """Published Qwen2.5-VL checkpoints keep the decoder's fields at the top of config.json."""
    tiny.write("qwen2_5_vl", tmp_path)
    nested = load(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    text = config.pop("text_config")
    rope = text.pop("rope_parameters")
    scaling = {"type": "mrope", "mrope_section": rope["mrope_section"]}
    flat = text | config | {"rope_theta": rope["rope_theta"], "rope_scaling": scaling}
    path.write_text(json.dumps(flat))
    assert load(tmp_path).config == nested.config
