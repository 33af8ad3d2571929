"""The batched tower equals transformers' own, and training can stop and go on."""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vlm.demo_model.training_loop import Budget, Drawer, ParameterGroup, train, trained_weights
from vlm.demo_model.vision_tower import (
    DEMO_VISION_CONFIG,
    PATCH,
    build_tower,
    run_tower,
    to_pixel_values,
)
from vlm.demo_model.weights import read_visual_weights, write_visual_weights

TINY_CONFIG = DEMO_VISION_CONFIG | {
    "depth": 3,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_heads": 2,
    "out_hidden_size": 24,
    "fullatt_block_indexes": [1],
}


class _MeanColor:
    """The smallest stage there is: say how bright a plain picture is."""

    learning_rate = 1e-3
    report_seconds = 60.0

    def __init__(self) -> None:
        torch.manual_seed(0)
        self._tower = build_tower(TINY_CONFIG)

    @property
    def trained(self) -> nn.Module:
        return self._tower

    def parameter_groups(self) -> list[ParameterGroup]:
        return [ParameterGroup(tuple(self._tower.parameters()), rate_scale=1.0)]

    @property
    def draw(self) -> Drawer:
        return _draw_levels

    def loss(self, drawn: npt.NDArray[np.uint8]) -> tuple[Tensor, int]:
        pictures = np.broadcast_to(drawn, (4, 56, 56, 3)).copy()
        tokens = run_tower(self._tower, to_pixel_values(pictures), 56, 56)
        wanted = torch.from_numpy(drawn / 255).float().view(4)
        return F.mse_loss(tokens.mean((1, 2)), wanted), 4

    def held_out_accuracy(self) -> dict[str, float]:
        return {"brightness": 0.0}


def _draw_levels(rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    return rng.integers(0, 256, (4, 1, 1, 1), dtype=np.uint8)


def _train(checkpoint: Path, *step_counts: int, processes: int = 0) -> dict[str, Tensor]:
    for steps in step_counts:
        budget = Budget(10.0, steps)
        train(_MeanColor(), budget, checkpoint, seed=0, drawing_processes=processes)
    return trained_weights(checkpoint)


@pytest.mark.parametrize(("height", "width"), [(84, 84), (112, 140), (252, 168)])
def test_batched_tower_equals_transformers(height: int, width: int) -> None:
    torch.manual_seed(0)
    tower = build_tower(TINY_CONFIG)
    pictures = np.random.default_rng(0).integers(0, 256, (2, height, width, 3), dtype=np.uint8)
    pixel_values = to_pixel_values(pictures)
    grid = torch.tensor([[1, height // PATCH, width // PATCH]] * 2)
    with torch.no_grad():
        expected = tower(pixel_values.flatten(0, 1), grid).pooler_output
        tokens = run_tower(tower, pixel_values, height, width)
    torch.testing.assert_close(tokens.flatten(0, 1), expected, rtol=1e-5, atol=1e-5)


def test_training_repeats_itself(tmp_path: Path) -> None:
    first, again = _train(tmp_path / "a.pt", 4), _train(tmp_path / "b.pt", 4)
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_a_resumed_run_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    """Step count, picture count and optimizer state all continue."""
    _train(tmp_path / "a.pt", 3, 6)
    state = torch.load(tmp_path / "a.pt", weights_only=True)
    assert state["step"] == 6
    assert state["pictures"] == 24
    assert state["optimizers"][0]["state"][0]["step"] == 6
    assert not list(tmp_path.glob("*.partial"))


def test_other_processes_draw_the_same_pictures(tmp_path: Path) -> None:
    alone, ahead = _train(tmp_path / "a.pt", 3), _train(tmp_path / "b.pt", 3, processes=2)
    assert all(torch.equal(alone[name], ahead[name]) for name in alone)


def test_the_learning_curve_is_kept(tmp_path: Path) -> None:
    _train(tmp_path / "a.pt", 2, 4)
    points = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [point["pictures"] for point in points] == [8, 16]
    assert points[-1]["brightness"] == 0.0


def test_a_spent_budget_trains_no_further(tmp_path: Path) -> None:
    once = _train(tmp_path / "a.pt", 3)
    twice = _train(tmp_path / "a.pt", 3)
    assert all(torch.equal(once[name], twice[name]) for name in once)


def test_weights_survive_the_assets_folder_in_bfloat16(tmp_path: Path) -> None:
    weights = dict(build_tower(TINY_CONFIG).state_dict())
    write_visual_weights(weights, TINY_CONFIG, tmp_path)
    stored, config = read_visual_weights(tmp_path)
    assert config == TINY_CONFIG
    assert stored.keys() == weights.keys()
    assert all(torch.equal(stored[name], weights[name].bfloat16()) for name in weights)
