"""An engine that is lost or renewed comes back with the next job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.vlm.ui.fakes import FakePipeline
from vlm.errors import EngineLost
from vlm.requests import ChatMessage, GenerationRequest
from vlm.ui.engine_renewal import RenewableEngine

REQUEST = GenerationRequest((ChatMessage("user", "Hello"),))


class FakeProcess(FakePipeline):
    """What an `EngineProcess` has besides."""

    is_killed = False
    is_closed = False

    def kill(self) -> None:
        self.is_killed = True
        self.error = EngineLost("killed")

    def __exit__(self, *_: object) -> None:
        self.is_closed = True


def quiet(line: str) -> None:
    """Progress that nobody reads."""


def no_room(on_progress: Callable[[str], None]) -> Any:
    raise MemoryError


class Loader:
    def __init__(self) -> None:
        self.loaded: list[FakeProcess] = []

    def __call__(self, on_progress: Callable[[str], None]) -> Any:
        on_progress("Loading tiny-base")
        self.loaded.append(FakeProcess())
        return self.loaded[-1]


def test_a_lost_engine_fails_one_job_and_does_the_next() -> None:
    load = Loader()
    with RenewableEngine(load, quiet, quiet) as engine:
        load.loaded[0].error = EngineLost("gone")
        with pytest.raises(EngineLost, match="the next question starts it again"):
            list(engine.perform(REQUEST))
        assert list(engine.perform(REQUEST))
        assert [process.is_closed for process in load.loaded] == [True, False]
    assert load.loaded[1].is_closed


def test_a_renewed_engine_is_killed_at_once_and_loaded_with_the_next_job() -> None:
    load = Loader()
    with RenewableEngine(load, quiet, quiet) as engine:
        engine.renew()
        assert load.loaded[0].is_killed
        assert len(load.loaded) == 1
        assert list(engine.perform(REQUEST))
        assert len(load.loaded) == 2
        assert engine.info is load.loaded[1].info
        assert engine.settings is load.loaded[1].settings


def test_closing_a_job_early_reaches_the_engine() -> None:
    load = Loader()
    with RenewableEngine(load, quiet, quiet) as engine:
        events = engine.perform(REQUEST)
        next(events)
        events.close()  # type: ignore[attr-defined]
        assert load.loaded[0].num_closed_early == 1


def test_an_engine_that_cannot_be_loaded_is_tried_again() -> None:
    load = Loader()
    with RenewableEngine(load, quiet, quiet) as engine:
        engine.renew()
        engine._load = no_room
        with pytest.raises(MemoryError):
            list(engine.perform(REQUEST))
        assert engine.reloading() is None
        engine._load = load
        assert list(engine.perform(REQUEST))


def test_what_is_loaded_again_can_be_read_meanwhile() -> None:
    """It went to the page of the first loading, which is closed by then."""
    first: list[str] = []
    again: list[tuple[str, str | None]] = []

    def on_renewal(line: str) -> None:
        again.append((line, engine.reloading()))

    with RenewableEngine(Loader(), first.append, on_renewal) as engine:
        assert (first, engine.reloading()) == (["Loading tiny-base"], None)
        engine.renew()
        assert list(engine.perform(REQUEST))
        assert again == [(line, line) for line in ("Starting the engine", "Loading tiny-base")]
        assert engine.reloading() is None
    assert len(first) == 1
