"""A real Chromium and real server processes, one of each for all browser tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from PIL import Image, ImageDraw

pytest.importorskip("playwright")

from playwright.sync_api import Browser, Page, Request, sync_playwright

from tests.browser.kiosk_servers import kiosk_arguments

REPOSITORY = Path(__file__).parents[2]
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # A camera that shows a moving picture, for the kiosk.
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
]
START_SECONDS = 300  # the first start composes the bundled models
WIDE = {"width": 1400, "height": 900}
NARROW = {"width": 390, "height": 844}

OpenPage = Callable[..., Page]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium; without one the test skips, or fails where EAGLEEYE_REQUIRE_BROWSER is set.

    For this package only: Playwright keeps an event loop running, with which `asyncio.run` in
    other tests would fail.
    """
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        reason = "no Chromium found: install Debian's package 'chromium'"
        if os.environ.get("EAGLEEYE_REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens pages, each in a session of its own, and checks them at the end."""
    with checked_pages(browser, "/?__theme={theme}", "#ee-composer textarea") as open_at:
        yield open_at


@pytest.fixture
def open_kiosk(browser: Browser) -> Iterator[OpenPage]:
    """Opens kiosks, each a screen of its own, and checks them at the end as `open_page` does."""
    with checked_pages(browser, "", "#attract[data-replay]") as open_at:
        yield open_at


@contextmanager
def checked_pages(browser: Browser, address: str, ready: str) -> Iterator[OpenPage]:
    """A request to another host or an error of a script fails the test that caused it."""
    foreign: list[str] = []
    errors: list[str] = []
    contexts = []

    def open_at(
        url: str, viewport: dict[str, int] | None = None, theme: str = "light", **options: Any
    ) -> Page:
        context = browser.new_context(viewport=viewport or WIDE, **options)  # type: ignore[arg-type]
        contexts.append(context)
        context.on("requestfinished", lambda request: note_foreign(request.url, url, foreign))
        context.on("requestfailed", lambda request: note_failed(request, url, foreign))
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url + address.format(theme=theme))
        page.wait_for_selector(ready)
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert foreign == []
    assert errors == []


def note_foreign(requested: str, own: str, foreign: list[str]) -> None:
    parts = urlsplit(requested)
    if parts.scheme not in ("data", "blob") and parts.netloc != urlsplit(own).netloc:
        foreign.append(requested)


def note_failed(request: Request, own: str, foreign: list[str]) -> None:
    """A request that failed was still sent, unless the page's own policy held it back."""
    if request.failure != "csp":
        note_foreign(request.url, own, foreign)


class Server:
    """A server process; `url` is known once it says so on standard error."""

    def __init__(self, arguments: list[str], environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=REPOSITORY,
            env={**os.environ, **(environment or {})},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self._wait_for_url()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))

    def _wait_for_url(self) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(r"ready: (http\S+)", "".join(self.lines))
            if found:
                return found[1]
            time.sleep(0.1)
        self.stop()
        raise AssertionError(f"the server did not start:\n{''.join(self.lines)}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(5)
        if self.process.stderr is not None:
            self.process.stderr.close()


@pytest.fixture(scope="package")
def real_server() -> Iterator[str]:
    """`python app.py` with the bundled models; answers go on until they are stopped."""
    server = Server(["app.py", "--port", "0", "--ignore-eos", "--max-new-tokens", "600"])
    yield server.url
    server.stop()


def scripted(examples: Path, *more: str) -> Iterator[str]:
    server = Server(["-m", "tests.browser.scripted_server", "--examples", str(examples), *more])
    yield server.url
    server.stop()


@pytest.fixture(scope="package")
def scripted_server(examples: Path) -> Iterator[str]:
    yield from scripted(examples)


@pytest.fixture(scope="package")
def text_only_server(examples: Path) -> Iterator[str]:
    yield from scripted(examples, "--models", "text-only")


@pytest.fixture(scope="session")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "disc.png"
    image = Image.new("RGB", (320, 240), "white")
    ImageDraw.Draw(image).ellipse((90, 50, 230, 190), fill="red")
    image.save(path)
    return path


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    entries = []
    for number, colour in enumerate(("sienna", "seagreen", "slateblue")):
        image = Image.new("RGB", (320, 240), colour)
        ImageDraw.Draw(image).rectangle((100, 60, 220, 180), fill="white")
        image.save(folder / f"{number}.png")
        question = f"What is in picture {number}?"
        entries.append({"image": f"{number}.png", "question": question, "expects": ["square"]})
    (folder / "examples.json").write_text(json.dumps(entries), encoding="utf-8")
    return folder


@pytest.fixture(scope="package")
def kiosk_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server may write: its cache folder and the temporary files."""
    return tmp_path_factory.mktemp("kiosk")


@pytest.fixture(scope="package")
def kiosk(examples: Path, kiosk_home: Path) -> Iterator[str]:
    environment = {"EAGLEEYE_HOME": str(kiosk_home), "TMPDIR": str(kiosk_home)}
    server = Server(kiosk_arguments(examples), environment)
    yield server.url
    server.stop()


@pytest.fixture(scope="package")
def impatient_kiosk(examples: Path) -> Iterator[str]:
    """Warns after one and a half seconds, wipes a second and a half later."""
    times = ["--kiosk-idle-seconds", "1.5", "--kiosk-warning-seconds", "1.5"]
    server = Server(kiosk_arguments(examples, *times))
    yield server.url
    server.stop()
