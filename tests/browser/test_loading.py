"""A browser that comes while the models are loading."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import Error as PlaywrightError

from tests.browser.conftest import NARROW, REPOSITORY, START_SECONDS
from vlm.ui import server
from vlm.ui.loading_page import LoadingPage

MILLISECONDS = 1000


@pytest.fixture
def starting_server() -> Iterator[str]:
    """`python app.py` that has only just been started."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "app.py", "--port", str(port)],
        cwd=REPOSITORY,
        env=dict(os.environ),
        stderr=subprocess.DEVNULL,
    )
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(20)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport=NARROW) as context:  # type: ignore[arg-type]
        yield context.new_page()


def visit(page: Page, url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            page.goto(url)
        except PlaywrightError:  # refused: the port is not open yet
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def test_the_page_says_what_is_loaded_and_opens_by_itself(page: Page, starting_server: str) -> None:
    visit(page, starting_server)
    expect(page.get_by_role("heading", name="EagleEye is loading")).to_be_visible()
    base = page.get_by_role("listitem").filter(has_text="Loading the bundled model, ")
    expect(base).to_contain_text("MB", timeout=START_SECONDS * MILLISECONDS)
    composer = page.get_by_role("textbox", name="Your question")
    expect(composer).to_be_visible(timeout=START_SECONDS * MILLISECONDS)


def test_what_is_large_has_a_bar(page: Page) -> None:
    with server.bind("127.0.0.1", 0) as listener, LoadingPage(listener) as loading:
        loading.report("Loading the draft, 850 MB")
        loading.report("Loading the base, 16.6 GB (bfloat16, as asked)")
        loading.report("Loading the base, 16.6 GB (bfloat16, as asked): 40 %")
        visit(page, server.page_url(listener))
        bar = page.get_by_role("progressbar", name="Loading the base, 16.6 GB")
        expect(bar).to_have_js_property("value", 40)
        expect(page.get_by_role("listitem")).to_have_count(2)
        loading.report("Warming up")
        expect(page.get_by_role("listitem")).to_have_count(3)
        expect(page.get_by_role("progressbar")).to_have_count(0)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= NARROW["width"]


def test_a_server_that_gave_up_is_said(page: Page) -> None:
    with server.bind("127.0.0.1", 0) as listener, LoadingPage(listener) as loading:
        loading.report("Loading the base, 16.6 GB")
        visit(page, server.page_url(listener))
        expect(page.get_by_role("listitem")).to_have_count(1)
    expect(page.get_by_role("alert")).to_contain_text("terminal", timeout=20 * MILLISECONDS)
