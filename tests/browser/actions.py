"""What a visitor does and sees, by the names a visitor would use."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, Page, expect

ANSWER_MILLISECONDS = 60_000


def ask(page: Page, question: str) -> None:
    page.get_by_role("textbox", name="Your question").fill(question)
    page.keyboard.press("Enter")


def add_picture(page: Page, path: Path, composer: str = "#ee-composer") -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add pictures").click()
    chooser.value.set_files(path)
    expect(page.locator(f"{composer} .thumbnail-item")).to_be_visible()


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


def begin_race(page: Page, question: str) -> None:
    page.get_by_role("button", name="Compare", exact=True).click()
    box = page.locator("#ee-compare-composer textarea")
    expect(page.get_by_role("button", name="Race", exact=True)).to_be_visible()
    box.fill(question)
    box.press("Enter")
    expect(page.locator(".ee-race[data-phase=done]")).to_be_hidden()


def wait_for_race(page: Page) -> None:
    expect(page.locator(".ee-race[data-phase=done]")).to_be_visible(timeout=30_000)


def race(page: Page, question: str) -> None:
    begin_race(page, question)
    wait_for_race(page)


def save_replay(page: Page, path: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the replay").click()
    download.value.save_as(path)
    return path


def listen(page: Page) -> None:
    """Note from now on whatever a screen reader says of its own accord."""
    page.evaluate(LISTEN)


def said(page: Page) -> list[str]:
    texts: list[str] = page.evaluate("window.said")
    return texts


LISTEN = """() => {
    const live = ":is([role=status], [role=alert], output, [aria-live]):not([aria-live=off])";
    window.said = [];
    const regions = ({ target, addedNodes }) => {
        const around = (target.closest ? target : target.parentElement)?.closest(live);
        const added = [...addedNodes].filter((node) => node.nodeType === 1);
        const within = added.flatMap((node) => [node, ...node.querySelectorAll("*")]);
        return [around, ...within.filter((node) => node.matches(live))];
    };
    new MutationObserver((records) => {
        for (const region of new Set(records.flatMap(regions))) {
            const text = region?.textContent.trim();
            if (text) window.said.push(text);
        }
    }).observe(document.body, { childList: true, characterData: true, subtree: true });
}"""
