"""Visits, limits and the PIN, on a clock of the test's own."""

from __future__ import annotations

import asyncio

import pytest

from tests.vlm.ui.fakes import FakePipeline
from vlm.errors import ConfigError
from vlm.requests import ChatMessage, GenerationRequest
from vlm.ui.engine_thread import EngineThread
from vlm.ui.kiosk import options, visits
from vlm.ui.kiosk.options import KioskOptions
from vlm.ui.kiosk.staff import LOCK_SECONDS, StaffGate
from vlm.ui.kiosk.visits import MAX_VISITS, SILENCE_SECONDS, RateLimit, Refusal, Visits


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_limit_counts_the_last_minute_only() -> None:
    clock = Clock()
    limit = RateLimit(2, clock)
    assert [limit.take() for _ in range(3)] == [True, True, False]
    clock.now += 60
    assert [limit.take() for _ in range(3)] == [True, True, False]


def test_a_silent_screens_visit_ends_and_its_run_with_it() -> None:
    async def scenario() -> None:
        clock = Clock()
        visits = Visits(60, 60, clock)
        silent, heard = visits.begin(), visits.begin()
        silent.picture = b"picture"
        with EngineThread(FakePipeline(accepted=(1,) * 500, step_seconds=0.01)) as engine:
            silent.run = run = engine.submit(GenerationRequest((ChatMessage("user", "Hi"),)))
            clock.now += SILENCE_SECONDS - 1
            assert visits.is_under_way(heard.id)
            clock.now += 2
            visits.expire()
            assert run.is_cancelled
        assert not visits.is_under_way(silent.id)
        assert visits.is_under_way(heard.id)

    asyncio.run(scenario())


def test_silence_is_looked_for_without_anybody_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "SILENCE_SECONDS", 0.05)

    async def scenario() -> None:
        visits = Visits(60, 60)
        for _ in range(2):
            visits.begin()
            await asyncio.sleep(0.2)
            assert len(visits) == 0

    asyncio.run(scenario())


def test_there_is_room_for_so_many_visits() -> None:
    async def scenario() -> None:
        visits = Visits(1000, 60)
        for _ in range(MAX_VISITS):
            last = visits.begin()
        with pytest.raises(Refusal) as refusal:
            visits.begin()
        assert refusal.value.status == 429
        visits.end(last.id)
        visits.end(last.id)  # twice is once
        visits.begin()

    asyncio.run(scenario())


def test_the_gate_opens_again_after_a_minute() -> None:
    clock = Clock()
    gate = StaffGate("1234", clock)
    for _ in range(5):
        with pytest.raises(Refusal):
            gate.check("4321")
    with pytest.raises(Refusal, match="Try again in 60 seconds"):
        gate.check("1234")
    clock.now += LOCK_SECONDS
    gate.check("1234")


def test_the_right_pin_forgets_the_wrong_ones() -> None:
    gate = StaffGate("1234")
    for _ in range(3):
        for _ in range(4):
            with pytest.raises(Refusal, match="That is not the PIN"):
                gate.check("4321")
        gate.check("1234")


@pytest.mark.parametrize("pin", ["123", "12a4", "1" * 13, "١٢٣٤"])
def test_a_pin_is_four_to_twelve_digits(pin: str) -> None:
    with pytest.raises(ConfigError, match="--kiosk-pin must be 4 to 12 digits"):
        KioskOptions(pin=pin)


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="--kiosk-idle-seconds must be above 0, got 0"):
        KioskOptions(idle_seconds=0)


def test_the_pin_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import app

    monkeypatch.setenv(options.PIN_VARIABLE, "777777")
    parse = app.build_parser().parse_args
    assert options.kiosk_options_from_arguments(parse([])).pin == "777777"
    given = parse(["--kiosk-pin", "1234", "--kiosk-idle-seconds", "5", "--kiosk-free-text"])
    chosen = options.kiosk_options_from_arguments(given)
    assert chosen == KioskOptions(pin="1234", idle_seconds=5, free_text=True)
