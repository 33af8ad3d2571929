"""The page on every screen: sizes, colours, names, motion, on each of its tabs."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.actions import add_picture, ask, bars, race, wait_for_answer
from tests.browser.conftest import NARROW, WIDE, OpenPage
from tests.browser.screens import nameless, poor_contrast, scrolls_sideways


def show(page: Page, tab: str) -> None:
    page.get_by_role("button", name=tab, exact=True).click()


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "390"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_tab_fits_the_screen_the_reader_and_the_eye(
    open_page: OpenPage,
    scripted_server: str,
    picture: Path,
    viewport: dict[str, int],
    theme: str,
) -> None:
    page = open_page(scripted_server, viewport, theme)
    found: dict[str, list[str]] = {}

    def check(where: str) -> None:
        sideways = ["scrolls sideways"] if scrolls_sideways(page) else []
        faults = [*sideways, *nameless(page), *poor_contrast(page)]
        found.update({where: faults} if faults else {})

    check("empty chat")
    add_picture(page, picture)
    expect(page.locator(".ee-encoder-size")).to_be_visible()
    check("picture in the composer")
    ask(page, "What is this?")
    wait_for_answer(page)
    page.get_by_role("button", name="Tokens", exact=True).click()
    bars(page).nth(1).click()
    check("answer by tokens")
    page.get_by_role("button", name="Steps", exact=True).click()
    check("answer by steps")
    show(page, "Settings")
    check("settings")
    page.get_by_role("button", name="Close", exact=True).click()
    ask(page, "Break")
    expect(page.locator(".ee-problem")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    check("errors")
    race(page, "Fault")
    check("race")
    show(page, "Benchmark")
    check("benchmark")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".ee-bench-now tbody tr").first).to_be_visible(timeout=20_000)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".ee-bench[data-phase=stopped]")).to_be_visible()
    check("benchmark's figures")
    show(page, "Learn")
    check("learn")
    page.evaluate("EagleEye.help.show()")
    check("keys")
    assert found == {}


def test_with_reduced_motion_nothing_plays_by_itself(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server, reduced_motion="reduce")
    ask(page, "What is this?")
    wait_for_answer(page)
    race(page, "And this?")
    expect(page.locator(".ee-lane[data-over]")).to_have_count(2)
    expect(page.locator(".ee-play")).to_have_text("Play")
    assert page.evaluate("document.getAnimations().length") == 0


def test_a_narrow_page_opens_at_its_head_ready_to_type(
    open_page: OpenPage, scripted_server: str
) -> None:
    """The composer's focus scrolled it past header and first cards."""
    page = open_page(scripted_server, NARROW)
    box, head = page.locator("#ee-composer textarea"), page.locator("#ee-brand")
    expect(box).to_be_focused()
    expect(head).to_be_in_viewport(ratio=1)
    expect(page.locator("#ee-composer")).to_be_in_viewport(ratio=1)
    page.locator("[data-example]").first.click()
    wait_for_answer(page)
    expect(box).to_be_focused()
    expect(head).to_be_in_viewport(ratio=1)


def test_no_keyboard_comes_up_on_a_touch_screen(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server, NARROW, has_touch=True, is_mobile=True)
    page.locator("[data-example]").first.tap()
    wait_for_answer(page)
    expect(page.locator("#ee-composer textarea")).not_to_be_focused()


def test_the_parts_of_compare_keep_their_distance(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server)
    show(page, "Compare")
    boxes = [
        page.locator(f"#ee-compare-{part}").bounding_box()
        for part in ("intro", "composer", "order")
    ]
    intro, composer, order = [box or {} for box in boxes]
    assert 8 <= order["y"] - composer["y"] - composer["height"] <= 24
    assert 8 <= composer["y"] - intro["y"] - intro["height"] <= 40


def test_an_empty_track_of_a_slider_is_dark_in_the_dark(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server, theme="dark")
    show(page, "Settings")
    track = page.locator("#ee-drawer input[type=range]").first.evaluate(
        "(slider) => getComputedStyle(slider).getPropertyValue('--neutral-200').trim()"
    )
    assert track == "#34312c"


def test_the_text_of_learn_is_whole_on_a_narrow_screen(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server, NARROW)
    show(page, "Learn")
    cut = "(text) => text.scrollHeight - text.clientHeight"
    assert page.locator(".ee-learn-text").evaluate(cut) == 0
