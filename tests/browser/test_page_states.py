"""The page over scripted answers: every state that a visitor can reach."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.actions import (
    add_picture,
    answers,
    ask,
    bars,
    figures,
    panel_figure,
    wait_for_answer,
)
from tests.browser.conftest import NARROW, OpenPage, Server, scripted
from tests.browser.scripted_server import PROBLEM

ONE_SECOND = 1000


def scroll_width(page: Page) -> int:
    width: int = page.evaluate("document.documentElement.scrollWidth")
    return width


def test_a_question_is_answered_with_bars_and_figures(
    open_page: OpenPage, scripted_server: str, picture: Path
) -> None:
    page = open_page(scripted_server)
    add_picture(page, picture)
    ask(page, "What is this?")
    expect(bars(page).nth(3)).to_be_attached()
    wait_for_answer(page)
    expect(bars(page)).to_have_count(21)
    expect(page.locator(".ee-bar").nth(4).locator(".ee-draft")).to_have_count(1)
    expect(figures(page)).to_contain_text("tokens per step")
    expect(figures(page)).to_contain_text("64 image tokens · EAGLE-3")
    expect(panel_figure(page, "pictures")).to_have_text("1920\u00d71080 → 224\u00d7224")
    expect(panel_figure(page, "per_step")).to_have_text("3.20")
    expect(panel_figure(page, "images")).to_have_text("64")
    expect(page.locator(".ee-panel [role=status]")).to_contain_text("Answer ready: 65 tokens")
    expect(page.locator("#ee-chat [data-testid=user] img")).to_be_visible()


def test_the_panel_is_never_mounted_anew(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    page.evaluate("document.querySelector('.ee-bars').dataset.mark = 'same'")
    ask(page, "First")
    wait_for_answer(page)
    ask(page, "Second")
    wait_for_answer(page, 2)
    expect(page.locator(".ee-bars[data-mark=same]")).to_have_count(1)


def test_a_card_asks_at_once(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    expect(page.locator("[data-example]")).to_have_count(3)
    page.get_by_role("button", name="What is in picture 1?").click()
    wait_for_answer(page)
    expect(page.locator("[data-example]").first).to_be_hidden()
    expect(page.locator("#ee-chat [data-testid=user] img")).to_be_visible()


def test_600_steps_all_arrive(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    ask(page, "Long answer")
    wait_for_answer(page)
    expect(bars(page)).to_have_count(601)
    page.get_by_role("button", name="Steps", exact=True).click()
    expect(page.locator(".ee-step-list li")).to_have_count(601)
    expect(page.locator(".ee-step-list li").nth(1)).to_contain_text("2 accepted")
    assert scroll_width(page) <= 1400


def test_regenerate_and_new_chat(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    ask(page, "Hello")
    wait_for_answer(page)
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_role("checkbox", name="EAGLE-3").uncheck()
    expect(page.locator("#ee-chip")).to_contain_text("EAGLE-3 off")
    expect(page.locator(".ee-mode")).to_contain_text("EAGLE-3 is off")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Retry").click()
    expect(figures(page)).to_contain_text("base alone", timeout=20_000)
    expect(figures(page)).to_have_count(1)
    expect(panel_figure(page, "per_step")).to_have_text("–")  # noqa: RUF001
    page.get_by_role("button", name="New chat").click()
    expect(page.locator("[data-example]").first).to_be_visible()
    expect(bars(page)).to_have_count(0)
    expect(figures(page)).to_have_count(0)


def test_new_chat_midway_leaves_no_trace(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    ask(page, "Long answer")
    expect(bars(page).nth(5)).to_be_attached()
    page.get_by_role("button", name="New chat").click()
    expect(page.locator("[data-example]").first).to_be_visible()
    page.wait_for_timeout(500)
    expect(bars(page)).to_have_count(0)
    ask(page, "Hello")
    wait_for_answer(page)


def test_several_turns_keep_their_figures(
    open_page: OpenPage, scripted_server: str, picture: Path
) -> None:
    page = open_page(scripted_server)
    for turn in (1, 2):
        add_picture(page, picture)
        ask(page, f"Question {turn}")
        wait_for_answer(page, turn)
    # The history goes along with its pictures, so the second answer counts both.
    expect(panel_figure(page, "images")).to_have_text("64 + 64 = 128 (1 of 2 cached)")


def test_settings_that_do_not_fit_are_one_sentence_and_keep_the_input(
    open_page: OpenPage, scripted_server: str, picture: Path
) -> None:
    page = open_page(scripted_server)
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("At least, a picture").fill("5000")
    page.get_by_role("button", name="Close", exact=True).click()
    add_picture(page, picture)
    ask(page, "What is this?")
    expect(page.get_by_role("alert")).to_contain_text("--min-image-tokens")
    expect(page.get_by_role("textbox", name="Your question")).to_have_value("What is this?")
    expect(page.locator("#ee-composer .thumbnail-item")).to_be_visible()


def test_a_refused_picture_gives_the_question_back(
    open_page: OpenPage, scripted_server: str, picture: Path
) -> None:
    page = open_page(scripted_server)
    ask(page, "Hello")
    wait_for_answer(page)
    add_picture(page, picture)
    ask(page, "Refuse this")
    expect(page.get_by_role("alert")).to_have_text("notes.png is not a picture.")
    expect(page.get_by_role("textbox", name="Your question")).to_have_value("Refuse this")
    expect(page.locator("#ee-composer .thumbnail-item")).to_be_visible()
    expect(figures(page)).to_have_count(1)


def test_a_full_context_names_what_to_do_on_the_page(
    open_page: OpenPage, scripted_server: str, picture: Path
) -> None:
    page = open_page(scripted_server)
    ask(page, "Hello")
    wait_for_answer(page)
    add_picture(page, picture)
    ask(page, "Full")
    expect(page.get_by_role("alert")).to_have_text(
        "The prompt has 4100 tokens, but at most 4096 fit. On this page: press “New chat”, or "
        "lower “At most, a picture” in the settings."
    )
    expect(page.get_by_role("textbox", name="Your question")).to_have_value("Full")
    expect(page.locator("#ee-composer .thumbnail-item")).to_be_visible()
    expect(figures(page)).to_have_count(1)
    # What the sentence names is there.
    page.get_by_role("button", name="Settings", exact=True).click()
    expect(page.get_by_role("spinbutton", name="At most, a picture")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(figures(page)).to_have_count(0)


def test_an_error_midway_is_a_message_and_the_chat_goes_on(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server)
    ask(page, "Break")
    expect(page.locator(".ee-problem")).to_contain_text("device lost")
    ask(page, "Hello")
    wait_for_answer(page, 2)


def test_a_second_visitor_sees_that_he_waits_and_then_gets_his_answer(
    open_page: OpenPage, scripted_server: str
) -> None:
    first, second = open_page(scripted_server), open_page(scripted_server)
    ask(first, "Long answer")
    expect(bars(first).nth(2)).to_be_attached()
    ask(second, "Hello")
    expect(second.locator(".ee-waiting")).to_contain_text("Waiting for the engine: 1 before you")
    expect(second.locator(".ee-phase")).to_have_text("Waiting for the engine")
    first.get_by_role("button", name="Stop", exact=True).click()
    wait_for_answer(second)
    expect(answers(first).first).to_be_visible()


def test_a_closed_tab_frees_the_engine(open_page: OpenPage, scripted_server: str) -> None:
    first, second = open_page(scripted_server), open_page(scripted_server)
    ask(first, "Long answer")
    expect(bars(first).nth(2)).to_be_attached()
    first.close()
    started = time.monotonic()
    ask(second, "Hello")
    wait_for_answer(second)
    # The long answer would have gone on for twelve seconds.
    assert time.monotonic() - started < 6


def test_a_hostile_answer_runs_nothing_and_fetches_nothing(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server)
    ask(page, "Hostile")
    wait_for_answer(page)
    expect(answers(page).first).to_contain_text("<script>window.hacked = 1</script>")
    expect(page.locator("#ee-chat [data-testid=bot] img")).to_have_count(0)
    assert page.evaluate("window.hacked") is None
    expect(page.locator("#ee-chat a[href^=javascript]")).to_have_count(0)
    # `open_page` checks that no other host was asked for anything.


def test_the_policy_blocks_a_planted_picture(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    response = page.request.get(scripted_server)
    assert "img-src 'self' data: blob:" in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"
    blocked = page.evaluate(
        """() => new Promise((resolve) => {
            document.addEventListener("securitypolicyviolation", (e) => resolve(e.blockedURI));
            const image = new Image();
            image.src = "https://elsewhere.example/planted.png";
            document.body.append(image);
        })"""
    )
    assert blocked == "https://elsewhere.example/planted.png"


def test_nothing_is_kept_in_the_browser(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    ask(page, "My secret question")
    wait_for_answer(page)
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert "secret" not in stored


def test_a_text_only_base_takes_no_pictures_and_says_why(
    open_page: OpenPage, text_only_server: str, picture: Path
) -> None:
    page = open_page(text_only_server)
    expect(page.locator("#ee-cards")).to_contain_text("so it takes no pictures")
    expect(page.get_by_role("button", name="Add pictures")).to_have_count(0)
    expect(page.locator(".ee-mode")).to_contain_text("No EAGLE-3 draft is loaded")
    ask(page, "Hello")
    wait_for_answer(page)
    expect(figures(page)).to_contain_text("base alone")


@pytest.fixture
def refusing_server(examples: Path) -> Iterator[str]:
    yield from scripted(examples, "--models", "refused-draft")


def test_a_refused_draft_is_said_with_its_reason(open_page: OpenPage, refusing_server: str) -> None:
    """Chip and drawer said "no draft", as though none had been named."""
    page = open_page(refusing_server)
    short = page.locator("#ee-chip").get_by_text("draft refused: does not fit")
    expect(short).to_have_attribute("title", PROBLEM)
    expect(page.locator(".ee-mode")).to_have_text(f"EAGLE-3 is off: {PROBLEM}")
    page.get_by_role("button", name="Settings").click()
    expect(page.locator("#ee-drawer")).to_contain_text(f"The draft was refused. {PROBLEM}")
    expect(page.get_by_role("checkbox", name="EAGLE-3")).to_be_disabled()
    page.get_by_role("button", name="Close", exact=True).click()
    ask(page, "Hello")
    wait_for_answer(page)
    expect(short).to_be_visible()


def test_on_a_narrow_screen_the_panel_is_below_the_conversation(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server, NARROW)
    ask(page, "What is this?")
    wait_for_answer(page)
    chat, panel = page.locator("#ee-chat").bounding_box(), page.locator(".ee-panel").bounding_box()
    assert chat is not None
    assert panel is not None
    assert panel["y"] >= chat["y"] + chat["height"]


def test_question_mark_lists_the_keys(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    page.locator("#ee-panel .ee-bars").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Alt + T")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    ask(page, "Why? Because?")  # in the composer it is a question mark
    wait_for_answer(page)
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_a_lost_server_is_said_and_the_conversation_stays(
    open_page: OpenPage, examples: Path
) -> None:
    arguments = ["-m", "tests.browser.scripted_server", "--examples", str(examples)]
    server = Server(arguments)
    port = server.url.rsplit(":", 1)[1]
    page = open_page(server.url)
    ask(page, "Hello")
    wait_for_answer(page)
    server.stop()
    line = page.locator(".ee-connection")
    expect(line).to_contain_text("connection to the server is lost", timeout=10_000)
    expect(figures(page)).to_be_visible()
    again = Server([*arguments, "--port", port])
    expect(line).to_contain_text("started again", timeout=20_000)
    expect(figures(page)).to_be_visible()
    page.get_by_role("button", name="Start anew").click()
    expect(page.get_by_text("Ask about a picture", exact=True)).to_be_visible()
    expect(line).to_be_hidden()
    again.stop()
