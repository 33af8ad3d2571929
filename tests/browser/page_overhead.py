"""How much does a watched page slow decoding, and how far behind is it?

`python -m tests.browser.page_overhead --rounds 16`: one engine process answers the same question in
turn alone and for a page that a real Chromium shows. The figures: the median, over rounds, of the
page's decode rate by the mean of the two runs around it, and the time from the engine's last token
until the page has drawn it. The last line is JSON. Not a test: a busy machine would decide the
result.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import threading
import time
from collections.abc import Iterator

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import CHROMIUM_ARGUMENTS, WIDE
from vlm.config import Settings
from vlm.engine_process import EngineProcess
from vlm.events import Event, GenerationFinished
from vlm.requests import ChatMessage, GenerationRequest
from vlm.ui import server

QUESTION = "Tell me a long story about an eagle."


# Listeners run after the trace has grown; the frame after the next has painted it.
NOTE_LAST_TOKEN = """() => EagleEye.runs.listeners.add((run, what) => {
    if (what !== "grown") return;
    requestAnimationFrame(() => requestAnimationFrame(() => {
        if (window.numTokens !== run.trace.numTokens) window.lastTokenAt = Date.now();
        window.numTokens = run.trace.numTokens;
    }));
})"""


class MeasuredPipeline:
    """Passes requests on and remembers every finished answer's decode rate."""

    def __init__(self, pipeline: EngineProcess) -> None:
        self._pipeline = pipeline
        self.info, self.settings = pipeline.info, pipeline.settings
        self.environment = pipeline.environment
        self.rates: list[float] = []
        self.ended_at = 0.0  # the last answer's last token, in seconds since 1970

    def perform(self, request: GenerationRequest) -> Iterator[Event]:
        for event in self._pipeline.perform(request):
            if isinstance(event, GenerationFinished):
                self.ended_at = time.time()
                self.rates.append(event.stats.decode_tokens_per_second or 0.0)
            yield event


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 1) - 1))
    arguments = parser.parse_args()
    settings = Settings(ignore_eos=True, max_new_tokens=arguments.tokens, threads=arguments.threads)
    listener = server.bind("127.0.0.1", 0)
    server.prepare_environment(listener)
    # Gradio reads the environment when it is imported.
    from vlm.ui.blocks import build_page
    from vlm.ui.engine_thread import EngineThread
    from vlm.ui.examples import EXAMPLES_FOLDER, load_examples

    with contextlib.ExitStack() as stack:
        process = stack.enter_context(EngineProcess(settings, lambda _: None))
        pipeline = MeasuredPipeline(process)
        engine = stack.enter_context(EngineThread(pipeline))
        playwright = stack.enter_context(sync_playwright())
        engine.warm_up()
        pipeline.rates.clear()
        app = server.create_app(build_page(engine, load_examples()), EXAMPLES_FOLDER)
        threading.Thread(target=server.serve, args=(app, listener), daemon=True).start()
        executable = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_ARGUMENTS)
        page = browser.new_page(viewport=WIDE)
        page.goto(server.page_url(listener))
        page.wait_for_selector("#ee-composer textarea")
        request = GenerationRequest(
            (ChatMessage("user", QUESTION),), max_new_tokens=arguments.tokens, ignore_eos=True
        )
        page.evaluate(NOTE_LAST_TOKEN)
        delays = []
        for _ in range(arguments.rounds):
            engine.submit(request).wait()
            ask_on_page(page)
            delays.append(page.evaluate("window.lastTokenAt") / 1000 - pipeline.ended_at)
            engine.submit(request).wait()
        browser.close()
    print(json.dumps(summary(pipeline.rates) | delay_summary(delays)))  # noqa: T201


def ask_on_page(page: Page) -> None:
    page.get_by_role("button", name="New chat").click()
    page.locator("#ee-composer textarea").fill(QUESTION)
    page.keyboard.press("Enter")
    page.wait_for_selector(".ee-figures", timeout=120_000)
    page.wait_for_timeout(500)


def delay_summary(delays: list[float]) -> dict[str, object]:
    return {
        "last_token_delays_seconds": [round(delay, 3) for delay in delays],
        "median_delay_seconds": round(statistics.median(delays), 3),
    }


def summary(rates: list[float]) -> dict[str, object]:
    """Rates come in threes: alone, on the page, alone."""
    rounds = [rates[at : at + 3] for at in range(0, len(rates), 3)]
    ratios = [page / ((before + after) / 2) for before, page, after in rounds]
    return {
        "tokens_per_second": [[round(rate, 1) for rate in three] for three in rounds],
        "ratios": [round(ratio, 3) for ratio in ratios],
        "median_ratio": round(statistics.median(ratios), 3),
    }


if __name__ == "__main__":
    main()
