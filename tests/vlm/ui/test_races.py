"""Races on the Compare page: what a visitor does, and the updates that follow."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from tests.vlm.ui.fakes import INFO, FakePipeline
from vlm.errors import EngineLost, ImagesNotSupported
from vlm.trace import TraceRecord, assemble, from_line
from vlm.ui.answers import KEEP
from vlm.ui.controls import Controls
from vlm.ui.conversation import Turn
from vlm.ui.engine_thread import EngineThread
from vlm.ui.races import RaceHandlers, RaceUpdate

VISITOR = gr.Request(session_hash="visitor")


@pytest.fixture
def races(engine: EngineThread) -> RaceHandlers:
    return RaceHandlers(engine)


def controls(pipeline: FakePipeline) -> tuple[Any, ...]:
    return Controls.from_settings(pipeline.settings, has_draft=True).values()


def message(text: str, *files: str) -> dict[str, Any]:
    return {"text": text, "files": list(files)}


def run_on(races: RaceHandlers, first: RaceUpdate, stop_at: str = "") -> list[RaceUpdate]:
    """The update that began a race and all that follow, chained as on the page."""

    async def follow() -> list[RaceUpdate]:
        updates = [first]
        async for payload in races.watch(VISITOR):
            updates.append(RaceUpdate(payload))
            if payload is not KEEP and payload["phase"] == stop_at:
                races.stop(VISITOR)
        return [*updates, races.conclude(VISITOR)]

    return asyncio.run(follow())


def legs_of(payload: dict[str, Any]) -> list[list[TraceRecord]]:
    legs: list[list[TraceRecord]] = [[] for _ in payload["order"]]
    for line in payload["lines"].splitlines():
        leg, _, record = line.partition(" ")
        legs[int(leg)].append(from_line(record))
    return legs


def test_both_ways_are_run_and_sent_whole_at_the_end(
    races: RaceHandlers, pipeline: FakePipeline
) -> None:
    pipeline.step_seconds = 0.03
    asked = message("What is this?", "/a.png")
    updates = run_on(races, races.ask(VISITOR, asked, "AB", *controls(pipeline)))
    first, *_, last = updates
    assert first.composer["stop_btn"]
    assert first.composer["value"] == asked  # and stays: the end leaves what is there
    assert last.composer["submit_btn"]
    assert "value" not in last.composer
    base, eagle = (assemble(records) for records in legs_of(last.race))
    assert (base.run.mode, eagle.run.mode) == ("base", "eagle")
    assert base.token_ids == eagle.token_ids
    assert last.race["phase"] == "done"
    assert last.race["result"]["kind"] == "identical"
    assert last.race["result"]["sentences"][0].startswith("IDENTICAL")
    assert [request.use_eagle for request in pipeline.requests] == [False, True]
    live = [update.race for update in updates[:-1] if update.race is not KEEP]
    seen = 0
    for payload in live:
        assert payload["from"] == seen
        seen += len(payload["lines"].splitlines())
    assert any("Measuring the base alone, run 1 of 2" in item["phase_text"] for item in live)


def test_the_order_is_the_visitors(races: RaceHandlers, pipeline: FakePipeline) -> None:
    updates = run_on(races, races.ask(VISITOR, message("Hello"), "ABBA", *controls(pipeline)))
    assert [request.use_eagle for request in pipeline.requests] == [False, True, True, False]
    assert len(legs_of(updates[-1].race)) == 4


def test_an_answer_of_the_chat_is_raced_after_the_same_turns(
    races: RaceHandlers, pipeline: FakePipeline
) -> None:
    conversation = (
        Turn("What is this?", (Path("/a.png"),), "A cat.", run=4),
        Turn("What colour?", (), "Grey.", "figures", run=6),
        Turn("Really?", (), "Yes.", run=7),
    )
    event = gr.EventData(None, {"run": 6})
    run_on(races, races.ask_again(VISITOR, event, conversation, "AB", *controls(pipeline)))
    texts = [item.text for item in pipeline.requests[0].messages]
    assert texts == ["What is this?", "A cat.", "What colour?"]


def test_an_answer_that_is_not_finished_cannot_be_raced(
    races: RaceHandlers, pipeline: FakePipeline
) -> None:
    event = gr.EventData(None, {"run": 9})
    update = races.ask_again(VISITOR, event, (), "AB", *controls(pipeline))
    assert "not finished" in update.notice


def test_stop_ends_the_race_and_keeps_what_there_is(
    races: RaceHandlers, pipeline: FakePipeline
) -> None:
    pipeline.accepted, pipeline.step_seconds = [1] * 500, 0.01
    first = races.ask(VISITOR, message("Hello"), "AB", *controls(pipeline))
    last = run_on(races, first, stop_at="running")[-1]
    assert last.race["phase"] == "stopped"
    assert last.race["result"] is None
    assert legs_of(last.race)[0]


def test_a_second_race_must_wait_for_the_first(races: RaceHandlers, pipeline: FakePipeline) -> None:
    pipeline.accepted, pipeline.step_seconds = [1] * 500, 0.01
    races.ask(VISITOR, message("Hello"), "AB", *controls(pipeline))
    update = races.ask(VISITOR, message("Again"), "AB", *controls(pipeline))
    assert "stop it first" in update.notice
    races.leave(VISITOR)


def test_a_refusal_is_a_sentence_and_the_question_stays(
    races: RaceHandlers, pipeline: FakePipeline
) -> None:
    pipeline.error = ImagesNotSupported("No pictures here.")
    first, *_, last = run_on(races, races.ask(VISITOR, message("Hi"), "AB", *controls(pipeline)))
    assert "No pictures here." in last.notice
    assert first.composer["value"] == message("Hi")
    assert "value" not in last.composer
    assert last.race["phase"] == "failed"


def test_a_killed_engine_names_what_to_lower(races: RaceHandlers, pipeline: FakePipeline) -> None:
    pipeline.error = EngineLost("The engine's process ended, perhaps for want of memory.")
    last = run_on(races, races.ask(VISITOR, message("Hi"), "AB", *controls(pipeline)))[-1]
    assert "perhaps for want of memory. To need less, lower" in last.notice


def test_without_a_draft_there_is_nothing_to_race() -> None:
    pipeline = FakePipeline(info=replace(INFO, draft_name=None))
    with EngineThread(pipeline) as engine:
        update = RaceHandlers(engine).ask(VISITOR, message("Hi"), "AB", *controls(pipeline))
    assert "no draft is loaded" in update.notice


def test_a_draft_that_does_not_fit_is_the_reason_for_no_race() -> None:
    info = replace(INFO, draft_name=None, draft_problem="It was made for another base.")
    pipeline = FakePipeline(info=info)
    with EngineThread(pipeline) as engine:
        update = RaceHandlers(engine).ask(VISITOR, message("Hi"), "AB", *controls(pipeline))
    assert "EAGLE-3 is off: It was made for another base." in update.notice


def test_a_race_tells_the_pace_of_the_base_alone(
    races: RaceHandlers, pipeline: FakePipeline, engine: EngineThread
) -> None:
    pipeline.step_seconds = 0.01
    assert engine.base_step_seconds is None
    run_on(races, races.ask(VISITOR, message("Hello"), "AB", *controls(pipeline)))
    assert engine.base_step_seconds is not None
    assert engine.base_step_seconds >= 0.01


def test_a_race_of_one_token_leaves_the_pace_that_is_known(
    races: RaceHandlers, pipeline: FakePipeline, engine: EngineThread
) -> None:
    """It was overwritten with None, and the panel's line about speed was gone."""
    pipeline.accepted, engine.base_step_seconds = (), 0.02
    last = run_on(races, races.ask(VISITOR, message("Hello"), "AB", *controls(pipeline)))[-1]
    assert last.race["phase"] == "done"
    assert engine.base_step_seconds == 0.02
