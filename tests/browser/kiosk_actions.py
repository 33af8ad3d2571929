"""What a visitor of the kiosk does and sees, and what the server says of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from playwright.sync_api import APIRequestContext, Locator, Page, expect

PIN = "2468"
SENTENCE = ".k-banner"


def expect_state(page: Page, state: str, milliseconds: float = 10_000) -> None:
    expect(page.locator("body")).to_have_attribute("data-state", state, timeout=milliseconds)


def touch(page: Page) -> None:
    """From the idle screen to the choice."""
    page.get_by_role("button", name="Touch to try").click()
    expect_state(page, "start")


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def choose_card(page: Page, number: int = 0) -> None:
    page.locator(".k-card").nth(number).click()


def choose_file(page: Page, path: Path) -> None:
    page.locator("input[type=file]").set_input_files(path)


def type_question(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Your question").fill(text)
    page.keyboard.press("Enter")


def ask_own(page: Page, picture: Path, text: str) -> None:
    """A question of one's own about a picture of one's own."""
    choose_file(page, picture)
    type_question(page, text)


def words(page: Page) -> Locator:
    return page.locator("#answer .ee-tokens")


def leave(page: Page) -> None:
    page.locator(".k-done:visible").click()
    expect_state(page, "attract")


def figures(request: APIRequestContext, url: str) -> dict[str, Any]:
    """What staff see."""
    response = request.post(f"{url}/kiosk/staff/figures", data={"pin": PIN})
    assert response.ok, response.text()
    values: dict[str, Any] = response.json()
    return values


def wait_until_nobody_is_here(page: Page, url: str) -> None:
    deadline = time.monotonic() + 5
    while figures(page.request, url)["visits_under_way"]:
        assert time.monotonic() < deadline, "a visit did not end"
        time.sleep(0.1)


def stored(page: Page) -> dict[str, Any]:
    """Everything that a browser could keep for a page."""
    kept: dict[str, Any] = page.evaluate(
        """async () => ({
            local: {...localStorage}, session: {...sessionStorage}, cookies: document.cookie,
            databases: (await indexedDB.databases()).map((one) => one.name),
            caches: await caches.keys(), history: history.length, address: location.href,
        })"""
    )
    return kept


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
