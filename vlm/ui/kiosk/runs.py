"""A run of the engine as lines of JSON for one screen.

Comes in: a `Run`. Goes out: lines, at most `BATCHES_PER_SECOND` batches of them: the records of the
trace as docs/trace.md has them, `queue` while others are before it, `result` after a race,
`refused` or `failed` with a sentence. Whoever stops reading stops the run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from vlm.compare import CompareEvent, Comparison, LegEvent
from vlm.errors import REFUSALS, EngineLost
from vlm.events import Event
from vlm.trace import TraceEnd, to_line
from vlm.trace_recording import TraceRecorder
from vlm.ui.engine_thread import EngineThread, Run
from vlm.ui.kiosk.staff import Figures

BATCHES_PER_SECOND = 20
# A line at least this often: the screen takes a longer silence for a fault.
HEARTBEAT_SECONDS = 2.0
HEARTBEAT = json.dumps({"type": "heartbeat"})
SORRY = "Something went wrong while answering. Nothing was kept. Please try again."


class Answer:
    """Translates the events of one answer."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._recorder = TraceRecorder()

    @property
    def has_begun(self) -> bool:
        return self._recorder.has_begun

    def lines(self, event: Event) -> Iterator[str]:
        known = len(self._recorder.records)
        self._recorder.add(event)
        for record in self._recorder.records[known:]:
            yield to_line(record)
            if isinstance(record, TraceEnd):
                self._figures.count_answer(record.summary)

    def closing_lines(self) -> Iterator[str]:
        """What a stopped answer ends with: its figures so far."""
        if self.has_begun and not self._recorder.is_complete:
            yield to_line(self._recorder.end())


class Race:
    """Translates the events of a comparison: one trace after the other, then the result."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._leg = -1
        self._recorder = TraceRecorder()

    @property
    def has_begun(self) -> bool:
        return self._leg >= 0

    def lines(self, event: CompareEvent) -> Iterator[str]:
        if isinstance(event, Comparison):
            self._figures.races += 1
            yield json.dumps(result_of(event))
            return
        yield from self._leg_lines(event)

    def closing_lines(self) -> Iterator[str]:
        return iter(())

    def _leg_lines(self, event: LegEvent) -> Iterator[str]:
        if event.leg != self._leg:
            self._leg, self._recorder = event.leg, TraceRecorder()
        known = len(self._recorder.records)
        self._recorder.add(event.event)
        yield from map(to_line, self._recorder.records[known:])


def result_of(comparison: Comparison) -> dict[str, Any]:
    verdict = comparison.verdict
    return {
        "type": "result",
        "identical": verdict.is_identical,
        "num_same": verdict.num_same,
        "num_tokens": verdict.num_tokens,
        "decode_speedup": comparison.decode_speedup,
        "seconds_saved": comparison.seconds_saved,
        "sentences": comparison.sentences(),
    }


class RunStream(StreamingResponse):
    """Ends the run with the response, however that ends."""

    def __init__(
        self,
        engine: EngineThread,
        run: Run[Any],
        translator: Answer | Race,
        on_fault: Callable[[Exception], None],
    ) -> None:
        super().__init__(
            follow(engine, run, translator, on_fault),
            media_type="application/jsonl",
            headers={"Cache-Control": "no-store"},
        )
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # Reached also when the browser is gone: the engine must not go on for nobody.
            self._run.cancel()


async def follow(
    engine: EngineThread,
    run: Run[Any],
    translator: Answer | Race,
    on_fault: Callable[[Exception], None],
) -> AsyncIterator[str]:
    """Batches of lines until the run is over. `on_fault` hears of what was no visitor's doing."""
    ahead, silent = 0, 0.0
    while True:
        # In this order: what the engine put before it finished is then in the queue.
        is_over = run.is_finished or run.is_cancelled
        lines = [line for event in run.drain() for line in translator.lines(event)]
        if engine.num_ahead(run) != ahead:
            ahead = engine.num_ahead(run)
            lines.append(json.dumps({"type": "queue", "ahead": ahead}))
        if is_over:
            lines += ending(run, translator, on_fault)
            yield "".join(f"{line}\n" for line in lines)
            return
        silent = 0.0 if lines else silent + 1 / BATCHES_PER_SECOND
        if silent >= HEARTBEAT_SECONDS:
            lines, silent = [HEARTBEAT], 0.0
        if lines:
            yield "".join(f"{line}\n" for line in lines)
        await asyncio.sleep(1 / BATCHES_PER_SECOND)


def ending(
    run: Run[Any], translator: Answer | Race, on_fault: Callable[[Exception], None]
) -> Iterator[str]:
    if run.error is None:
        yield from translator.closing_lines()
    elif is_refusal(run.error) and not translator.has_begun:
        yield json.dumps({"type": "refused", "sentence": str(run.error)})
    else:
        on_fault(run.error)
        yield json.dumps({"type": "failed", "sentence": SORRY})


def is_refusal(error: Exception) -> bool:
    """A lost engine is nothing that a visitor can correct."""
    return isinstance(error, REFUSALS) and not isinstance(error, EngineLost)
