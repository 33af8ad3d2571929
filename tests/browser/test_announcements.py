"""What a screen reader says of its own accord, each thing once."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.actions import (
    ask,
    bars,
    begin_race,
    listen,
    said,
    wait_for_answer,
    wait_for_race,
)
from tests.browser.conftest import OpenPage

QUEUED = "Waiting for the engine: 1 before you"
LOADING = "Loading the models again: Loading tiny-base, 16.6 GB: "
LOADED_MILLISECONDS = 30_000


def two_pages_one_of_them_answering(open_page: OpenPage, server: str) -> tuple[Page, Page]:
    first, second = open_page(server), open_page(server)
    ask(first, "Long answer")
    expect(bars(first).nth(2)).to_be_attached()
    return first, second


def page_that_lost_the_engine(open_page: OpenPage, server: str) -> Page:
    page = open_page(server)
    ask(page, "Lost")
    expect(page.get_by_role("alert")).to_contain_text("The engine's process ended")
    return page


def test_the_end_of_an_answer_and_its_breaking_off(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server)
    listen(page)
    ask(page, "Hello")
    wait_for_answer(page)
    ask(page, "Break")
    expect(page.locator(".ee-problem")).to_be_visible()
    ready, broken = said(page)
    assert ready.startswith("Answer ready: 65 tokens in ")
    assert broken == (
        "The answer broke off: device lost. The conversation is kept; you can ask again."
    )


def test_a_refusal_is_an_alert_and_nothing_more(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    listen(page)
    ask(page, "Refuse this")
    expect(page.get_by_role("alert")).to_be_visible()
    assert said(page) == ["notes.png is not a picture."]


def test_the_place_in_the_queue_in_the_chat(open_page: OpenPage, scripted_server: str) -> None:
    first, second = two_pages_one_of_them_answering(open_page, scripted_server)
    listen(second)
    ask(second, "Hello")
    expect(second.locator(".ee-waiting")).to_contain_text(QUEUED)
    first.get_by_role("button", name="Stop", exact=True).click()
    wait_for_answer(second)
    waiting, ready = said(second)
    assert waiting == QUEUED
    assert ready.startswith("Answer ready")


def test_a_race_from_the_queue_to_its_result(open_page: OpenPage, scripted_server: str) -> None:
    first, second = two_pages_one_of_them_answering(open_page, scripted_server)
    listen(second)
    begin_race(second, "What is this?")
    expect(second.locator(".ee-race-phase")).to_have_text(QUEUED)
    first.get_by_role("button", name="Stop", exact=True).click()
    wait_for_race(second)
    second.wait_for_timeout(500)  # the replay plays and is silent
    *on_the_way, done = said(second)
    assert on_the_way[0] == QUEUED
    assert len(set(on_the_way)) == len(on_the_way)
    assert done.startswith("Race done: IDENTICAL 65/65 tokens, decode speedup ")


def test_a_measurement_from_the_queue_to_its_end(open_page: OpenPage, scripted_server: str) -> None:
    first, second = two_pages_one_of_them_answering(open_page, scripted_server)
    second.get_by_role("button", name="Benchmark", exact=True).click()
    listen(second)
    second.get_by_role("button", name="Run", exact=True).click()
    expect(second.locator(".ee-bench-phase")).to_have_text(QUEUED)
    first.get_by_role("button", name="Stop", exact=True).click()
    expect(second.locator(".ee-bench-phase")).to_contain_text("Race ")
    second.get_by_role("button", name="Stop", exact=True).click()
    expect(second.locator(".ee-bench[data-phase=stopped]")).to_be_visible()
    waiting, begun, ended = said(second)
    assert (waiting, begun) == (QUEUED, "The measurement has begun.")
    assert ended.startswith("Stopped; what was measured until here is kept.")


def test_loading_again_in_the_chat(open_page: OpenPage, scripted_server: str) -> None:
    page = page_that_lost_the_engine(open_page, scripted_server)
    listen(page)
    ask(page, "Hello")
    expect(page.locator(".ee-waiting")).to_contain_text(LOADING)
    expect(page.locator(".ee-phase")).to_have_text("Waiting for the engine")
    wait_for_answer(page)
    loading, ready = said(page)
    assert loading == "Loading the models again."
    assert ready.startswith("Answer ready")


def test_loading_again_before_a_race(open_page: OpenPage, scripted_server: str) -> None:
    """The page said that it read the prompt."""
    page = page_that_lost_the_engine(open_page, scripted_server)
    listen(page)
    begin_race(page, "What is this?")
    expect(page.locator(".ee-race-phase")).to_contain_text(LOADING)
    wait_for_race(page)
    assert said(page).count("Loading the models again.") == 1
    assert not any(LOADING in text for text in said(page))


@pytest.mark.parametrize("kind", ["Base against EAGLE-3", "Sweep of settings"])
def test_loading_again_before_a_measurement(
    open_page: OpenPage, scripted_server: str, kind: str
) -> None:
    page = page_that_lost_the_engine(open_page, scripted_server)
    page.get_by_role("button", name="Benchmark", exact=True).click()
    page.get_by_label(kind).check()
    listen(page)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".ee-bench-phase")).to_contain_text(LOADING)
    expect(page.locator(".ee-bench-now")).to_be_visible(timeout=LOADED_MILLISECONDS)
    loading, *others = said(page)
    assert loading == "Loading the models again."
    assert not any("Loading" in text for text in others)
