"""A tiny base with a tokenizer, and a training set that it wrote itself."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from eagle.training.base import Base, load_base
from eagle.training.dataset import Example, load_examples
from eagle.training.generate_data import DataOptions, generate
from eagle.training.prompts import read_prompts
from tests import tiny

DATA = DataOptions(
    num_prompts=24, shard_size=16, max_new_tokens=12, max_prompt_tokens=160, invented_tokens=6,
    rows=5, sampled_share=0.3,
)  # fmt: skip


@pytest.fixture(scope="session")
def base_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory: Path = tmp_path_factory.mktemp("base")
    tiny.write_with_tokenizer("qwen2_5_vl", directory)
    processor = {"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 4 * 784}
    (directory / "preprocessor_config.json").write_text(json.dumps(processor))
    return directory


@pytest.fixture(scope="session")
def base(base_directory: Path) -> Base:
    return load_base(str(base_directory), torch.float32)


@pytest.fixture(scope="session")
def data(base: Base, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("data")
    generate(base, folder, DATA)
    return folder


@pytest.fixture(scope="session")
def pictures(base: Base, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`data`: a question about `noise.png`, and one about nothing."""
    folder: Path = tmp_path_factory.mktemp("pictures")
    pixels = np.random.default_rng(0).integers(0, 255, (84, 56, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "noise.png")
    lines = [{"prompt": "What is it?", "image": "noise.png"}, {"prompt": "Who?"}]
    (folder / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    options = dataclasses.replace(DATA, sampled_share=0.0)
    generate(base, folder / "data", options, read_prompts(folder / "prompts.jsonl"))
    return folder


@pytest.fixture(scope="session")
def examples(data: Path) -> list[Example]:
    return load_examples([data])
