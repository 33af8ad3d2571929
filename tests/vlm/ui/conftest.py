"""A scripted engine, and kiosks over one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.vlm.ui.fakes import FakePipeline
from tests.vlm.ui.kiosk_stand import Stand
from vlm.ui.bench.benches import BenchHandlers
from vlm.ui.engine_thread import EngineThread


@pytest.fixture
def pipeline() -> FakePipeline:
    return FakePipeline()


@pytest.fixture
def engine(pipeline: FakePipeline) -> Iterator[EngineThread]:
    with EngineThread(pipeline) as engine:
        yield engine


@pytest.fixture
def stand() -> Iterator[Stand]:
    with Stand() as stand:
        yield stand


@pytest.fixture
def typing_stand() -> Iterator[Stand]:
    with Stand(free_text=True) as stand:
        yield stand


@pytest.fixture
def benches(engine: EngineThread) -> BenchHandlers:
    return BenchHandlers(engine)
