"""The keys of a replay: on the Compare page, in a saved file, in the kiosk."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.actions import ask, race, save_replay, wait_for_answer
from tests.browser.conftest import OpenPage
from tests.browser.kiosk_actions import choose_card, expect_state, press, touch


def replay_of(page: Page) -> Locator:
    return page.get_by_role("group", name="Replay of the race")


def moment(page: Page) -> float:
    return float(page.get_by_label("Moment of the replay").input_value())


def check_vertical_keys(page: Page) -> None:
    """On the slider, at 0.05 s. They moved it by a thousandth of a second, or by a tenth of all."""
    slider = page.get_by_label("Moment of the replay")
    end = float(slider.get_attribute("max") or 0)
    assert end > 0.6
    for key, at in (("ArrowUp", 0.1), ("PageUp", 0.6), ("PageDown", 0.1), ("ArrowDown", 0.05)):
        page.keyboard.press(key)
        assert moment(page) == pytest.approx(at)
        expect(slider).to_have_attribute("aria-valuetext", f"{at:.2f} of {end:.2f} seconds")


def check_keys(page: Page) -> None:
    """A replay that plays and has the focus."""
    replay, keys = replay_of(page), page.keyboard
    expect(replay).to_be_focused()
    expect(replay.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    keys.press("Space")
    expect(replay.get_by_role("button", name="Play", exact=True)).to_be_visible()
    keys.press("Home")
    assert moment(page) == 0
    keys.press("ArrowRight")
    assert moment(page) == pytest.approx(0.05)
    slider = page.get_by_label("Moment of the replay")
    slider.focus()
    keys.press("ArrowRight")
    assert moment(page) == pytest.approx(0.1)
    keys.press("ArrowLeft")
    assert moment(page) == pytest.approx(0.05)
    check_vertical_keys(page)
    keys.press("End")
    assert moment(page) == float(slider.get_attribute("max") or 0)
    keys.press("Home")
    keys.press("Space")
    expect(replay.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    # In a view of steps the arrows walk the steps, and the space bar is still the replay's.
    keys.press("Space")
    keys.press("End")
    stopped = moment(page)
    replay.locator(".ee-bars").last.focus()
    keys.press("ArrowLeft")
    assert moment(page) == stopped
    keys.press("Space")
    expect(replay.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    # On a button it presses the button, once.
    replay.get_by_role("button", name="Pause", exact=True).focus()
    keys.press("Space")
    expect(replay.get_by_role("button", name="Play", exact=True)).to_be_visible()


def test_a_replay_is_played_by_keys_and_so_is_its_saved_file(
    open_page: OpenPage, scripted_server: str, tmp_path: Path
) -> None:
    page = open_page(scripted_server)
    race(page, "What is this?")
    check_keys(page)
    saved = save_replay(page, tmp_path / "race.html")
    assert page.context.browser is not None
    alone = page.context.browser.new_page()
    alone.goto(saved.as_uri())
    expect(replay_of(alone)).not_to_be_focused()  # nobody asked for it yet
    replay_of(alone).focus()
    check_keys(alone)
    alone.close()


def test_a_replay_leaves_the_focus_to_who_types(open_page: OpenPage, scripted_server: str) -> None:
    """He went back to the chat; the race ends behind it."""
    page = open_page(scripted_server)
    ask(page, "What is this?")
    wait_for_answer(page)
    page.get_by_role("button", name="Race it").click()
    page.get_by_role("button", name="Chat", exact=True).click()
    page.get_by_role("textbox", name="Your question").click()
    expect(page.locator(".ee-race[data-phase=done]")).to_be_attached(timeout=30_000)
    expect(page.locator("#ee-composer textarea")).to_be_focused()
    page.keyboard.type("so what")
    expect(page.locator("#ee-composer textarea")).to_have_value("so what")


def test_the_replay_of_the_kiosk_has_the_same_keys(open_kiosk: OpenPage, kiosk: str) -> None:
    page = open_kiosk(kiosk)
    touch(page)
    choose_card(page)
    expect_state(page, "read")
    press(page, "Race it")
    expect_state(page, "read")
    check_keys(page)


COUNT_SEARCHES = """() => {
    const search = document.querySelectorAll;
    window.searches = 0;
    document.querySelectorAll = function (selector) {
        window.searches += 1;
        return search.call(this, selector);
    };
}"""


def test_a_replay_does_not_make_the_page_look_for_its_parts(
    open_page: OpenPage, scripted_server: str
) -> None:
    """At every frame the whole page was searched for controls without a name."""
    page = open_page(scripted_server)
    race(page, "What is this?")
    expect(page.locator("#ee-compare-composer textarea")).to_have_value("What is this?")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.evaluate(COUNT_SEARCHES)
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    expect(replay_of(page).get_by_role("button", name="Pause", exact=True)).to_be_visible()
    expect(replay_of(page).locator(".ee-bar").nth(20)).to_be_attached()
    assert page.evaluate("window.searches") == 0
