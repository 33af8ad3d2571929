"""What the encoder sees, in a real browser over the bundled models."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.actions import add_picture, ask, bars, wait_for_answer
from tests.browser.conftest import NARROW, OpenPage

LOOK_MILLISECONDS = 30_000


def test_the_preview_keeps_its_promise(
    open_page: OpenPage, real_server: str, picture: Path
) -> None:
    """Attach, choose a limit, look closer, send: the tokens used are those shown, and the second
    time the picture costs nothing."""
    page = open_page(real_server)
    view = page.get_by_role("region", name="What the encoder sees")
    expect(view).to_be_hidden()
    add_picture(page, picture)
    size = view.locator(".ee-encoder-size")
    expect(size).to_have_text(
        "320×240 → 112×84 · grid 6×8 · 12 tokens",  # noqa: RUF001
        timeout=LOOK_MILLISECONDS,
    )
    expect(view).to_contain_text("made smaller: at most 16 a picture")
    expect(view).to_contain_text("tokens left in the context")

    view.get_by_role("button", name="64", exact=True).click()
    expect(size).to_contain_text("54 tokens", timeout=LOOK_MILLISECONDS)
    expect(view.get_by_role("button", name="64", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    slider = view.get_by_role("slider")
    slider.focus()
    slider.press("Home")
    expect(view.locator(".ee-encoder-number")).to_have_text("4")
    expect(size).to_contain_text("· 4 tokens", timeout=LOOK_MILLISECONDS)

    seen = view.locator(".ee-seen")
    seen.hover()
    expect(view.locator(".ee-loupe")).to_be_visible()
    lattice = seen.locator(".ee-lattice").first.evaluate(
        "(e) => getComputedStyle(e).backgroundSize"
    )
    assert lattice == "50% 50%, 50% 50%"

    ask(page, "What is this?")
    expect(view).to_be_hidden()
    used = page.locator(".ee-encoder-used")
    expect(used).to_have_text("✓ 4 image tokens used, as shown", timeout=LOOK_MILLISECONDS)
    page.get_by_role("button", name="Stop", exact=True).click()
    wait_for_answer(page)

    add_picture(page, picture)
    expect(view.locator(".ee-encoder-cached")).to_be_visible(timeout=LOOK_MILLISECONDS)
    ask(page, "And this?")
    expect(used).to_have_text("✓ 4 image tokens used, as shown · cached", timeout=LOOK_MILLISECONDS)
    expect(bars(page).nth(1)).to_be_attached()
    page.get_by_role("button", name="Stop", exact=True).click()
    wait_for_answer(page, 2)


def test_the_preview_fits_a_narrow_screen(
    open_page: OpenPage, scripted_server: str, picture: Path
) -> None:
    page = open_page(scripted_server, viewport=NARROW)
    add_picture(page, picture)
    view = page.get_by_role("region", name="What the encoder sees")
    expect(view.locator(".ee-encoder-size")).to_contain_text("64 tokens")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    slider = view.get_by_role("slider").bounding_box()
    assert slider is not None
    assert slider["x"] + slider["width"] <= NARROW["width"] - 14
