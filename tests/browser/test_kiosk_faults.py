"""The kiosk over scripted answers: what is refused, what breaks, who waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, Server
from tests.browser.kiosk_actions import (
    PIN,
    SENTENCE,
    ask_own,
    choose_card,
    choose_file,
    expect_state,
    leave,
    press,
    touch,
    words,
)
from tests.browser.kiosk_servers import kiosk_arguments


def test_a_camera_that_is_refused_is_a_sentence(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk)
    page.evaluate("() => { navigator.mediaDevices.getUserMedia = () => Promise.reject(1); }")
    touch(page)
    press(page, "Take a photo")
    expect(page.locator(SENTENCE)).to_contain_text("The camera cannot be used here")
    expect_state(page, "start")
    expect(page.locator("#start")).to_be_visible()


def test_a_file_that_is_no_picture_is_a_sentence(
    open_kiosk: OpenPage, kiosk: str, tmp_path: Path
) -> None:
    page = open_kiosk(kiosk)
    touch(page)
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    choose_file(page, broken)
    expect(page.locator(SENTENCE)).to_contain_text("not a picture that can be read")
    expect_state(page, "start")
    large = tmp_path / "large.png"
    large.write_bytes(b"x" * (20 * 2**20 + 1))
    choose_file(page, large)
    expect(page.locator(SENTENCE)).to_contain_text("larger than 20 MB")


def test_a_refused_question_lets_the_visitor_choose_again(
    open_kiosk: OpenPage, kiosk: str, picture: Path
) -> None:
    page = open_kiosk(kiosk)
    touch(page)
    ask_own(page, picture, "Refuse this")
    expect(page.locator(SENTENCE)).to_have_text("notes.png is not a picture.")
    expect_state(page, "start")
    choose_card(page)
    expect_state(page, "read")


def test_a_fault_returns_to_attract_with_a_sentence(
    open_kiosk: OpenPage, kiosk: str, picture: Path
) -> None:
    page = open_kiosk(kiosk)
    touch(page)
    ask_own(page, picture, "Break down")
    expect_state(page, "attract")
    expect(page.get_by_role("alert")).to_contain_text("Something went wrong while answering.")
    assert "device lost" not in page.content()
    touch(page)
    expect(page.locator(SENTENCE)).to_be_hidden()


def test_a_fault_of_the_script_ends_the_visit(browser: Any, kiosk: str) -> None:
    """No `open_kiosk` here: it would take the error for a failure."""
    page = browser.new_page()
    page.goto(kiosk)
    page.wait_for_selector("#attract[data-replay]")
    touch(page)
    page.evaluate("setTimeout(() => { throw new Error('a fault') })")
    expect_state(page, "attract")
    expect(page.get_by_role("alert")).to_contain_text("your visit has ended")
    page.close()


def test_a_hostile_answer_runs_nothing_and_fetches_nothing(
    open_kiosk: OpenPage, kiosk: str, picture: Path
) -> None:
    page = open_kiosk(kiosk)
    touch(page)
    ask_own(page, picture, "Hostile <img src=x onerror='window.hacked=1'>")
    expect_state(page, "read")
    expect(words(page)).to_contain_text("<script>window.hacked = 1</script>")
    assert page.evaluate("window.hacked") is None
    expect(page.locator("#answer .ee-tokens :is(img, script, a, b, style)")).to_have_count(0)
    expect(page.locator("#answer a, #attract a, #race a, a")).to_have_count(0)


def test_the_browser_itself_refuses_strings_as_html(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk)
    refused = page.evaluate(
        "() => { try { document.body.innerHTML = '<b>'; } catch (error) { return error.name; } }"
    )
    assert refused == "TypeError"


def test_two_kiosks_are_answered_one_after_the_other_and_never_mixed(
    open_kiosk: OpenPage, kiosk: str, picture: Path
) -> None:
    first, second = open_kiosk(kiosk), open_kiosk(kiosk)
    touch(first)
    ask_own(first, picture, "Long answer for the first")
    expect(first.locator("#answer .ee-bar").nth(3)).to_be_attached()
    touch(second)
    choose_card(second, 1)
    expect(second.locator(".k-waiting-for")).to_have_text(
        "The other screen is being answered. You are next."
    )
    press(first, "Stop")
    expect_state(second, "read")
    expect(second.locator("#answer h1")).to_have_text("What is in picture 1?")
    assert "for the first" not in second.content()
    leave(second)
    expect_state(first, "read")
    expect(first.locator("#answer h1")).to_have_text("Long answer for the first")
    press(first, "Another picture")
    choose_card(first)
    expect_state(first, "read")


def test_the_server_is_lost_and_comes_back(
    open_kiosk: OpenPage, examples: Path, picture: Path
) -> None:
    server = Server(kiosk_arguments(examples))
    url = server.url
    page, idle = open_kiosk(url), open_kiosk(url)
    touch(page)
    ask_own(page, picture, "Long answer")
    expect(page.locator("#answer .ee-bar").nth(3)).to_be_attached()
    server.process.kill()
    server.stop()
    expect_state(page, "attract", 15_000)
    expect(page.locator(SENTENCE)).to_contain_text("your visit has ended")
    for screen in (page, idle):
        expect(screen.locator(".k-sign")).to_have_text("Reconnecting", timeout=15_000)
        number = screen.locator("#attract").get_attribute("data-replay")
        expect(screen.locator("#attract")).not_to_have_attribute("data-replay", str(number))
        expect(screen.locator("#attract img")).not_to_have_js_property("naturalWidth", 0)
    page.get_by_role("button", name="Touch to try").click()
    expect(page.locator(SENTENCE)).to_contain_text("try again in a moment")
    expect_state(page, "attract")
    server = Server(kiosk_arguments(examples, "--port", url.rsplit(":", 1)[1]))
    for screen in (page, idle):
        expect(screen.locator(".k-sign")).to_be_empty(timeout=15_000)
    touch(page)
    choose_card(page)
    expect_state(page, "read")
    leave(page)
    for screen in (page, idle):
        screen.close()
    server.stop()


def test_a_restart_ends_the_visits_of_all_screens(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk)
    touch(page)
    assert page.request.post(f"{kiosk}/kiosk/staff/restart", data={"pin": PIN}).ok
    expect_state(page, "attract", 15_000)
    expect(page.locator(SENTENCE)).to_contain_text("your visit has ended")
