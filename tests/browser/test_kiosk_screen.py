"""The kiosk on every screen: keyboard, readers, sizes, colours, motion; what it offers where."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.actions import listen, said
from tests.browser.conftest import NARROW, OpenPage, Server
from tests.browser.kiosk_actions import (
    choose_card,
    choose_file,
    expect_state,
    leave,
    open_staff,
    press,
    touch,
    type_question,
)
from tests.browser.kiosk_servers import kiosk_arguments
from tests.browser.screens import nameless, poor_contrast, scrolls_sideways, small_targets

PORTRAIT = {"width": 1080, "height": 1920}


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
    listen(page)
    touch(page)
    choose_card(page)
    expect_state(page, "read")
    (announcement,) = said(page)
    assert announcement.startswith("Answer ready: 65 tokens in ")


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
    server = Server(kiosk_arguments(examples, "--models", "text-only"))
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
