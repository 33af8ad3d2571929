"""One tiny checkpoint, and one encoder per engine, for all tests of this folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.visual_encoder.tiny_tower import ReferenceTower, write_checkpoint
from visual_encoder import VisualEncoder, available_engines, create_encoder


@dataclass(frozen=True, slots=True)
class TinyCheckpoint:
    """A checkpoint's directory, a cache for exported files and transformers' tower."""

    directory: Path
    cache_dir: Path
    tower: ReferenceTower


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyCheckpoint:
    directory = tmp_path_factory.mktemp("tiny_tower")
    cache_dir = tmp_path_factory.mktemp("engines")
    return TinyCheckpoint(directory, cache_dir, write_checkpoint(directory))


@pytest.fixture
def checkpoint_copy(tiny: TinyCheckpoint, tmp_path: Path) -> Path:
    """The tiny checkpoint's files in a directory that the test may damage."""
    return shutil.copytree(tiny.directory, tmp_path / "checkpoint")


@pytest.fixture(scope="session", params=[status.name for status in available_engines()])
def encoder(request: pytest.FixtureRequest, tiny: TinyCheckpoint) -> VisualEncoder:
    """Every engine in turn; those missing here are skipped with their reason."""
    status = next(item for item in available_engines() if item.name == request.param)
    if status.missing is not None:
        pytest.skip(f"{status.name}: {status.missing}")
    return create_encoder(
        request.param, tiny.directory, device="cpu", threads=1, cache_dir=tiny.cache_dir
    )
