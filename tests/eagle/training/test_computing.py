"""States that were not stored are computed to the same loss, with and without a picture."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from eagle.errors import EagleConfigError
from eagle.training.base import Base
from eagle.training.collate import ImageSlots
from eagle.training.computing import FeatureComputer
from eagle.training.dataset import load_examples
from eagle.training.generate_data import generate
from eagle.training.prompts import read_prompts
from eagle.training.train import TrainOptions, prepare
from tests.eagle.training.conftest import DATA

WITHOUT = dataclasses.replace(DATA, keep_states=False)


@pytest.fixture
def bare_pictures(base: Base, pictures: Path, tmp_path: Path) -> Path:
    """The same as `pictures`, without states."""
    for name in ("noise.png", "prompts.jsonl"):
        shutil.copy(pictures / name, tmp_path)
    options = dataclasses.replace(WITHOUT, sampled_share=0.0)
    generate(base, tmp_path / "data", options, read_prompts(tmp_path / "prompts.jsonl"))
    return tmp_path


def first_loss(base: Base, folder: Path, image_slots: ImageSlots = "plain") -> float:
    options = TrainOptions(
        ttt_steps=3, draft_vocab_size=90, dtype="float32", fc_norm=True, image_slots=image_slots
    )
    examples, _, trainer = prepare(base, [folder], options, None)
    return trainer.train_step(examples)


def test_text_has_the_loss_of_its_stored_states(base: Base, data: Path, tmp_path: Path) -> None:
    generate(base, tmp_path, WITHOUT)
    assert not list(tmp_path.glob("*.safetensors"))
    assert first_loss(base, tmp_path) == pytest.approx(first_loss(base, data), rel=1e-3)


@pytest.mark.parametrize("image_slots", ["plain", "merged"])
def test_a_picture_has_the_loss_of_its_stored_states(
    base: Base, pictures: Path, bare_pictures: Path, image_slots: ImageSlots
) -> None:
    stored = load_examples([pictures / "data"])
    computed = FeatureComputer(base)(load_examples([bare_pictures / "data"]))
    for example, features in zip(stored, computed, strict=True):
        wanted = example.stored.read()
        torch.testing.assert_close(features.states, wanted.states, atol=0.05, rtol=0.02)
        torch.testing.assert_close(features.image_embeds, wanted.image_embeds)
    losses = [first_loss(base, each / "data", image_slots) for each in (bare_pictures, pictures)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_an_evaluation_in_lower_precision_sees_the_same_states(
    base: Base, bare_pictures: Path
) -> None:
    """The trainer evaluates under autocast, which is meant for the draft alone."""
    examples = load_examples([bare_pictures / "data"])
    wanted = FeatureComputer(base)(examples)
    with torch.autocast("cpu", torch.bfloat16):
        ours = FeatureComputer(base)(examples)
    for one, other in zip(ours, wanted, strict=True):
        assert torch.equal(one.states, other.states)


def test_a_picture_that_is_gone_or_changed_is_named(base: Base, bare_pictures: Path) -> None:
    examples = load_examples([bare_pictures / "data"])
    Image.new("RGB", (280, 280)).save(bare_pictures / "noise.png")
    with pytest.raises(EagleConfigError, match="gives 100 image tokens"):
        FeatureComputer(base)(examples)
    (bare_pictures / "noise.png").unlink()
    with pytest.raises(EagleConfigError, match="is missing"):
        load_examples([bare_pictures / "data"])


def test_old_sets_without_their_states_are_refused(pictures: Path, tmp_path: Path) -> None:
    """They do not name their pictures."""
    rows = (pictures / "data" / "shard-00000.jsonl").read_text()
    (tmp_path / "shard-00000.jsonl").write_text(
        rows.replace("noise.png", "").replace('"../"', "null")
    )
    with pytest.raises(EagleConfigError, match="neither the states"):
        load_examples([tmp_path])
