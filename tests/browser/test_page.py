"""The page as a visitor meets it: `python app.py`, the bundled models, a real browser."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.actions import (
    add_picture,
    answers,
    ask,
    bars,
    figures,
    panel_figure,
    wait_for_answer,
)
from tests.browser.conftest import OpenPage

ONE_SECOND = 1000
FIRST_TOKEN_MILLISECONDS = 30_000


def test_a_picture_is_asked_about_and_stop_stops(
    open_page: OpenPage, real_server: str, picture: Path
) -> None:
    """The answer would be 600 tokens long; it is stopped once some steps were seen."""
    page = open_page(real_server)
    add_picture(page, picture)
    ask(page, "What is in this picture?")
    expect(bars(page).nth(3)).to_be_attached(timeout=FIRST_TOKEN_MILLISECONDS)
    expect(answers(page).first).not_to_be_empty()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_visible(timeout=ONE_SECOND)
    expect(figures(page)).to_contain_text("stopped", timeout=ONE_SECOND)
    expect(figures(page)).to_contain_text("EAGLE-3")
    number = bars(page).count()
    page.wait_for_timeout(1000)
    assert bars(page).count() == number
    # 320 x 240 pixels shrunk until tokens of 28 x 28 fit into the bundled model's 16: 4 x 3.
    expect(panel_figure(page, "images")).to_have_text("12")


def test_two_visitors_are_answered_one_after_the_other(
    open_page: OpenPage, real_server: str
) -> None:
    first, second = open_page(real_server), open_page(real_server)
    ask(first, "Tell me about eagles.")
    expect(bars(first).nth(2)).to_be_attached(timeout=FIRST_TOKEN_MILLISECONDS)
    ask(second, "Tell me about rivers.")
    expect(second.locator(".ee-waiting")).to_contain_text("Waiting for the engine")
    first.get_by_role("button", name="Stop", exact=True).click()
    expect(bars(second).nth(2)).to_be_attached(timeout=FIRST_TOKEN_MILLISECONDS)
    second.get_by_role("button", name="Stop", exact=True).click()
    wait_for_answer(first)
    wait_for_answer(second)
