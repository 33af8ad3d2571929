"""The kiosk over scripted answers: a visit from the first touch to the wipe."""

from __future__ import annotations

import time
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.kiosk_actions import (
    ask_own,
    choose_card,
    choose_file,
    expect_state,
    figures,
    leave,
    open_staff,
    press,
    stored,
    touch,
    wait_until_nobody_is_here,
    words,
)
from tests.browser.kiosk_servers import ATTRACT_SECONDS

STAY = "I\N{RIGHT SINGLE QUOTATION MARK}m still here"


def test_attract_replays_recordings_and_decodes_nothing(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk)
    before = figures(page.request, kiosk)
    expect(page.locator("#attract .k-question")).not_to_be_empty()
    expect(page.locator("#attract .ee-step").first).to_be_visible()
    expect(page.locator("#attract")).to_have_class("k-over", timeout=1000 * ATTRACT_SECONDS)
    expect(page.locator("#attract .k-outcome")).to_contain_text("IDENTICAL")
    expect(page.locator("#attract")).to_have_attribute("data-replay", "1")
    expect(page.locator("#attract img")).not_to_have_js_property("naturalWidth", 0)
    after = figures(page.request, kiosk)
    assert [after[name] - before[name] for name in ("visitors", "answers", "races")] == [0, 0, 0]


def test_a_card_is_answered_by_tokens_with_bars_and_raced(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk)
    touch(page)
    choose_card(page)
    expect_state(page, "busy")
    expect(page.locator("#answer .ee-bar").nth(3)).to_be_attached()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect_state(page, "read")
    expect(page.locator("#answer .ee-bar")).to_have_count(21)
    expect(page.locator("#answer .ee-token-draft").first).to_be_visible()
    expect(page.locator("[data-figure=per_step]")).to_have_text("3.2")
    expect(page.locator("[data-figure=speed]")).not_to_have_text("\N{EN DASH}")
    press(page, "Race it")
    expect_state(page, "busy")
    expect(page.locator(".k-verdict")).to_have_text("First the base alone")
    expect_state(page, "read")
    expect(page.locator(".k-verdict")).to_contain_text("IDENTICAL 65/65 tokens")
    play = page.locator(".ee-play")
    expect(play).to_have_text("Pause")
    page.get_by_role("slider", name="Moment of the replay").fill("99")
    expect(page.locator("#race .ee-lane[data-over]")).to_have_count(2)
    texts = page.locator("#race .ee-tokens").all_inner_texts()
    assert texts[0] == texts[1]
    leave(page)


def test_a_race_replays_both_at_their_own_speed_on_one_clock(
    open_kiosk: OpenPage, kiosk: str
) -> None:
    page = open_kiosk(kiosk)
    touch(page)
    choose_card(page)
    expect_state(page, "read")
    press(page, "Race it")
    expect_state(page, "read")
    press(page, "1\N{MULTIPLICATION SIGN}")
    slider = page.get_by_role("slider", name="Moment of the replay")
    slider.fill(f"{float(slider.get_attribute('max') or 0) / 4:.3f}")
    counts = [
        text.split(" \N{MIDDLE DOT} ")
        for text in page.locator("#race .ee-lane-clock").all_inner_texts()
    ]
    base, eagle = (int(tokens.split()[0]) for tokens, _ in counts)
    assert eagle > 2 * base > 0
    assert counts[0][1] == counts[1][1]


def test_stop_keeps_what_there_is_and_frees_the_engine(
    open_kiosk: OpenPage, kiosk: str, picture: Path
) -> None:
    page = open_kiosk(kiosk)
    touch(page)
    ask_own(page, picture, "Long answer")
    expect(page.locator("#answer .ee-bar").nth(3)).to_be_attached()
    press(page, "Stop")
    expect_state(page, "read", 1000)
    count = page.locator("#answer .ee-bar").count()
    page.wait_for_timeout(500)
    assert 3 < page.locator("#answer .ee-bar").count() == count < 300
    expect(page.locator(".k-announcement")).to_contain_text("Answer stopped")
    press(page, "Another picture")
    choose_card(page)
    expect_state(page, "read", 3000)


def test_escape_stops_a_race_too(open_kiosk: OpenPage, kiosk: str, picture: Path) -> None:
    page = open_kiosk(kiosk)
    touch(page)
    ask_own(page, picture, "Long answer")
    expect(page.locator("#answer .ee-bar").nth(3)).to_be_attached()
    page.keyboard.press("Escape")
    expect_state(page, "read", 1000)
    press(page, "Race it")
    expect(page.locator("#race .ee-bar").nth(3)).to_be_attached()
    page.keyboard.press("Escape")
    expect_state(page, "read", 1000)
    expect(page.locator("#answer")).to_be_visible()


def test_the_idle_timer_rests_during_an_answer_and_then_warns(
    open_kiosk: OpenPage, impatient_kiosk: str, picture: Path
) -> None:
    page = open_kiosk(impatient_kiosk)
    touch(page)
    ask_own(page, picture, "Long answer")
    expect_state(page, "busy")
    page.wait_for_timeout(4000)
    expect_state(page, "busy")
    press(page, "Stop")
    expect_state(page, "read")
    expect_state(page, "warn", 2500)
    expect(page.get_by_role("dialog", name="Still there?")).to_be_visible()
    expect(page.locator(".k-countdown")).to_have_text("1")
    press(page, STAY)
    expect_state(page, "read")
    expect(words(page)).to_be_visible()
    expect_state(page, "warn", 2500)
    expect_state(page, "wipe", 2500)
    expect(page.get_by_role("heading", name="Thank you!")).to_be_visible()
    expect_state(page, "attract", 3000)


def test_a_touch_puts_the_warning_off(open_kiosk: OpenPage, impatient_kiosk: str) -> None:
    page = open_kiosk(impatient_kiosk)
    touch(page)
    for _ in range(5):
        page.wait_for_timeout(700)
        page.mouse.click(5, 500)
        expect_state(page, "start")
    expect_state(page, "warn", 2500)
    page.keyboard.press("Escape")
    expect_state(page, "start")


def test_whoever_stays_keeps_his_picture(
    open_kiosk: OpenPage, impatient_kiosk: str, picture: Path
) -> None:
    page = open_kiosk(impatient_kiosk)
    touch(page)
    choose_file(page, picture)
    expect(page.locator("#ask")).to_be_visible()
    expect_state(page, "warn", 2500)
    press(page, STAY)
    expect(page.locator("#ask img")).to_have_js_property("naturalWidth", 320)
    press(page, "What is this?")
    expect_state(page, "read")


def test_a_wipe_leaves_nothing_anywhere(
    open_kiosk: OpenPage, kiosk: str, kiosk_home: Path, picture: Path
) -> None:
    page = open_kiosk(kiosk)
    files = {path for path in kiosk_home.rglob("*") if path.is_file()}
    empty = stored(page)
    touch(page)
    ask_own(page, picture, "My secret question")
    expect_state(page, "read")
    expect(page.get_by_role("heading", name="My secret question")).to_be_visible()
    own = page.locator("#answer img").get_attribute("src")
    assert own is not None
    assert own.startswith("blob:")
    assert {path for path in kiosk_home.rglob("*") if path.is_file()} == files
    page.evaluate(
        """() => {
            localStorage.secret = sessionStorage.secret = document.cookie = "secret=1";
            indexedDB.open("secret").onsuccess = (event) => event.target.result.close();
            return caches.open("secret");
        }"""
    )
    leave(page)
    assert stored(page) == empty
    assert "secret" not in page.content()
    values = page.locator("input").evaluate_all("(all) => all.map((one) => one.value)")
    assert not any(values)
    assert page.evaluate("(url) => fetch(url).then(() => 'kept', () => 'gone')", own) == "gone"
    wait_until_nobody_is_here(page, kiosk)
    assert {path for path in kiosk_home.rglob("*") if path.is_file()} == files
    touch(page)
    assert "secret" not in page.content()
    assert stored(page) == empty


def test_what_was_typed_cannot_be_undone_back(
    open_kiosk: OpenPage, kiosk: str, picture: Path
) -> None:
    page = open_kiosk(kiosk)
    field = page.get_by_role("textbox", name="Your question")
    for text in ("my secret", ""):
        touch(page)
        choose_file(page, picture)
        field.click()
        page.keyboard.type(text)
        if text:
            leave(page)
    page.keyboard.press("Control+z")
    expect(field).to_have_value("")


def test_a_wipe_stops_the_run(open_kiosk: OpenPage, kiosk: str, picture: Path) -> None:
    page = open_kiosk(kiosk)
    touch(page)
    ask_own(page, picture, "Long answer")
    expect(page.locator("#answer .ee-bar").nth(3)).to_be_attached()
    open_staff(page)
    press(page, "End this visit")
    expect_state(page, "attract")
    touch(page)
    started = time.monotonic()
    choose_card(page)
    expect_state(page, "read")
    assert time.monotonic() - started < 3  # the long answer would have gone on for twelve seconds


def test_a_closed_screen_ends_its_visit(open_kiosk: OpenPage, kiosk: str, picture: Path) -> None:
    page, other = open_kiosk(kiosk), open_kiosk(kiosk)
    touch(page)
    ask_own(page, picture, "Long answer")
    expect(page.locator("#answer .ee-bar").nth(3)).to_be_attached()
    page.close(run_before_unload=True)
    wait_until_nobody_is_here(other, kiosk)
    touch(other)
    choose_card(other)
    expect_state(other, "read", 3000)


def test_a_reload_begins_anew(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk)
    touch(page)
    choose_card(page)
    page.reload()
    expect_state(page, "attract")
    wait_until_nobody_is_here(page, kiosk)


def test_a_photo_from_the_camera(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk, permissions=["camera"])
    touch(page)
    press(page, "Take a photo")
    expect(page.locator("video")).to_have_js_property("paused", False)
    press(page, "Back")
    assert page.evaluate("document.querySelector('video').srcObject") is None
    press(page, "Take a photo")
    expect(page.locator("video")).to_have_js_property("paused", False)
    press(page, "Take the photo")
    expect(page.get_by_role("heading", name="What do you want to know?")).to_be_visible()
    assert page.evaluate("document.querySelector('video').srcObject") is None
    press(page, "Describe the picture.")
    expect_state(page, "read")
    expect(page.locator("#answer img")).to_have_js_property("complete", True)
    leave(page)
