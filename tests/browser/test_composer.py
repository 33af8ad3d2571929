"""Asking, stopping and handing in pictures, over scripted answers."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.actions import (
    add_picture,
    ask,
    bars,
    figures,
    wait_for_answer,
)
from tests.browser.conftest import OpenPage

ONE_SECOND = 1000


def test_stop_ends_the_answer_and_frees_the_composer(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server)
    ask(page, "Long answer")
    expect(bars(page).nth(5)).to_be_attached()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_visible(timeout=ONE_SECOND)
    expect(figures(page)).to_contain_text("stopped", timeout=ONE_SECOND)
    number = bars(page).count()
    assert number < 400
    page.wait_for_timeout(500)
    assert bars(page).count() == number
    ask(page, "Next question")
    wait_for_answer(page, 2)


def test_escape_stops_too(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    ask(page, "Long answer")
    expect(bars(page).nth(5)).to_be_attached()
    page.keyboard.press("Escape")
    expect(figures(page)).to_contain_text("stopped", timeout=ONE_SECOND)


def test_escape_in_a_dialog_only_closes_it(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    ask(page, "Long answer")
    expect(bars(page).nth(5)).to_be_attached()
    page.locator("#ee-panel .ee-bars").focus()
    page.keyboard.press("?")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    number = bars(page).count()
    expect(bars(page).nth(number + 40)).to_be_attached()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()


def test_shift_enter_is_a_new_line(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    box = page.get_by_role("textbox", name="Your question")
    box.fill("One")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    expect(box).to_have_value("One\ntwo")
    expect(page.locator("#ee-chat [data-testid=user]")).to_have_count(0)


def test_enter_during_an_answer_keeps_what_was_typed(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server)
    ask(page, "Long answer")
    expect(bars(page).nth(5)).to_be_attached()
    ask(page, "Too early")
    expect(page.get_by_role("alert")).to_contain_text("still being written")
    page.get_by_role("button", name="Stop", exact=True).click()
    wait_for_answer(page)
    expect(page.get_by_role("textbox", name="Your question")).to_have_value("Too early")
    page.keyboard.press("Enter")
    wait_for_answer(page, 2)


MAKE_PICTURE = """async () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 60, height: 60 });
    const blob = await new Promise((resolve) => canvas.toBlob(resolve));
    const transfer = new DataTransfer();
    transfer.items.add(new File([blob], "made.png", { type: "image/png" }));
    return transfer;
}"""


PASTE = """(box, clipboardData) => box.dispatchEvent(
    new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true })
)"""


def test_pictures_are_dropped_anywhere_and_pasted(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server)
    thumbnails = page.locator("#ee-composer .thumbnail-item")
    # The script that takes drops names the box as well: only then does it listen.
    expect(page.get_by_role("textbox", name="Your question")).to_be_visible()
    dropped = page.evaluate_handle(MAKE_PICTURE)
    page.dispatch_event(".ee-panel", "drop", {"dataTransfer": dropped})
    expect(thumbnails).to_have_count(1)
    pasted = page.evaluate_handle(MAKE_PICTURE)
    page.locator("#ee-composer textarea").evaluate(PASTE, pasted)
    expect(thumbnails).to_have_count(2)


def test_what_is_no_picture_or_too_large_is_named(
    open_page: OpenPage, scripted_server: str, picture: Path, tmp_path: Path
) -> None:
    page = open_page(scripted_server)
    add_picture(page, picture)
    notes, large = tmp_path / "notes.txt", tmp_path / "large.png"
    notes.write_text("no picture", encoding="utf-8")
    large.write_bytes(picture.read_bytes() + bytes(21 * 1024 * 1024))
    for path, sentence in (
        (notes, "Invalid file type: notes.txt"),
        (large, "maximum allowed size"),
    ):
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Add pictures").click()
        chooser.value.set_files(path)
        expect(page.locator(".toast-wrap")).to_contain_text(sentence, timeout=20_000)
    expect(page.locator("#ee-composer .thumbnail-item")).to_have_count(1)
