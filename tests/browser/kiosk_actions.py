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


def poor_contrast(page: Page) -> list[str]:
    """Texts in sight below WCAG's 4.5 (3 for large type) against what is painted behind them."""
    found: list[str] = page.evaluate(CONTRAST)
    return found


CONTRAST = """() => {
    const brush = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const bytes = (colour) => {
        brush.clearRect(0, 0, 1, 1);
        brush.fillStyle = colour;
        brush.fillRect(0, 0, 1, 1);
        return [...brush.getImageData(0, 0, 1, 1).data];
    };
    const behind = (element) => {
        const layers = [];
        for (let at = element; at; at = at.parentElement) {
            layers.push(bytes(getComputedStyle(at).backgroundColor));
            if (layers.at(-1)[3] === 255) break;
        }
        const over = (below, [...layer]) => {
            const share = layer.pop() / 255;
            return layer.map((value, place) => value * share + below[place] * (1 - share));
        };
        return layers.reverse().reduce(over, [255, 255, 255]);
    };
    const light = (rgb) => {
        const part = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        return 0.2126 * part(rgb[0]) + 0.7152 * part(rgb[1]) + 0.0722 * part(rgb[2]);
    };
    const bad = [];
    for (const element of document.querySelectorAll("body *")) {
        const texts = [...element.childNodes].filter((one) => one.nodeType === 3);
        const words = texts.filter((one) => one.data.trim());
        const look = { opacityProperty: true, visibilityProperty: true };
        if (!words.length || !element.checkVisibility(look) || element.disabled) continue;
        const style = getComputedStyle(element);
        const lights = [light(bytes(style.color)), light(behind(element))];
        const [a, b] = lights.sort((one, other) => one - other);
        const size = parseFloat(style.fontSize);
        const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 600);
        const ratio = (b + 0.05) / (a + 0.05);
        if (ratio < (isLarge ? 3 : 4.5)) bad.push(`${ratio.toFixed(2)}: ${words[0].data.trim()}`);
    }
    return bad;
}"""


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
