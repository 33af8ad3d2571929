"""The kiosk over scripted answers: every state, every way from one to another, every end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, OpenPage, Server
from tests.browser.kiosk_actions import (
    PIN,
    SENTENCE,
    ask_own,
    choose_card,
    choose_file,
    expect_state,
    figures,
    leave,
    nameless,
    poor_contrast,
    press,
    scrolls_sideways,
    small_targets,
    stored,
    touch,
    type_question,
    wait_until_nobody_is_here,
    words,
)

PORTRAIT = {"width": 1080, "height": 1920}
SCRIPT = ["-m", "tests.browser.scripted_server", "--kiosk", "--kiosk-free-text"]
LIMITS = ["--kiosk-visits-per-minute", "1000", "--kiosk-questions-per-minute", "100"]
ATTRACT_SECONDS = 2
STAY = "I\N{RIGHT SINGLE QUOTATION MARK}m still here"


def kiosk_arguments(examples: Path, *more: str) -> list[str]:
    shown = ["--kiosk-attract-seconds", str(ATTRACT_SECONDS), "--kiosk-pin", PIN]
    return [*SCRIPT, "--examples", str(examples), *shown, *LIMITS, *more]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server may write: its cache folder and the temporary files."""
    return tmp_path_factory.mktemp("kiosk")


@pytest.fixture(scope="module")
def kiosk(examples: Path, home: Path) -> Iterator[str]:
    environment = {"EAGLEEYE_HOME": str(home), "TMPDIR": str(home)}
    server = Server(kiosk_arguments(examples), environment)
    yield server.url
    server.stop()


@pytest.fixture(scope="module")
def impatient_kiosk(examples: Path) -> Iterator[str]:
    """Warns after one and a half seconds, wipes a second and a half later."""
    times = ["--kiosk-idle-seconds", "1.5", "--kiosk-warning-seconds", "1.5"]
    server = Server(kiosk_arguments(examples, *times))
    yield server.url
    server.stop()


def test_attract_replays_recordings_and_decodes_nothing(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk)
    before = figures(page.request, kiosk)
    expect(page.locator("#attract .k-question")).not_to_be_empty()
    expect(page.locator("#attract .ee-step").first).to_be_visible()
    expect(page.locator("#attract")).to_have_class("k-over", timeout=1000 * ATTRACT_SECONDS)
    expect(page.locator("#attract .k-outcome")).to_contain_text("IDENTICAL")
    expect(page.locator("#attract")).to_have_attribute("data-replay", "1")
    expect(page.locator("#attract img")).to_have_js_property("naturalWidth", 224)
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
    open_kiosk: OpenPage, kiosk: str, home: Path, picture: Path
) -> None:
    page = open_kiosk(kiosk)
    files = {path for path in home.rglob("*") if path.is_file()}
    empty = stored(page)
    touch(page)
    ask_own(page, picture, "My secret question")
    expect_state(page, "read")
    expect(page.get_by_role("heading", name="My secret question")).to_be_visible()
    own = page.locator("#answer img").get_attribute("src")
    assert own is not None
    assert own.startswith("blob:")
    assert {path for path in home.rglob("*") if path.is_file()} == files
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
    assert {path for path in home.rglob("*") if path.is_file()} == files
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
        expect(screen.locator("#attract img")).to_have_js_property("naturalWidth", 224)
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


def open_staff(page: Page) -> None:
    """A long press in the corner, then the PIN on the pad."""
    corner = page.locator(".k-corner").bounding_box()
    assert corner is not None
    page.mouse.move(corner["x"] + 20, corner["y"] + 20)
    page.mouse.down()
    page.wait_for_timeout(1700)
    page.mouse.up()
    dialog = page.get_by_role("dialog", name="Staff")
    for digit in PIN:
        dialog.get_by_role("button", name=digit, exact=True).click()
    press(page, "OK")


def test_staff_open_the_panel_by_a_long_press_and_the_pin(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk)
    page.locator(".k-corner").click()
    expect(page.get_by_role("dialog", name="Staff")).to_be_hidden()
    expect_state(page, "attract")
    open_staff(page)
    expect(page.locator(".k-staff-figures")).to_contain_text("Tokens per step, mean")
    expect(page.locator(".k-staff-figures")).to_contain_text("Engineready")
    expect_state(page, "attract")
    press(page, "Restart the engine")
    expect(page.locator(".k-staff-note")).to_have_text("The engine is loaded anew.")
    press(page, "Close")
    open_staff(page)  # the PIN was forgotten with the panel
    expect(page.locator(".k-staff-figures")).to_be_visible()


def test_staff_by_keyboard_and_a_wrong_pin(open_kiosk: OpenPage, examples: Path) -> None:
    server = Server(kiosk_arguments(examples))
    page = open_kiosk(server.url)
    page.locator(".k-corner").focus()
    for number in range(5):
        if number == 0:
            page.keyboard.press("Enter")
        page.keyboard.type("0000")
        page.keyboard.press("Enter")
        expected = "That is not the PIN." if number < 4 else "Too many wrong PINs."
        expect(page.locator(".k-staff-note")).to_contain_text(expected)
    page.keyboard.type(PIN)
    page.keyboard.press("Enter")
    expect(page.locator(".k-staff-note")).to_contain_text("Try again in")
    expect(page.locator(".k-staff-figures")).to_be_hidden()
    page.close()
    server.stop()


def test_a_whole_visit_by_keyboard(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk)
    page.get_by_role("button", name="Touch to try").focus()
    page.keyboard.press("Enter")
    expect_state(page, "start")
    expect(page.get_by_role("heading", name="Pick a picture")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".k-card").first).to_be_focused()
    page.keyboard.press("Enter")
    expect_state(page, "read")
    expect(page.get_by_role("button", name="Race it")).to_be_focused()
    page.keyboard.press("Enter")
    expect_state(page, "busy")
    expect_state(page, "read")
    expect(page.locator(".k-verdict")).to_contain_text("IDENTICAL")
    page.locator("#race .k-done").focus()
    page.keyboard.press("Enter")
    expect_state(page, "attract")


def test_the_end_of_an_answer_is_said_once(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk)
    page.evaluate(
        """() => {
            window.said = [];
            const listen = (region) => new MutationObserver(
                () => region.textContent && window.said.push(region.textContent)
            ).observe(region, { childList: true, characterData: true, subtree: true });
            document.querySelectorAll("[role=status], [role=alert], [aria-live]").forEach(listen);
        }"""
    )
    touch(page)
    choose_card(page)
    expect_state(page, "read")
    said = page.evaluate("window.said")
    assert len(said) == 1, said
    assert said[0].startswith("Answer ready: 65 tokens in ")


@pytest.mark.parametrize("viewport", [NARROW, PORTRAIT], ids=["390", "1080x1920"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_state_fits_the_screen_the_thumb_the_reader_and_the_eye(
    open_kiosk: OpenPage, kiosk: str, picture: Path, viewport: dict[str, int], scheme: str
) -> None:
    page = open_kiosk(kiosk, viewport, color_scheme=scheme, permissions=["camera"])
    is_dark = page.evaluate("document.documentElement.classList.contains('dark')")
    assert is_dark == (scheme == "dark")

    def check() -> None:
        assert not scrolls_sideways(page)
        assert small_targets(page) == []
        assert nameless(page) == []
        assert poor_contrast(page) == []

    check()
    touch(page)
    check()
    press(page, "Take a photo")
    check()
    press(page, "Back")
    choose_file(page, picture)
    expect(page.locator("#ask")).to_be_visible()
    check()
    type_question(page, "Whatisthisverylongwordwithoutanyspaceinitthatcouldpushthingsasidealot?")
    expect_state(page, "read")
    check()
    press(page, "Race it")
    expect_state(page, "read")
    check()
    page.evaluate("document.getElementById('warn').showModal()")
    check()
    page.evaluate("document.getElementById('warn').close()")
    open_staff(page)
    expect(page.locator(".k-staff-figures")).to_be_visible()
    check()


def test_with_reduced_motion_nothing_plays_by_itself(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk, reduced_motion="reduce")
    expect(page.locator("#attract")).to_have_class("k-over")
    assert page.evaluate("document.getAnimations().length") == 0
    touch(page)
    choose_card(page)
    expect_state(page, "read")
    press(page, "Race it")
    expect_state(page, "read")
    expect(page.locator("#race .ee-lane[data-over]")).to_have_count(2)
    expect(page.locator(".ee-play")).to_have_text("Play")


def test_beside_the_page_it_is_at_its_own_address(
    open_kiosk: OpenPage, scripted_server: str
) -> None:
    page = open_kiosk(f"{scripted_server}/?kiosk=1")
    expect(page.locator(".k-corner")).to_be_hidden()  # no PIN, no staff
    touch(page)
    choose_card(page)
    expect_state(page, "read")
    leave(page)
    assert "gradio" in page.request.get(scripted_server).text()


def test_alone_it_has_no_page_and_no_upload_behind_it(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk)
    for path in ("/gradio_api/info", "/config", "/gradio_api/upload", "/kiosk/files/../kiosk.py"):
        assert page.request.get(f"{kiosk}{path}").status == 404
    assert "gradio" not in page.content()


def test_a_text_only_base_offers_questions(open_kiosk: OpenPage, examples: Path) -> None:
    server = Server(kiosk_arguments(examples, "--text-only"))
    page = open_kiosk(server.url)
    touch(page)
    expect(page.get_by_role("heading", name="Pick a question")).to_be_visible()
    expect(page.locator(".k-own button:visible")).to_have_count(0)
    type_question(page, "Why?")
    expect_state(page, "read")
    expect(page.locator(".k-race")).to_be_hidden()  # no draft, nothing to race
    expect(page.get_by_role("button", name="Another picture")).to_be_hidden()
    press(page, "Another question")
    choose_card(page)
    expect_state(page, "read")
    page.close()
    server.stop()


def test_without_files_there_is_no_way_to_the_machines_folders(
    open_kiosk: OpenPage, examples: Path
) -> None:
    server = Server(kiosk_arguments(examples, "--kiosk-no-upload"))
    page = open_kiosk(server.url)
    touch(page)
    expect(page.get_by_role("button", name="Choose a picture")).to_be_hidden()
    page.close()
    server.stop()


def test_a_large_photograph_passes(open_kiosk: OpenPage, kiosk: str, tmp_path: Path) -> None:
    page = open_kiosk(kiosk)
    path = tmp_path / "large.jpg"
    Image.effect_noise((4000, 3000), 90).save(path, quality=95)
    assert path.stat().st_size > 5 * 2**20
    touch(page)
    choose_file(page, path)
    press(page, "What can you see?")
    expect_state(page, "read")
