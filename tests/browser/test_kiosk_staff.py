"""The kiosk's staff panel: a long press or the keyboard, and the PIN."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, Server
from tests.browser.kiosk_actions import (
    PIN,
    expect_state,
    open_staff,
    press,
)
from tests.browser.kiosk_servers import kiosk_arguments


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
