"""Page and kiosk over a pipeline without models, whose answer depends on the question's first word.

For states that a real model does not reach on demand: `python -m tests.browser.scripted_server`.
With `--kiosk` it serves the kiosk alone, as `python app.py` does.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.vlm.ui.fakes import ENVIRONMENT, INFO, FakePipeline
from visual_encoder.errors import ImageRefused
from vlm.bench import BenchPlan
from vlm.compare import CompareRequest
from vlm.config import Settings
from vlm.errors import EngineLost, PromptTooLong
from vlm.events import GenerationFinished, StepDecoded
from vlm.identity import Verdict
from vlm.jobs import Job
from vlm.pipeline import PipelineInfo
from vlm.preview import PreviewRequest
from vlm.sweep import SweepPlan
from vlm.ui import server
from vlm.ui.engine_renewal import RenewableEngine
from vlm.ui.kiosk.options import add_kiosk_arguments, kiosk_options_from_arguments

HOSTILE = (
    "<script>window.hacked = 1</script><style>body { display: none }</style>"
    '<img src="https://elsewhere.example/a.png" onerror="window.hacked = 1">'
    "![leak](https://elsewhere.example/b.png) <b>bold</b> [link](javascript:window.hacked=1)"
)
TEXT_ONLY = replace(
    INFO,
    draft_name=None,
    visual_engine=None,
    no_images_reason="The base is a text-only model (llama), so it takes no pictures.",
)
PROBLEM = (
    "The draft was made for a vocabulary of 42, but the base has 32: it was made for another base."
)
REFUSED = replace(INFO, draft_name=None, draft_problem=PROBLEM)
INFOS = {"pair": INFO, "text-only": TEXT_ONLY, "refused-draft": REFUSED}
DIFFERENCES = {
    "tie": Verdict("tie", 0, 0, 400, 401, 0.0004, 0.001),
    "fault": Verdict("fault", 0, 0, 400, 401, 1.5, 0.001),
    "sample": Verdict("sampled", 0, 0),
}
PATTERN = (2, 0, 3, 4, 1, 3, 2, 4, 0, 3)
RELOADING_SECONDS = 4.0


class ScriptedPipeline:
    """Delegates to a `FakePipeline` chosen by the question."""

    def __init__(self, info: PipelineInfo, step_seconds: float) -> None:
        self.info = info
        self.settings = Settings()
        self.environment = ENVIRONMENT
        self._step_seconds = step_seconds

    def renew(self) -> None:
        """Nothing to load anew, when staff of the kiosk ask for it."""

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def perform(self, job: Job) -> Iterator[Any]:
        if isinstance(job, BenchPlan | SweepPlan | PreviewRequest):
            yield from self._script("measure").perform(job)
            return
        request = job.request if isinstance(job, CompareRequest) else job
        word = request.messages[-1].text.split()[0].lower()
        for event in self._script(word).perform(job):
            if word == "hostile" and isinstance(event, StepDecoded):
                event = hostile_step(event)
            if word == "emoji" and isinstance(event, StepDecoded):
                event = emoji_step(event)
            if word == "hostile" and isinstance(event, GenerationFinished):
                event = GenerationFinished(replace(event.stats, text=HOSTILE))
            yield event

    def _script(self, word: str) -> FakePipeline:
        script = FakePipeline(info=self.info, settings=self.settings)
        script.accepted, script.step_seconds = PATTERN * 2, self._step_seconds
        if word == "measure":
            script.step_seconds = 0.004
        elif word == "long":
            script.accepted, script.step_seconds = PATTERN * 60, 0.02
        elif word == "losing":
            script.accepted, script.draft_seconds = (0,) * 12, 4 * self._step_seconds
        elif word in DIFFERENCES:
            script.difference = DIFFERENCES[word]
        elif word == "lost":
            script.error = EngineLost("The process is gone.")
        elif word == "refuse":
            script.error = ImageRefused("notes.png is not a picture.")
        elif word == "full":
            script.error = PromptTooLong("The prompt has 4100 tokens, but at most 4096 fit.")
        elif word == "break":
            script.error, script.error_at = RuntimeError("device lost."), 4
        return script


class Loader:
    """Gives the pipeline at once, and again only with the progress of large models."""

    def __init__(self, pipeline: ScriptedPipeline) -> None:
        self._pipeline = pipeline
        self._has_loaded = False

    def __call__(self, on_progress: Callable[[str], None]) -> Any:
        for tenths in range(10 if self._has_loaded else 0):
            on_progress(f"Loading tiny-base, 16.6 GB: {10 * tenths} %")
            time.sleep(RELOADING_SECONDS / 10)
        self._has_loaded = True
        return self._pipeline


def no_report(line: str) -> None:
    """Progress is read where the page reads it."""


def hostile_step(event: StepDecoded) -> StepDecoded:
    """All of it in one token; the others complete no character."""
    if event.step.index != 1:
        return replace(event, text="", pieces=("",) * len(event.pieces))
    return replace(event, text=HOSTILE, pieces=(HOSTILE, *("",) * (len(event.pieces) - 1)))


def emoji_step(event: StepDecoded) -> StepDecoded:
    """The second step's only token is the beginning of a character that the third completes."""
    first = {2: "", 3: "\N{EAGLE} "}.get(event.step.index, event.pieces[0])
    pieces = (first, *event.pieces[1:])
    return replace(event, text="".join(pieces), pieces=pieces)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--models", choices=INFOS, default="pair")
    parser.add_argument("--examples", type=Path, required=True)
    parser.add_argument("--step-seconds", type=float, default=0.03)
    add_kiosk_arguments(parser)
    arguments = parser.parse_args()
    listener = server.bind("127.0.0.1", arguments.port)
    server.prepare_environment(listener)

    from vlm.ui.engine_thread import EngineThread
    from vlm.ui.examples import load_examples
    from vlm.ui.kiosk.kiosk import Kiosk
    from vlm.ui.kiosk.replays import load_replays

    pipeline = ScriptedPipeline(INFOS[arguments.models], arguments.step_seconds)
    examples = load_examples(arguments.examples)
    options = kiosk_options_from_arguments(arguments)
    renewable = RenewableEngine(Loader(pipeline), no_report, no_report)
    with EngineThread(renewable, renewable.reloading) as engine:
        engine.base_step_seconds = arguments.step_seconds  # as though it had been warmed up
        kiosk = Kiosk(engine, examples, load_replays(), options, pipeline.renew)
        if arguments.kiosk:
            app = server.create_kiosk_app(kiosk)
        else:
            from vlm.ui.blocks import build_page

            app = server.create_app(build_page(engine, examples), arguments.examples, kiosk)
        listener.listen()
        sys.stderr.write(f"ready: {server.page_url(listener)}\n")
        sys.stderr.flush()
        server.serve(app, listener)


if __name__ == "__main__":
    main()
