"""Pictures of every view of the page and of the kiosk, over the bundled pair, for docs/screenshots.

    python -m tests.browser.screenshots [--only compare learn] [--threads 1]

A file a view: light and dark on a wide screen, light and dark at 390 pixels. Look at them.
"""

from __future__ import annotations

import argparse
import io
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.actions import add_picture, ask, wait_for_answer
from tests.browser.conftest import CHROMIUM_ARGUMENTS, NARROW, REPOSITORY, WIDE, Server
from tests.browser.kiosk_actions import ask_own, choose_file, expect_state, press, touch
from vlm.ui import server
from vlm.ui.examples import EXAMPLES_FOLDER
from vlm.ui.loading_page import LoadingPage

OUT = REPOSITORY / "docs" / "screenshots"
SCREENS = ((WIDE, "light"), (WIDE, "dark"), (NARROW, "light"), (NARROW, "dark"))
KIOSK_SCREENS = {"1080": {"width": 1080, "height": 1920}, "390": NARROW}
SCALE = 0.6
MINUTE = 60_000
TALK = "Why is the sky blue?"
PICTURE = EXAMPLES_FOLDER / "lion.png"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a view is given: the page it is to be on, and a folder that all screens share."""

    page: Page
    folder: Path


View = Callable[[Shown], None]


def empty(shown: Shown) -> None:
    expect(shown.page.locator("[data-example]").first).to_be_visible()


def answer(shown: Shown) -> None:
    ask(shown.page, TALK)
    wait_for_answer(shown.page)


def tokens(shown: Shown) -> None:
    answer(shown)
    press(shown.page, "Tokens")
    shown.page.locator("#ee-chat .ee-step").nth(4).click()


def steps(shown: Shown) -> None:
    answer(shown)
    press(shown.page, "Steps")
    shown.page.locator("#ee-chat .ee-step-list li").nth(4).click()


def picture(shown: Shown) -> None:
    add_picture(shown.page, PICTURE)
    expect(shown.page.locator(".ee-encoder-size")).to_be_visible(timeout=MINUTE)


def settings(shown: Shown) -> None:
    press(shown.page, "Settings")
    shown.page.wait_for_timeout(400)  # it slides in


def keys(shown: Shown) -> None:
    shown.page.evaluate("document.activeElement.blur()")
    shown.page.keyboard.press("?")
    expect(shown.page.locator("dialog[open]")).to_be_visible()


def compare(shown: Shown) -> None:
    press(shown.page, "Compare")
    box = shown.page.locator("#ee-compare-composer textarea")
    box.fill(TALK)
    box.press("Enter")
    expect(shown.page.locator(".ee-race[data-phase=done]")).to_be_visible(timeout=2 * MINUTE)
    slider = shown.page.locator(".ee-race input[type=range]").first
    slider.fill(f"{0.6 * float(slider.get_attribute('max') or 1):.3f}")


def benchmark(shown: Shown) -> None:
    measured(shown, "bench.json", sweep=False)


def sweep(shown: Shown) -> None:
    measured(shown, "sweep.json", sweep=True)


def measured(shown: Shown, name: str, *, sweep: bool) -> None:
    """Measure on the first screen, and load its file on the others."""
    page, path = shown.page, shown.folder / name
    press(page, "Benchmark")
    if path.exists():
        with page.expect_file_chooser() as chooser:
            press(page, "Load an earlier JSON")
        chooser.value.set_files(path)
        earlier = page.locator(".ee-bench-earlier")
        expect(earlier).to_be_visible()
        earlier.evaluate("(part) => part.scrollIntoView({ block: 'start', behavior: 'instant' })")
        return
    form = page.locator("#ee-bench")
    form.get_by_label("Questions a category").fill("1")
    form.get_by_label("Longest answer").fill("24" if sweep else "64")
    if sweep:
        page.get_by_label("Sweep of settings").check()
    press(page, "Run")
    expect(page.locator(".ee-bench[data-phase=done]")).to_be_visible(timeout=20 * MINUTE)
    with page.expect_download() as download:
        press(page, "Save JSON")
    download.value.save_as(path)


def learn(shown: Shown) -> None:
    press(shown.page, "Learn")
    shown.page.wait_for_timeout(500)


VIEWS: dict[str, View] = {
    "empty": empty,
    "answer": answer,
    "tokens": tokens,
    "steps": steps,
    "picture": picture,
    "settings": settings,
    "keys": keys,
    "compare": compare,
    "benchmark": benchmark,
    "sweep": sweep,
    "learn": learn,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.browser.screenshots")
    names = [*VIEWS, "loading", "kiosk"]
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    parser.add_argument("--threads", default="1")
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    arguments = ["app.py", "--port", "0", "--threads", options.threads, "--max-new-tokens", "160"]
    with chromium() as browser, TemporaryDirectory() as folder:
        views = {name: view for name, view in VIEWS.items() if name in options.only}
        if views:
            with running(Server(arguments)) as url:
                for name, view in views.items():
                    save(name, [shoot(browser, url, view, Path(folder), *s) for s in SCREENS])
        if "loading" in options.only:
            save("loading", [shoot_loading(browser, *screen) for screen in SCREENS])
        if "kiosk" in options.only:
            more = ["--kiosk", "--kiosk-free-text"]
            with running(Server([*arguments, *more])) as url:
                shoot_kiosk(browser, url)


@contextmanager
def chromium() -> Iterator[Browser]:
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def running(started: Server) -> Iterator[str]:
    try:
        yield started.url
    finally:
        started.stop()


def shoot(
    browser: Browser, url: str, view: View, folder: Path, viewport: dict[str, int], theme: str
) -> Image.Image:
    context = browser.new_context(viewport=viewport, color_scheme=theme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{url}/?__theme={theme}")
    page.wait_for_selector("#ee-composer textarea")
    view(Shown(page, folder))
    image = taken(page)
    context.close()
    return image


def shoot_loading(browser: Browser, viewport: dict[str, int], theme: str) -> Image.Image:
    context = browser.new_context(viewport=viewport, color_scheme=theme)  # type: ignore[arg-type]
    with server.bind("127.0.0.1", 0) as listener, LoadingPage(listener) as loading:
        loading.report("Starting the engine")
        loading.report("Loading a draft, 850 MB")
        loading.report("Loading a base, 16.6 GB (bfloat16, the native format of GPUs): 40 %")
        page = context.new_page()
        page.goto(server.page_url(listener))
        expect(page.get_by_role("progressbar")).to_be_visible()
        image = taken(page)
    context.close()
    return image


def shoot_kiosk(browser: Browser, url: str) -> None:
    """Its states from left to right, one file a screen and theme."""
    for name, viewport in KIOSK_SCREENS.items():
        for theme in ("light", "dark"):
            context = browser.new_context(
                viewport=viewport,  # type: ignore[arg-type]
                color_scheme=theme,  # type: ignore[arg-type]
                permissions=["camera"],
            )
            page = context.new_page()
            page.goto(url)
            images = [taken(page) for _ in kiosk_states(page)]
            write(f"kiosk-{name}{'-dark' if theme == 'dark' else ''}", beside(images))
            context.close()


def kiosk_states(page: Page) -> Iterator[str]:
    page.wait_for_selector("#attract[data-replay]")
    page.wait_for_timeout(9000)  # into the first replay
    yield "attract"
    touch(page)
    page.wait_for_timeout(300)
    yield "start"
    choose_file(page, PICTURE)
    page.wait_for_selector("#ask:not([hidden])")
    yield "ask"
    ask_own(page, PICTURE, "Describe the picture.")
    expect_state(page, "read", MINUTE)
    yield "read"
    press(page, "Race it")
    expect_state(page, "busy")
    expect_state(page, "read", 2 * MINUTE)
    slider = page.locator("#race input[type=range]")
    page.locator("#race .ee-play").click()
    slider.fill(f"{0.7 * float(slider.get_attribute('max') or 1):.3f}")
    yield "race"
    page.evaluate("document.getElementById('warn').showModal()")
    yield "warn"


def taken(page: Page) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def save(name: str, images: list[Image.Image]) -> None:
    """The two wide screens one above the other, the narrow ones beside them."""
    wide, narrow = images[:2], images[2:]
    height = 2 * wide[0].height
    left = Image.new("RGB", (wide[0].width, height), "gray")
    for row, image in enumerate(wide):
        left.paste(image, (0, row * image.height))
    tall = [image.resize((image.width * height // image.height, height)) for image in narrow]
    write(name, beside([left, *tall]))


def beside(images: list[Image.Image]) -> Image.Image:
    ends = [0]
    for image in images:
        ends.append(ends[-1] + image.width)
    row = Image.new("RGB", (ends[-1], images[0].height), "gray")
    for image, (begin, _) in zip(images, pairwise(ends), strict=True):
        row.paste(image, (begin, 0))
    return row


def write(name: str, image: Image.Image) -> None:
    size = (round(SCALE * image.width), round(SCALE * image.height))
    small = image.resize(size, Image.Resampling.LANCZOS).quantize(256, dither=Image.Dither.NONE)
    small.save(OUT / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
