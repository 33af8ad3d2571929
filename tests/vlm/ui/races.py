"""A comparison without models: both ways of a scripted pipeline, then what `compare` would say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.vlm.ui.fakes import FakePipeline
from vlm.compare import MODES, CompareEvent, CompareRequest, Comparison, LegEvent, Side
from vlm.events import GenerationFinished
from vlm.identity import Verdict
from vlm.metrics import RunStats
from vlm.trace import Mode


def scripted_race(pipeline: FakePipeline, asked: CompareRequest) -> Iterator[CompareEvent]:
    legs: dict[Mode, list[RunStats]] = {"base": [], "eagle": []}
    for leg, letter in enumerate(asked.order):
        mode = MODES[letter]
        for event in pipeline.perform(replace(asked.request, use_eagle=mode == "eagle")):
            if isinstance(event, GenerationFinished):
                legs[mode].append(event.stats)
            yield LegEvent(leg, mode, event)
    num_tokens = len(legs["base"][0].token_ids)
    yield Comparison(
        order=asked.order,
        verdict=Verdict("identical", num_tokens, num_tokens),
        base=Side.of(legs["base"]),
        eagle=Side.of(legs["eagle"]),
        acceptance=legs["eagle"][0].acceptance,
    )
