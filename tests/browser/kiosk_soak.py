"""200 visitors in a row: is memory flat, does anything of one reach the next?

`python -m tests.browser.kiosk_soak --visitors 200` drives one screen of a real Chromium over the
scripted engine. Visitors take turns: a card; a card and a race; a picture and a question of their
own; both; every tenth just walks away. After each the page, the browser's storage and the server
are searched for what he left. The last line is JSON: medians of the quarters, and the last by the
second. `tests/browser/test_kiosk_soak.py` does the same with fewer visitors.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, CDPSession, sync_playwright

from tests.browser.conftest import CHROMIUM_ARGUMENTS, Server
from tests.browser.kiosk_actions import (
    PIN,
    ask_own,
    choose_card,
    expect_state,
    figures,
    leave,
    press,
    stored,
    touch,
    wait_until_nobody_is_here,
)

REPOSITORY = Path(__file__).parents[2]
VIEWPORT = {"width": 1080, "height": 1920}
TIMES = {"step": 0.002, "kiosk-attract": 2, "kiosk-idle": 2, "kiosk-warning": 1}
OPTIONS = [
    "--kiosk",
    "--kiosk-free-text",
    "--kiosk-visits-per-minute=1000",
    *(f"--{name}-seconds={seconds}" for name, seconds in TIMES.items()),
]


@dataclass
class Memory:
    """One entry a visitor, taken while the screen is idle again."""

    server_kilobytes: list[int] = field(default_factory=list)
    browser_kilobytes: list[int] = field(default_factory=list)
    heap_kilobytes: list[int] = field(default_factory=list)  # of the page's script, collected
    nodes: list[int] = field(default_factory=list)  # of the document, and what scripts hold

    def by_quarter(self) -> dict[str, dict[str, object]]:
        result: dict[str, dict[str, object]] = {}
        for name, values in vars(self).items():
            size = len(values) // 4
            medians = [statistics.median(values[at * size : (at + 1) * size]) for at in range(4)]
            result[name] = {
                "quarters": medians,
                "last_by_second": round(medians[3] / medians[1], 4),
            }
        return result


class Soak:
    def __init__(self, server: Server, browser: Browser, folder: Path) -> None:
        self.server = server
        self.page = browser.new_page(viewport=VIEWPORT)  # type: ignore[arg-type]
        self.session: CDPSession = self.page.context.new_cdp_session(self.page)
        self.folder = folder
        self.memory = Memory()
        self.visits: list[str] = []  # the addresses of all visits, as the page asked for them
        self.page.on("request", lambda request: self.note(request.url))
        self.page.goto(server.url)
        self.page.wait_for_selector("#attract[data-replay]")
        self.empty = stored(self.page)

    def note(self, url: str) -> None:
        parts = url.removeprefix(self.server.url).split("/")
        if parts[1:3] == ["kiosk", "visits"] and len(parts) > 4:
            visit = f"{self.server.url}/kiosk/visits/{parts[3]}"
            if visit not in self.visits[-1:]:
                self.visits.append(visit)

    def run(self, number_of_visitors: int) -> None:
        for number in range(number_of_visitors):
            self.visit(number)
            self.search(number)
            self.measure()

    def visit(self, number: int) -> None:
        page = self.page
        touch(page)
        if number % 4 < 2:
            choose_card(page, number % 6)
        else:
            ask_own(page, self.picture(number), secret(number))
        expect_state(page, "read")
        if number % 2:
            press(page, "Race it")
            expect_state(page, "busy")
            expect_state(page, "read")
        if number % 10 == 9:
            expect_state(page, "attract")  # walked away
        else:
            leave(page)

    def picture(self, number: int) -> Path:
        """Another one for every visitor."""
        path = self.folder / "picture.png"
        Image.new("RGB", (640, 480), (number % 256, 90, 40)).save(path)
        return path

    def search(self, number: int) -> None:
        """Nothing of this visitor, or of any before him, is left."""
        page = self.page
        seen = page.content() + json.dumps(
            page.locator("input").evaluate_all("(all) => all.map((one) => one.value)")
        )
        assert "secret" not in seen, number
        assert stored(page) == self.empty, number
        wait_until_nobody_is_here(page, self.server.url)
        for part in ("answer", "race"):
            response = page.request.post(f"{self.visits[-1]}/{part}", data={"question": 0})
            assert response.status == 410, number
        assert len(set(self.visits)) == number + 1

    def measure(self) -> None:
        self.session.send("HeapProfiler.collectGarbage")
        self.session.send("Performance.enable")
        listed = self.session.send("Performance.getMetrics")["metrics"]
        metrics = {entry["name"]: entry["value"] for entry in listed}
        self.memory.heap_kilobytes.append(round(metrics["JSHeapUsedSize"] / 1024))
        self.memory.nodes.append(round(metrics["Nodes"]))
        self.memory.server_kilobytes.append(own_kilobytes(self.server.process.pid))
        self.memory.browser_kilobytes.append(sum(own_kilobytes(pid) for pid in browser_processes()))

    def check_server(self, number_of_visitors: int) -> None:
        counted = figures(self.page.request, self.server.url)
        assert counted["visitors"] == number_of_visitors
        assert counted["answers"] == number_of_visitors
        assert counted["errors"] == 0
        assert "secret" not in "".join(self.server.lines)


def secret(number: int) -> str:
    return f"What is this, asks visitor {number} in secret?"


def own_kilobytes(pid: int) -> int:
    """Memory of a process without its program files, whose share depends on what else runs; 0 for
    one that has just ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next(
        int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Anonymous:")
    )


def browser_processes() -> Iterator[int]:
    """The Chromium processes below this one."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    for pid in parents:
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() and is_chromium(pid):
            yield pid


def is_chromium(pid: int) -> bool:
    try:
        return b"chromium" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return False


def soak(browser: Browser, number_of_visitors: int, examples: Path) -> Memory:
    with tempfile.TemporaryDirectory() as folder:
        options = ["--examples", str(examples), "--kiosk-pin", PIN, *OPTIONS]
        server = Server(["-m", "tests.browser.scripted_server", *options])
        try:
            run = Soak(server, browser, Path(folder))
            run.run(number_of_visitors)
            run.check_server(number_of_visitors)
            run.page.close()
        finally:
            server.stop()
    return run.memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=200)
    arguments = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=CHROMIUM_ARGUMENTS
        )
        memory = soak(browser, arguments.visitors, REPOSITORY / "assets" / "examples")
        browser.close()
    sys.stdout.write(json.dumps(memory.by_quarter()) + "\n")


if __name__ == "__main__":
    main()
