"""A tiny base and draft in the real formats, loaded as anybody's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from tests import tiny
from tests.eagle.drafts import draft_json, random_tensors
from vlm.config import Settings
from vlm.events import GenerationFinished
from vlm.loading import load_pipeline
from vlm.metrics import RunStats
from vlm.pipeline import VlmPipeline
from vlm.requests import GenerationRequest

SMALL: dict[str, Any] = {
    "dtype": "float32",
    "device": "cpu",
    "threads": 1,
    "visual_engine": "torch",
    "max_input_len": 200,
    "max_kv_cache_capacity": 300,
    "max_image_tokens": 60,
    "max_image_tokens_per_image": 30,
}


def write_pair(folder: Path, family: str) -> tuple[str, str]:
    """Directories of a random base and of a random draft that fits it."""
    tiny.write_with_tokenizer(family, folder / "base")
    quiet = load_pipeline(Settings(base=str(folder / "base"), **SMALL), lambda _: None)
    quiet.language_model.aux_layers = (2, 3, 4)
    write_draft(folder / "draft", draft_json(quiet.language_model, 90))
    return str(folder / "base"), str(folder / "draft")


def write_draft(folder: Path, config: dict[str, Any]) -> None:
    """A random draft that holds what `config` says."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(random_tensors(config), folder / "model.safetensors")


@pytest.fixture
def misfit(pair: tuple[str, str], tmp_path: Path) -> str:
    """A sound draft like that of the pair, made for a base of a larger vocabulary."""
    config = json.loads((Path(pair[1]) / "config.json").read_text())
    write_draft(tmp_path / "misfit", config | {"vocab_size": tiny.VOCAB + 10})
    return str(tmp_path / "misfit")


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return write_pair(tmp_path_factory.mktemp("vl"), "qwen2_5_vl")


@pytest.fixture(scope="session")
def tiny_pipeline(pair: tuple[str, str]) -> VlmPipeline:
    return load_pipeline(Settings(base=pair[0], draft=pair[1], **SMALL), lambda _: None)


def finish(pipeline: VlmPipeline, request: GenerationRequest) -> RunStats:
    """Run to the end and return the figures."""
    *_, last = pipeline.run(request)
    assert isinstance(last, GenerationFinished)
    return last.stats
