"""What a visitor does and sees, by the names a visitor would use."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, Page, expect

ANSWER_MILLISECONDS = 60_000


def ask(page: Page, question: str) -> None:
    page.get_by_role("textbox", name="Your question").fill(question)
    page.keyboard.press("Enter")


def add_picture(page: Page, path: Path) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add pictures").click()
    chooser.value.set_files(path)
    expect(page.locator("#ee-composer .thumbnail-item")).to_be_visible()


def bars(page: Page) -> Locator:
    return page.locator(".ee-bar")


def figures(page: Page) -> Locator:
    return page.locator("#ee-chat .ee-figures")


def answers(page: Page) -> Locator:
    return page.locator("#ee-chat [data-testid=bot]")


def panel_figure(page: Page, name: str) -> Locator:
    return page.locator(f"[data-figure={name}]")


def wait_for_answer(page: Page, count: int = 1) -> None:
    expect(figures(page)).to_have_count(count, timeout=ANSWER_MILLISECONDS)
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_visible()
