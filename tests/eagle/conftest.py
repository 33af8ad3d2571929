"""One tiny target with eyes, and prompts for it with and without a picture."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eagle.types import MergedPrompt
from tests import tiny
from vlm.checkpoint import base_config, load_language_model
from vlm.language_model import LanguageModel
from vlm.mrope import mrope_positions


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    directory: Path = tmp_path_factory.mktemp("target")
    tiny.write("qwen2_5_vl", directory)
    return load_language_model(
        directory,
        base_config(directory),
        aux_layers=(2, 3, 4),
        dtype=torch.float32,
        device=torch.device("cpu"),
    )


def text_prompt(target: LanguageModel) -> MergedPrompt:
    ids = torch.tensor([4, 8, 15, 16, 23, 42, 108])
    embeds = target.embed(ids)
    return MergedPrompt(ids, embeds, embeds, torch.arange(len(ids)).expand(3, -1), 0)


def image_prompt(target: LanguageModel) -> MergedPrompt:
    """Twelve image tokens whose features are random; the draft sees plain placeholders."""
    grid = (1, 8, 6)
    ids = [5, 9, tiny.VISION_START, *[tiny.IMAGE_PAD] * 12, tiny.VISION_END, 33, 34]
    input_ids = torch.tensor(ids)
    plain = target.embed(input_ids)
    merged = plain.clone()
    merged[input_ids == tiny.IMAGE_PAD] = torch.randn(
        12, plain.shape[1], generator=torch.Generator().manual_seed(3)
    )
    positions, delta = mrope_positions(len(ids), [3], [grid], 2)
    return MergedPrompt(input_ids, merged, plain, positions, delta)


@pytest.fixture(params=["text", "image"])
def prompt(request: pytest.FixtureRequest, target: LanguageModel) -> MergedPrompt:
    return text_prompt(target) if request.param == "text" else image_prompt(target)
