"""The kiosk's server: visits, answers, races, refusals, staff. No browser, no models."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.vlm.ui.fakes import INFO, FakePipeline
from tests.vlm.ui.kiosk_stand import PIN, Stand, kinds, png
from visual_encoder.errors import ImageRefused
from vlm.errors import EngineLost
from vlm.requests import ChatMessage, GenerationRequest
from vlm.ui.engine_thread import EngineThread
from vlm.ui.examples import load_examples
from vlm.ui.kiosk.kiosk import MAX_PICTURE_BYTES
from vlm.ui.kiosk.options import KioskOptions
from vlm.ui.kiosk.replays import load_replays
from vlm.ui.kiosk.runs import SORRY, Answer, RunStream
from vlm.ui.kiosk.staff import Figures

TIMEOUT = 10.0


def test_the_page_and_everything_that_it_names_is_served_with_strict_headers(stand: Stand) -> None:
    page = stand.client.get("/")
    assert "EagleEye" in page.text
    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    named = [part.split('"')[0] for part in page.text.split('="/kiosk/')[1:]]
    assert len(named) > 8
    for name in named:
        response = stand.client.get(f"/kiosk/{name}")
        assert response.status_code == 200, name
        assert response.headers["content-security-policy"] == policy
        assert response.headers["cache-control"] == "no-cache"


def test_the_page_has_no_inline_script_or_style(stand: Stand) -> None:
    page = stand.client.get("/kiosk/").text
    assert "<style" not in page
    assert "style=" not in page
    assert page.count("<script") == page.count("<script ")
    assert " on" + "click=" not in page


def test_a_screen_learns_its_cards_recordings_and_times(stand: Stand) -> None:
    config = stand.client.get("/kiosk/config").json()
    assert len(config["cards"]) == 6
    assert (config["idle_seconds"], config["warning_seconds"]) == (60, 10)
    assert config["attract_seconds"] == 12
    assert config["has_staff"]
    assert PIN not in json.dumps(config)
    for card in config["cards"]:
        assert stand.client.get(card["picture"]).headers["content-type"] == "image/png"
    assert len(config["replays"]) == 6
    for replay in config["replays"]:
        lines = stand.client.get(f"{replay}/trace").text.splitlines()
        assert [json.loads(lines[0])[name] for name in ("type", "mode")] == ["run", "base"]
        assert stand.client.get(f"{replay}/picture").status_code == 200
        assert stand.client.get(f"{replay}/other").status_code == 404


def test_an_answer_is_the_records_of_its_trace(stand: Stand) -> None:
    lines = stand.answer(stand.begin(), card=0)
    assert kinds(lines)[0] == "run"
    assert kinds(lines)[-1] == "end"
    assert kinds(lines).count("step") == 5
    assert stand.pipeline.requests[0].messages[0].images == (load_examples()[0].image,)


def test_answers_are_bounded(stand: Stand) -> None:
    stand.answer(stand.begin(), card=0)
    assert stand.pipeline.requests[0].max_new_tokens == KioskOptions().max_new_tokens
    stand.pipeline.settings = replace(stand.pipeline.settings, max_new_tokens=20)
    stand.answer(stand.begin(), card=0)
    assert stand.pipeline.requests[1].max_new_tokens == 20


def test_a_race_asks_the_last_question_both_ways(stand: Stand) -> None:
    visit = stand.begin()
    stand.answer(visit, card=2)
    lines = stand.lines(f"/kiosk/visits/{visit}/race", {})
    assert [line["mode"] for line in lines if line["type"] == "run"] == ["base", "eagle"]
    assert lines[-1]["type"] == "result"
    assert lines[-1]["identical"]
    assert lines[-1]["sentences"][0] == "IDENTICAL 14/14 tokens"
    texts = [request.messages[0].text for request in stand.pipeline.requests]
    assert texts == 3 * [load_examples()[2].question]


def test_a_race_needs_an_answer_first(stand: Stand) -> None:
    response = stand.client.post(f"/kiosk/visits/{stand.begin()}/race", json={})
    assert (response.status_code, response.json()["sentence"]) == (409, "Ask something first.")


def test_a_visitors_picture_stays_in_memory_and_goes_with_the_visit(stand: Stand) -> None:
    visit = stand.begin()
    assert stand.put(visit, png()).status_code == 204
    stand.answer(visit, question=0)
    assert stand.pipeline.requests[0].messages[0].images == (png(),)
    assert stand.client.delete(f"/kiosk/visits/{visit}").status_code == 204
    for response in (
        stand.client.post(f"/kiosk/visits/{visit}/answer", json={"question": 0}),
        stand.client.post(f"/kiosk/visits/{visit}/race", json={}),
        stand.put(visit, png()),
    ):
        assert response.status_code == 410
        assert response.json()["sentence"].startswith("Your visit has ended.")


def test_the_next_visitor_gets_nothing_of_the_last(stand: Stand) -> None:
    first, second = stand.begin(), stand.begin()
    stand.put(first, png())
    stand.answer(second, question=0)
    assert stand.pipeline.requests[0].messages[0].images == ()
    assert first != second
    assert min(len(first), len(second)) >= 20


def test_a_visit_holds_one_picture_the_last(stand: Stand) -> None:
    visit = stand.begin()
    stand.put(visit, png())
    other = io.BytesIO()
    Image.new("RGB", (9, 9)).save(other, "PNG")
    stand.put(visit, other.getvalue())
    stand.answer(visit, question=1)
    assert stand.pipeline.requests[0].messages[0].images == (other.getvalue(),)


@pytest.mark.parametrize(
    ("picture", "status", "sentence"),
    [
        (b"", 415, "empty"),
        (b"no picture at all", 415, "not a picture"),
        (b"x" * (MAX_PICTURE_BYTES + 1), 413, "larger than 20 MB"),
    ],
)
def test_what_is_no_picture_is_refused_in_a_sentence(
    stand: Stand, picture: bytes, status: int, sentence: str
) -> None:
    response = stand.put(stand.begin(), picture)
    assert response.status_code == status
    assert sentence in response.json()["sentence"]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"card": 6}, 404),
        ({"card": -1}, 404),
        ({"card": True}, 404),
        ({"question": 99}, 404),
        ({"text": "Hello"}, 400),
        ({}, 400),
    ],
)
def test_only_what_is_offered_can_be_asked(
    stand: Stand, asked: dict[str, Any], status: int
) -> None:
    response = stand.client.post(f"/kiosk/visits/{stand.begin()}/answer", json=asked)
    assert response.status_code == status
    assert response.json()["sentence"].endswith(".")
    assert stand.pipeline.requests == []


def test_free_text_is_taken_where_it_is_switched_on_and_cut(typing_stand: Stand) -> None:
    typing_stand.answer(typing_stand.begin(), text=" Why? " + "x" * 2000)
    text = typing_stand.pipeline.requests[0].messages[0].text
    assert text.startswith("Why?")
    assert len(text) == 300


def test_a_body_that_is_no_object_is_refused(stand: Stand) -> None:
    path = f"/kiosk/visits/{stand.begin()}/answer"
    assert stand.client.post(path, content=b"[1]").status_code == 400
    assert stand.client.post(path, content=b"\xff").status_code == 400
    assert stand.client.post(path, content=b" " * 20_000).status_code == 413


def test_too_many_questions_within_a_minute_are_a_sentence() -> None:
    with Stand(questions_per_minute=2) as stand:
        visit = stand.begin()
        stand.answer(visit, card=0)
        stand.answer(visit, card=1)
        response = stand.client.post(f"/kiosk/visits/{visit}/answer", json={"card": 2})
        assert response.status_code == 429
        assert "Please wait a moment" in response.json()["sentence"]


def test_too_many_visits_within_a_minute_are_a_sentence() -> None:
    with Stand(visits_per_minute=2) as stand:
        stand.begin()
        stand.begin()
        assert stand.client.post("/kiosk/visits").status_code == 429


def test_a_refused_picture_and_a_fault_are_told_apart(stand: Stand) -> None:
    stand.pipeline.error = ImageRefused("The picture is too small.")
    assert stand.answer(stand.begin(), card=0) == [
        {"type": "refused", "sentence": "The picture is too small."}
    ]
    stand.pipeline.error, stand.pipeline.error_at = RuntimeError("secret of the machine"), 2
    lines = stand.answer(stand.begin(), card=0)
    assert lines[-1] == {"type": "failed", "sentence": SORRY}
    assert "secret" not in json.dumps(lines)
    figures = stand.figures().json()
    assert figures["errors"] == 1
    assert figures["last_error"] == "RuntimeError: secret of the machine"
    stand.pipeline.error = MemoryError("no room")
    stand.answer(stand.begin(), card=0)
    assert "smaller --max-kv-cache-capacity" in stand.figures().json()["last_error"]
    assert stand.num_renewals == 0


def test_a_lost_engine_is_loaded_anew_and_all_visits_end(stand: Stand) -> None:
    stand.pipeline.error = EngineLost("gone")
    visit = stand.begin()
    assert stand.answer(visit, card=0)[-1] == {"type": "failed", "sentence": SORRY}
    assert stand.num_renewals == 1
    hello = stand.client.get("/kiosk/hello", headers={"x-visit": visit}).json()
    assert not hello["visit"]


def test_a_restart_that_fails_is_tried_again_until_it_works(stand: Stand) -> None:
    stand.pipeline.error = EngineLost("gone")
    stand.kiosk.restart()
    assert stand.kiosk._restart is not None
    stand.kiosk._restart.wait(TIMEOUT)
    stand.pipeline.error = None
    stand.client.get("/kiosk/hello")
    assert stand.num_renewals == 2
    stand.kiosk._restart.wait(TIMEOUT)
    assert stand.client.get("/kiosk/hello").json()["is_ready"]


def test_stop_ends_the_answer_with_what_there_is(stand: Stand) -> None:
    reached = threading.Event()
    opened = threading.Event()

    def hold(step: int) -> None:
        if step == 2:
            reached.set()
            assert opened.wait(TIMEOUT)

    stand.pipeline.before_step = hold
    visit = stand.begin()
    received: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: received.extend(stand.answer(visit, card=0)))
    reader.start()
    assert reached.wait(TIMEOUT)
    busy = stand.client.post(f"/kiosk/visits/{visit}/answer", json={"card": 1})
    assert busy.status_code == 409
    assert stand.client.post(f"/kiosk/visits/{visit}/stop").status_code == 204
    opened.set()
    reader.join(TIMEOUT)
    assert received[-1]["type"] == "end"
    assert received[-1]["reason"] == "cancelled"
    assert kinds(received).count("step") in (2, 3)  # the step under way may end
    stand.engine.close()
    assert stand.pipeline.num_closed_early == 1


def test_whoever_stops_reading_stops_the_run() -> None:
    pipeline = FakePipeline(accepted=(1,) * 500, step_seconds=0.01)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.2)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        pass

    with EngineThread(pipeline) as engine:
        run = engine.submit(GenerationRequest((ChatMessage("user", "Hello"),)))
        stream = RunStream(engine, run, Answer(Figures()), lambda error: None)
        asyncio.run(stream({"type": "http"}, receive, send))  # type: ignore[arg-type]
        assert run.is_cancelled
        assert run.wait(TIMEOUT)
    assert pipeline.num_closed_early == 1


def test_the_second_screen_hears_that_it_waits(stand: Stand) -> None:
    reached, opened = threading.Event(), threading.Event()

    def hold(step: int) -> None:
        if step == 1 and not opened.is_set():
            reached.set()
            assert opened.wait(TIMEOUT)

    stand.pipeline.before_step = hold
    visits = [stand.begin(), stand.begin()]
    received: dict[int, list[dict[str, Any]]] = {}

    def ask(screen: int) -> None:
        received[screen] = stand.answer(visits[screen], card=screen)

    threads = [threading.Thread(target=ask, args=(screen,)) for screen in (0, 1)]
    threads[0].start()
    assert reached.wait(TIMEOUT)
    threads[1].start()
    while stand.engine._num_submitted < 2:
        threading.Event().wait(0.01)
    threading.Event().wait(0.2)
    opened.set()
    for thread in threads:
        thread.join(TIMEOUT)
    assert received[1][0] == {"type": "queue", "ahead": 1}
    assert {line["question"] for line in received[1] if line["type"] == "run"} == {
        load_examples()[1].question
    }
    assert stand.pipeline.most_running == 1


def test_a_page_of_another_site_can_do_nothing(stand: Stand) -> None:
    response = stand.client.post("/kiosk/visits", headers={"origin": "http://elsewhere.example"})
    assert response.status_code == 403
    own = stand.client.post("/kiosk/visits", headers={"origin": "http://testserver"})
    assert own.status_code == 200


def test_a_base_without_eyes_gets_questions_instead_of_pictures() -> None:
    stand = Stand()
    stand.pipeline.info = replace(INFO, no_images_reason="A text-only model.", draft_name=None)
    with stand:
        config = stand.client.get("/kiosk/config").json()
        assert not config["takes_pictures"]
        assert not config["takes_files"]
        assert not config["can_race"]
        assert all("picture" not in card for card in config["cards"])
        stand.answer(stand.begin(), card=0)
        assert stand.pipeline.requests[0].messages[0].images == ()
        assert not stand.pipeline.requests[0].use_eagle


def test_recordings_are_there_for_every_example() -> None:
    replays = load_replays()
    assert [replay.picture for replay in replays] == [item.image for item in load_examples()]
    assert load_replays(Path("nowhere")) == ()
