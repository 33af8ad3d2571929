"""What does recording cost? `python -m tests.vlm.trace_overhead --rounds 12`

One loaded pipeline answers the same question in turn without and with a recorded trace (trees,
probabilities, texts, a `TraceRecorder` that reads every event). A round is three runs: without,
with, without. Two figures: the decode time of the middle one by the mean of the outer two (median
over rounds), and, which a busy machine disturbs less, the growth of the median step's "other" time,
in which recording happens, by the median step.
The last line is JSON. Not a test: a busy machine would decide the result.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import replace

from vlm.config import add_settings_arguments, settings_from_arguments
from vlm.events import GenerationFinished
from vlm.loading import load_pipeline
from vlm.metrics import RunStats
from vlm.pipeline import VlmPipeline
from vlm.requests import ChatMessage, GenerationRequest
from vlm.trace_recording import TraceRecorder

QUESTION = "Tell me a long story about an eagle."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    add_settings_arguments(parser)
    arguments = parser.parse_args()
    settings = settings_from_arguments(arguments)
    pipeline = load_pipeline(settings, print)
    request = GenerationRequest(
        (ChatMessage("user", QUESTION),),
        sampling=settings.sampling,
        max_new_tokens=settings.max_new_tokens,
        ignore_eos=True,
    )
    answer(pipeline, request, record=True)
    rounds = [
        [answer(pipeline, request, record=record) for record in (False, True, False)]
        for _ in range(arguments.rounds)
    ]
    print(json.dumps(summary(rounds) | {"on": pipeline.environment.sentence()}))  # noqa: T201


def answer(pipeline: VlmPipeline, request: GenerationRequest, *, record: bool) -> RunStats:
    recorder = TraceRecorder()
    for event in pipeline.run(replace(request, record_trees=record)):
        if record:
            recorder.add(event)
        if isinstance(event, GenerationFinished):
            return event.stats
    raise AssertionError("the events ended without GenerationFinished")


def summary(rounds: list[list[RunStats]]) -> dict[str, object]:
    times = [[stats.decode_seconds for stats in three] for three in rounds]
    costs = [2 * recorded / (before + after) - 1 for before, recorded, after in times]
    plain = [stats for before, _, after in rounds for stats in (before, after)]
    growth = other_seconds([recorded for _, recorded, _ in rounds]) - other_seconds(plain)
    step = statistics.median(stats.decode_seconds / (len(stats.steps) - 1) for stats in plain)
    return {
        "rounds": len(rounds),
        "steps": sum(len(recorded.steps) - 1 for _, recorded, _ in rounds),
        "step_milliseconds": round(1000 * step, 2),
        "median_cost_percent": round(100 * statistics.median(costs), 2),
        "growth_of_other_percent": round(100 * growth / step, 2),
        "costs_percent": [round(100 * cost, 2) for cost in sorted(costs)],
    }


def other_seconds(runs: list[RunStats]) -> float:
    """Of the median step after the prefill."""
    return statistics.median(step.other_seconds for stats in runs for step in stats.steps[1:])


if __name__ == "__main__":
    main()
