"""What a run adds up to, finished or stopped."""

from __future__ import annotations

import pytest

from tests.vlm.ui.fakes import FakePipeline
from vlm.events import GenerationFinished, StepDecoded
from vlm.requests import ChatMessage, GenerationRequest
from vlm.ui.record import RunRecord

REQUEST = GenerationRequest((ChatMessage("user", "Hello"),))


def test_nothing_is_known_before_the_first_token() -> None:
    record = RunRecord()
    assert record.stats is None
    assert not record.speculative


def test_a_finished_run_has_the_engines_own_figures() -> None:
    events = list(FakePipeline(accepted=(2, 0, 4)).run(REQUEST))
    record = RunRecord()
    for event in events:
        record.add(event)
    assert isinstance(events[-1], GenerationFinished)
    assert record.stats is events[-1].stats
    assert record.is_complete
    assert record.speculative


def test_a_stopped_run_has_the_figures_of_the_steps_it_made() -> None:
    events = list(FakePipeline(accepted=(2, 0, 4, 1), step_seconds=0.002).run(REQUEST))[:4]
    record = RunRecord()
    for event in events:
        record.add(event)
    stats = record.stats
    assert stats is not None
    assert not record.is_complete
    assert stats.finish_reason == "cancelled"
    assert len(stats.steps) == 3
    assert len(stats.token_ids) == 1 + 3 + 1
    assert stats.mean_acceptance_length == pytest.approx(1 + (2 + 0) / 2)
    last = events[-1]
    assert isinstance(last, StepDecoded)
    assert stats.total_seconds == last.elapsed_seconds
    assert stats.decode_seconds == last.elapsed_seconds - stats.time_to_first_token_seconds
    assert stats.text == record.text != ""
