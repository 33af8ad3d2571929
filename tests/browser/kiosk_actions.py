"""What a visitor of the kiosk does and sees, and what the server says of it."""

from __future__ import annotations

import re
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


def small_targets(page: Page) -> list[str]:
    """Controls in sight that are smaller than a thumb."""
    found = []
    for button in page.locator("button:visible, input:visible").all():
        box = button.bounding_box()
        if box and (box["height"] < 48 or box["width"] < 48):
            found.append(f"{button.evaluate('(one) => one.className || one.type')}: {box}")
    return found


def nameless(page: Page) -> list[str]:
    snapshot = page.locator("body").aria_snapshot()
    return re.findall(r"^\s*- (?:button|textbox|slider|img|dialog)(?::|$)", snapshot, re.M)


def scrolls_sideways(page: Page) -> bool:
    wide: bool = page.evaluate(
        "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    return wide
