"""Towers to encode with, and one encoder per engine and number format, for all tests here."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.visual_encoder.tiny_tower import BIG_PATTERN, ReferenceTower, write_checkpoint
from visual_encoder import VisualEncoder, create_encoder
from visual_encoder.engines import obstacle_of

CPU = torch.device("cpu")
BUNDLED = Path(__file__).parents[2] / "assets" / "bundled"

# Every engine in every number format that a CPU can run; those missing are skipped with a reason.
CPU_ENGINES = [
    ("torch", torch.float32),
    ("torch", torch.bfloat16),
    ("onnxruntime", torch.float32),
    ("openvino", torch.float32),
    ("openvino", torch.bfloat16),
]


def engine_id(engine: tuple[str, torch.dtype]) -> str:
    return f"{engine[0]}-{str(engine[1]).removeprefix('torch.')}"


def skip_where_missing(engine: str, dtype: torch.dtype = torch.float32) -> None:
    obstacle = obstacle_of(engine, dtype, CPU)
    if obstacle is not None:
        pytest.skip(f"{engine}: {obstacle}")


@dataclass(frozen=True, slots=True)
class TinyCheckpoint:
    """A checkpoint's directory, a cache for exported files and transformers' tower."""

    directory: Path
    cache_dir: Path
    tower: ReferenceTower


@pytest.fixture(scope="session")
def engine_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the whole session keeps what it exports and builds."""
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> TinyCheckpoint:
    directory = tmp_path_factory.mktemp("tiny_tower")
    return TinyCheckpoint(directory, engine_cache, write_checkpoint(directory))


@pytest.fixture
def checkpoint_copy(tiny: TinyCheckpoint, tmp_path: Path) -> Path:
    """The tiny checkpoint's files in a directory that the test may damage."""
    return shutil.copytree(tiny.directory, tmp_path / "checkpoint")


@pytest.fixture(scope="session")
def bundled_tower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that holds the vision tower of the bundled model and nothing else."""
    directory = tmp_path_factory.mktemp("bundled_tower")
    weights = load_file(BUNDLED / "visual.safetensors")
    save_file(
        {f"visual.{name}": weight for name, weight in weights.items()},
        directory / "model.safetensors",
    )
    vision_config = json.loads((BUNDLED / "visual.json").read_text(encoding="utf-8"))
    (directory / "config.json").write_text(json.dumps({"vision_config": vision_config}))
    return directory


@pytest.fixture(scope="session")
def big_pattern_tower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random tower with the 7B's head size and pattern of blocks."""
    directory = tmp_path_factory.mktemp("big_pattern_tower")
    write_checkpoint(directory, **BIG_PATTERN)
    return directory


@pytest.fixture(scope="session", params=CPU_ENGINES, ids=engine_id)
def encoder(request: pytest.FixtureRequest, tiny: TinyCheckpoint) -> VisualEncoder:
    """Every engine with the tiny tower."""
    engine, dtype = request.param
    skip_where_missing(engine, dtype)
    return create_encoder(engine, tiny.directory, dtype=dtype, threads=1, cache_dir=tiny.cache_dir)
