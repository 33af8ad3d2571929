"""What a visitor does, and the updates of the page that follow. No browser, no models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
import torch

from tests.vlm.ui.fakes import INFO, FakePipeline
from visual_encoder.errors import ImageRefused
from vlm.trace import assemble, from_line
from vlm.ui.answers import KEEP, PageUpdate
from vlm.ui.controls import Controls
from vlm.ui.conversation import Turn
from vlm.ui.engine_thread import EngineThread
from vlm.ui.examples import Example
from vlm.ui.handlers import Handlers
from vlm.ui.watching import UPDATES_PER_SECOND

EXAMPLE = Example(Path("/examples/cat.png"), "What is this?")
VISITOR = gr.Request(session_hash="visitor")
OTHER = gr.Request(session_hash="other")


@pytest.fixture
def handlers(engine: EngineThread) -> Handlers:
    return Handlers(engine, (EXAMPLE,))


def controls(pipeline: FakePipeline, **changes: Any) -> tuple[Any, ...]:
    defaults = Controls.from_settings(pipeline.settings, has_draft=True)
    return replace(defaults, **changes).values()


def message(text: str, *files: str) -> dict[str, Any]:
    return {"text": text, "files": list(files)}


async def follow(
    handlers: Handlers, first: PageUpdate, visitor: gr.Request = VISITOR
) -> AsyncGenerator[PageUpdate, None]:
    """All updates of an answer, chained as `blocks.wire` chains them."""
    yield first
    async with aclosing(handlers.watch(visitor)) as updates:
        async for update in updates:
            yield PageUpdate(chat=update.chat, panel=update.panel)
    yield handlers.conclude(visitor)


def collect(handlers: Handlers, first: PageUpdate) -> list[PageUpdate]:
    async def all_of_them() -> list[PageUpdate]:
        return [update async for update in follow(handlers, first)]

    return asyncio.run(all_of_them())


def wait_until_idle(engine: EngineThread) -> bool:
    deadline = time.monotonic() + 2
    while not engine.is_idle and time.monotonic() < deadline:
        time.sleep(0.01)
    return engine.is_idle


def shown(update: PageUpdate) -> str:
    return str(update.chat)


def test_an_answer_streams_and_ends_with_its_figures(
    handlers: Handlers, pipeline: FakePipeline
) -> None:
    pipeline.step_seconds = 0.06
    updates = collect(handlers, handlers.ask(VISITOR, message("Hello"), (), *controls(pipeline)))
    first, *between, last = updates
    assert first.composer["stop_btn"]
    assert first.composer["value"] == {"text": "", "files": []}
    assert "Hello" in shown(first)
    assert sum(update.chat is not KEEP for update in between) > 1
    assert last.composer["submit_btn"]
    assert "value" not in last.composer  # what was typed meanwhile stays
    (turn,) = last.conversation
    assert turn.question == "Hello"
    assert turn.answer
    assert turn.figures.endswith("EAGLE-3")
    assert all(update.conversation is KEEP for update in updates[:-1])


def test_the_panel_gets_every_step_once_and_all_of_them_at_the_end(
    handlers: Handlers, pipeline: FakePipeline
) -> None:
    pipeline.accepted = [1, 2, 3] * 4
    pipeline.step_seconds = 0.02
    updates = collect(handlers, handlers.ask(VISITOR, message("Hello"), (), *controls(pipeline)))
    *live, last = [update.panel for update in updates if update.panel is not KEEP]
    seen: list[str] = []
    for payload in live:
        assert payload["from"] == len(seen)
        seen += payload["lines"].splitlines()
    everything = last["lines"].splitlines()
    assert last["from"] == 0
    assert everything[: len(seen)] == seen
    trace = assemble(map(from_line, everything))
    assert [step.num_accepted for step in trace.steps] == [0, *pipeline.accepted]
    assert trace.end.text == updates[-1].conversation[0].answer
    assert len({payload["run"] for payload in [*live, last]}) == 1


def test_updates_are_no_more_frequent_than_the_cap(
    handlers: Handlers, pipeline: FakePipeline
) -> None:
    pipeline.accepted = [1] * 200
    pipeline.step_seconds = 0.002
    started = time.monotonic()
    updates = collect(handlers, handlers.ask(VISITOR, message("Hello"), (), *controls(pipeline)))
    seconds = time.monotonic() - started
    assert len(updates) <= 2 + seconds * UPDATES_PER_SECOND


def test_the_history_is_sent_again_with_its_pictures(
    handlers: Handlers, pipeline: FakePipeline
) -> None:
    before = (Turn("What is this?", (Path("/a.png"),), "A cat."),)
    collect(
        handlers, handlers.ask(VISITOR, message("And this?", "/b.png"), before, *controls(pipeline))
    )
    (request,) = pipeline.requests
    assert [item.images for item in request.messages] == [
        (Path("/a.png"),),
        (),
        (Path("/b.png"),),
    ]


def test_an_example_card_asks_its_question_with_its_picture(
    handlers: Handlers, pipeline: FakePipeline
) -> None:
    event = gr.EventData(None, {"example": 0})
    updates = collect(handlers, handlers.ask_example(VISITOR, event, (), *controls(pipeline)))
    assert updates[-1].conversation[0].images == (EXAMPLE.image,)
    assert pipeline.requests[0].messages[0].text == EXAMPLE.question


def test_regenerating_replaces_the_last_answer_only(
    handlers: Handlers, pipeline: FakePipeline
) -> None:
    before = (Turn("a", (), "first"), Turn("b", (Path("/b.png"),), "second", "figures"))
    values = controls(pipeline, use_eagle=False, seed=5)
    last = collect(handlers, handlers.regenerate(VISITOR, before, *values))[-1]
    assert last.conversation[0] == before[0]
    assert last.conversation[1].answer not in ("", "second")
    assert last.conversation[1].figures.endswith("base alone")
    assert pipeline.requests[0].sampling.seed == 5
    assert [item.text for item in pipeline.requests[0].messages] == ["a", "first", "b"]


@pytest.mark.parametrize(
    ("text", "changes", "sentence"),
    [
        ("  ", {}, "Type a question"),
        ("Hello", {"top_p": 0.0}, "--top-p"),
        ("Hello", {"min_image_tokens": 5000}, "--min-image-tokens"),
    ],
)
def test_what_cannot_work_is_one_sentence_and_the_input_stays(
    handlers: Handlers, pipeline: FakePipeline, text: str, changes: dict[str, Any], sentence: str
) -> None:
    update = handlers.ask(VISITOR, message(text, "/a.png"), (), *controls(pipeline, **changes))
    assert sentence in update.notice
    assert update.composer is KEEP
    assert update.chat is KEEP
    assert pipeline.requests == []


def test_a_text_only_base_refuses_pictures_and_says_why() -> None:
    pipeline = FakePipeline(info=replace(INFO, no_images_reason="The base only reads text."))
    with EngineThread(pipeline) as engine:
        handlers = Handlers(engine, ())
        update = handlers.ask(VISITOR, message("Hello", "/a.png"), (), *controls(pipeline))
    assert "The base only reads text." in update.notice


def test_a_refused_picture_gives_the_question_back(
    handlers: Handlers, pipeline: FakePipeline
) -> None:
    pipeline.error = ImageRefused("notes.png is not a picture.")
    before = (Turn("a", (), "b"),)
    asked = handlers.ask(VISITOR, message("What?", "/notes.png"), before, *controls(pipeline))
    last = collect(handlers, asked)[-1]
    assert "notes.png is not a picture." in last.notice
    assert last.composer["value"] == message("What?", "/notes.png")
    assert last.composer["submit_btn"]
    assert last.conversation is KEEP
    assert "What?" not in shown(last)


def test_a_refused_regeneration_keeps_the_old_answer(
    handlers: Handlers, pipeline: FakePipeline
) -> None:
    pipeline.error = ImageRefused("Too large.")
    before = (Turn("a", (), "old answer"),)
    last = collect(handlers, handlers.regenerate(VISITOR, before, *controls(pipeline)))[-1]
    assert "old answer" in shown(last)
    assert last.conversation is KEEP


def test_an_error_midway_becomes_a_message_and_the_conversation_goes_on(
    handlers: Handlers, pipeline: FakePipeline
) -> None:
    pipeline.error, pipeline.error_at = RuntimeError("device lost"), 2
    before = (Turn("a", (), "b"),)
    last = collect(handlers, handlers.ask(VISITOR, message("c"), before, *controls(pipeline)))[-1]
    turn = last.conversation[-1]
    assert "device lost" in turn.problem
    assert turn.answer  # what was there before the error
    assert last.panel["phase"] == "failed"
    assert last.composer["submit_btn"]
    pipeline.error = None
    after = collect(
        handlers, handlers.ask(VISITOR, message("d"), last.conversation, *controls(pipeline))
    )
    assert after[-1].conversation[-1].problem == ""


def test_stop_ends_the_answer_and_keeps_what_there_is(
    handlers: Handlers, pipeline: FakePipeline, engine: EngineThread
) -> None:
    pipeline.accepted = [1] * 1000
    pipeline.step_seconds = 0.02

    async def ask_and_stop() -> tuple[PageUpdate, float]:
        asked = handlers.ask(VISITOR, message("Hello"), (), *controls(pipeline))
        stopped_at = 0.0
        async for update in follow(handlers, asked):
            if not stopped_at and update.panel is not KEEP and '"step"' in update.panel["lines"]:
                handlers.stop(OTHER)  # another visitor's Stop does nothing
                assert not engine.is_idle
                handlers.stop(VISITOR)
                stopped_at = time.monotonic()
        return update, time.monotonic() - stopped_at

    last, seconds = asyncio.run(ask_and_stop())
    assert seconds < 0.5
    assert last.conversation[0].answer
    assert last.conversation[0].figures.endswith("stopped")
    assert last.panel["phase"] == "stopped"
    assert 0 < last.panel["lines"].count('"type":"step"') < 1000


def test_a_second_visitor_sees_that_he_waits(handlers: Handlers, pipeline: FakePipeline) -> None:
    pipeline.accepted = [1] * 20
    pipeline.step_seconds = 0.02

    async def both() -> tuple[list[PageUpdate], list[PageUpdate]]:
        async def listen(visitor: gr.Request, delay: float) -> list[PageUpdate]:
            await asyncio.sleep(delay)
            asked = handlers.ask(visitor, message("Hello"), (), *controls(pipeline))
            return [update async for update in follow(handlers, asked, visitor)]

        return tuple(await asyncio.gather(listen(VISITOR, 0), listen(OTHER, 0.1)))  # type: ignore[return-value]

    first, second = asyncio.run(both())
    assert not any("Waiting for the engine" in shown(update) for update in first)
    assert "Waiting for the engine" in shown(second[0])
    assert second[0].panel["phase"] == "waiting"
    assert second[-1].conversation[0].answer
    assert pipeline.most_running == 1


def test_a_closed_tab_frees_the_engine(
    handlers: Handlers, pipeline: FakePipeline, engine: EngineThread
) -> None:
    pipeline.accepted = [1] * 10_000
    pipeline.step_seconds = 0.01

    async def leave_midway() -> None:
        handlers.ask(VISITOR, message("Hello"), (), *controls(pipeline))
        updates = handlers.watch(VISITOR)
        await anext(updates)
        await anext(updates)
        await updates.aclose()  # what Gradio does when the tab is gone

    asyncio.run(leave_midway())
    assert wait_until_idle(engine)


def test_clearing_midway_ends_the_answer_without_a_trace(
    handlers: Handlers, pipeline: FakePipeline
) -> None:
    pipeline.accepted = [1] * 1000
    pipeline.step_seconds = 0.01

    async def clear_midway() -> list[PageUpdate]:
        updates = []
        asked = handlers.ask(VISITOR, message("Hello"), (), *controls(pipeline))
        async for update in follow(handlers, asked):
            updates.append(update)
            if len(updates) == 3:
                cleared = handlers.clear(VISITOR, True)
                assert cleared.conversation == ()
                assert cleared.chat == []
        return updates

    assert asyncio.run(clear_midway())[3:] == [PageUpdate()]  # nothing more changes


def test_leaving_before_the_first_update_frees_the_engine_too(
    handlers: Handlers, pipeline: FakePipeline, engine: EngineThread
) -> None:
    pipeline.accepted = [1] * 10_000
    pipeline.step_seconds = 0.01
    handlers.ask(VISITOR, message("Hello"), (), *controls(pipeline))
    handlers.leave(VISITOR)
    assert wait_until_idle(engine)


def test_a_question_during_an_answer_waits_in_the_composer(
    handlers: Handlers, pipeline: FakePipeline
) -> None:
    first = handlers.ask(VISITOR, message("One"), (), *controls(pipeline))
    second = handlers.ask(VISITOR, message("Two"), (), *controls(pipeline))
    assert "still being written" in second.notice
    assert second.composer is KEEP
    assert collect(handlers, first)[-1].conversation[0].question == "One"
    third = handlers.ask(VISITOR, message("Three"), (), *controls(pipeline))
    assert third.notice == ""


def test_who_waits_for_a_lost_engine_sees_what_is_loaded_again(pipeline: FakePipeline) -> None:
    line: list[str | None] = ["Loading a <base>, 16.6 GB: 30 %"]
    with EngineThread(pipeline, lambda: line[0]) as engine:
        first = Handlers(engine, ()).ask(VISITOR, message("One"), (), *controls(pipeline))
        assert "Loading the models again: Loading a &lt;base&gt;, 16.6 GB: 30 %" in shown(first)
        line[0] = None
        second = Handlers(engine, ()).ask(OTHER, message("Two"), (), *controls(pipeline))
        assert "Loading" not in shown(second)


def test_switching_eagle_updates_chip_and_panel(handlers: Handlers) -> None:
    chip, panel = handlers.show_mode(VISITOR, False)
    assert "EAGLE-3 off" in chip
    assert "EAGLE-3 is off" in panel["mode"]


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory.")])
def test_want_of_memory_names_what_to_lower(
    handlers: Handlers, pipeline: FakePipeline, error: Exception
) -> None:
    pipeline.error, pipeline.error_at = error, 2
    updates = collect(handlers, handlers.ask(VISITOR, message("Hello"), (), *controls(pipeline)))
    (turn,) = updates[-1].conversation
    assert "lower “At most, a picture”" in turn.problem
    assert turn.answer  # what there was is kept
