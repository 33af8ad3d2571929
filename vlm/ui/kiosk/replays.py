"""The recorded answers that an idle kiosk shows, and the command that records them.

`python -m vlm.ui.kiosk.replays` asks every example question both ways, with the options of
`python -m vlm`, and writes one file each to `assets/kiosk/traces`: the base's trace, then that of
the base with its draft. Run it again whenever the models change.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vlm.compare import CompareRequest, LegEvent, compare
from vlm.config import add_settings_arguments, settings_from_arguments
from vlm.errors import REFUSALS
from vlm.requests import ChatMessage, GenerationRequest
from vlm.trace import Mode, Trace, write_traces
from vlm.trace_recording import TraceRecorder
from vlm.ui.examples import EXAMPLES_FOLDER, Example, load_examples

if TYPE_CHECKING:
    from vlm.pipeline import VlmPipeline

TRACES_FOLDER = Path(__file__).parents[3] / "assets" / "kiosk" / "traces"


@dataclass(frozen=True, slots=True)
class Replay:
    """A recorded race and the picture that was asked about."""

    trace: Path
    picture: Path


def load_replays(
    traces: Path = TRACES_FOLDER, examples: Path = EXAMPLES_FOLDER
) -> tuple[Replay, ...]:
    """The recordings whose picture is there, in the order of the examples."""
    pairs = (
        Replay(traces / f"{example.image.stem}.jsonl", example.image)
        for example in load_examples(examples)
    )
    return tuple(replay for replay in pairs if replay.trace.exists())


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, or 2 with one sentence on standard error."""
    # Imported here: the page's process reads recordings and loads no models.
    from vlm.loading import load_pipeline

    parser = argparse.ArgumentParser(
        prog="python -m vlm.ui.kiosk.replays", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--out", type=Path, default=TRACES_FOLDER, help="folder of the recordings")
    add_settings_arguments(parser)
    arguments = parser.parse_args(argv)
    try:
        pipeline = load_pipeline(settings_from_arguments(arguments), report)
        for example in load_examples():
            path = arguments.out / f"{example.image.stem}.jsonl"
            write_traces(path, record(pipeline, example))
            report(f"{path}: {example.question}")
    except REFUSALS as error:
        report(str(error))
        return 2
    return 0


def record(pipeline: VlmPipeline, example: Example) -> tuple[Trace, Trace]:
    """One race as two traces: the base alone, the base with its draft."""
    settings = pipeline.settings
    message = ChatMessage("user", example.question, (example.image,))
    request = GenerationRequest(
        (message,), settings.sampling, settings.max_new_tokens, ignore_eos=settings.ignore_eos
    )
    traces = dict(race(pipeline, request))
    return traces["base"], traces["eagle"]


def race(pipeline: VlmPipeline, request: GenerationRequest) -> Iterator[tuple[Mode, Trace]]:
    recorders: dict[Mode, TraceRecorder] = {}
    for event in compare(pipeline, CompareRequest(request)):
        if isinstance(event, LegEvent):
            recorders.setdefault(event.mode, TraceRecorder()).add(event.event)
    yield from ((mode, recorder.trace()) for mode, recorder in recorders.items())


def report(message: str) -> None:
    print(message, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
