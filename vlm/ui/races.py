"""A race under way, as the page shows it: base alone against base + EAGLE-3 on one question.

Comes in: the events of a comparison. Goes out: what happens on the Compare page. Both runs are
followed live, one after the other; the page replays them on one clock when they are over.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from vlm.compare import MODE_NAMES, CompareRequest, Comparison, LegEvent, Order, Side
from vlm.errors import REFUSALS, ConfigError, VlmError
from vlm.trace import TraceRecord, to_line
from vlm.trace_recording import TraceRecorder
from vlm.ui import panels
from vlm.ui.answers import KEEP, composer_busy, composer_ready
from vlm.ui.asking import broken_off, generation_request
from vlm.ui.conversation import Conversation, Question, Turn
from vlm.ui.engine_thread import EngineThread
from vlm.ui.waits import wait_of
from vlm.ui.watching import Watching


class RaceUpdate(NamedTuple):
    """New values for the Compare page."""

    race: Any = KEEP
    composer: Any = KEEP
    notice: Any = KEEP


class RaceHandlers:
    """What a visitor does on the Compare page. One object for all visitors."""

    def __init__(self, engine: EngineThread) -> None:
        self._engine = engine
        self._races: Watching[RaceView] = Watching()

    def ask(
        self, request: gr.Request, message: dict[str, Any], order: Order, *controls: Any
    ) -> RaceUpdate:
        """The composer of the Compare page was sent."""
        turn = Turn(message["text"].strip(), tuple(Path(path) for path in message["files"]))
        return self._begin(request, (), turn, order, controls)

    def ask_again(
        self,
        request: gr.Request,
        event: gr.EventData,
        conversation: Conversation,
        order: Order,
        *controls: Any,
    ) -> RaceUpdate:
        """ "Race it" under an answer of the chat: the same question after the same turns."""
        for place, turn in enumerate(conversation):
            if turn.run == int(event._data["run"]):
                return self._begin(request, conversation[:place], turn, order, controls)
        return RaceUpdate(
            notice=panels.notice("This answer is not finished yet: wait for its end.")
        )

    async def watch(self, request: gr.Request) -> AsyncGenerator[Any, None]:
        """The race as it goes on."""
        yield KEEP
        async for view in self._races.follow(str(request.session_hash)):
            yield view.update()

    def conclude(self, request: gr.Request) -> RaceUpdate:
        """The end of a race, whatever it was."""
        view = self._races.conclude(str(request.session_hash))
        return RaceUpdate() if view is None else view.conclusion()

    def stop(self, request: gr.Request) -> None:
        """The engine stops within a step."""
        self._races.cancel(str(request.session_hash))

    def leave(self, request: gr.Request) -> None:
        """The tab was closed."""
        self._races.forget(str(request.session_hash))

    def idle(self) -> dict[str, Any]:
        """The Compare page before the first race."""
        silent = {"phase_text": "", "announcement": ""}
        return {"race": -1, "lines": "", "from": 0, "phase": "idle", **silent}

    def _begin(
        self,
        request: gr.Request,
        before: Conversation,
        turn: Turn,
        order: Order,
        values: tuple[Any, ...],
    ) -> RaceUpdate:
        session = str(request.session_hash)
        asked = replace(turn, answer="", figures="", problem="", run=None)
        question = Question(before, asked, before)
        try:
            if session in self._races:
                raise ConfigError("The last race is still being run: stop it first.")
            info = self._engine.pipeline.info
            if info.draft_name is None:
                reason = "There is nothing to compare: no draft is loaded."
                raise VlmError(info.misfit_sentence or reason)
            generation = generation_request(self._engine, question, values)
        except REFUSALS as error:
            return RaceUpdate(notice=panels.notice(str(error)))
        view = RaceView(self._engine, CompareRequest(generation, order), question)
        self._races.begin(session, view)
        return view.start()


class RaceView:
    """How one race looks on the page at any moment."""

    def __init__(self, engine: EngineThread, request: CompareRequest, question: Question) -> None:
        self._engine = engine
        self._run = engine.submit(request)
        self._request = request
        self._question = question
        self._legs = [TraceRecorder() for _ in request.order]
        self._records: list[tuple[int, TraceRecord]] = []  # of all legs, in order of arrival
        self._num_sent = 0
        self._leg: LegEvent | None = None
        self._result: Comparison | None = None
        self._shown_phase = ""
        self.is_over = False

    def cancel(self) -> None:
        self._run.cancel()

    def start(self) -> RaceUpdate:
        """The question stays in the composer, whose height is then the same all the time."""
        return RaceUpdate(self.update(), composer_busy(self._question.turn), "")

    def poll(self) -> bool:
        # In this order: what the engine put before it finished is then in the queue.
        self.is_over = self._run.is_finished or self._run.is_cancelled
        events = self._run.drain()
        for event in events:
            if isinstance(event, LegEvent):
                self._take(event)
            else:
                self._result = event
                self._note_pace(event.base)
        return bool(events) or self._phase_text() != self._shown_phase

    def _note_pace(self, base: Side) -> None:
        """The base's leg tells what a pass of it takes, unless it was over with its first token."""
        if base.step_seconds is not None:
            self._engine.base_step_seconds = base.step_seconds

    def update(self) -> dict[str, Any]:
        """What the page does not have yet."""
        first, self._num_sent = self._num_sent, len(self._records)
        self._shown_phase = self._phase_text()
        return {
            "race": self._run.number,
            "from": first,
            "lines": "\n".join(f"{leg} {to_line(record)}" for leg, record in self._records[first:]),
            "order": self._request.order,
            "pictures": [panels.file_url(path) for path in self._question.turn.images],
            "question": self._question.turn.question,
            "max_tokens": self._engine.pipeline.settings.draft_step + 1,
            "is_sampled": not self._request.request.sampling.is_greedy,
            "phase": self._phase(),
            "phase_text": self._shown_phase,
            "announcement": self._announcement(),
            "result": None if self._result is None else result_payload(self._result),
        }

    def conclusion(self) -> RaceUpdate:
        """The result, or why there is none."""
        error = self._run.error
        if error is not None:
            return RaceUpdate(self.update(), composer_ready(), panels.notice(broken_off(error)))
        self._num_sent = 0  # all records once more mend what got lost on the way
        return RaceUpdate(self.update(), composer_ready(), "")

    def _take(self, event: LegEvent) -> None:
        self._leg = event
        recorder = self._legs[event.leg]
        before = len(recorder.records)
        recorder.add(event.event)
        self._records += [(event.leg, record) for record in recorder.records[before:]]

    def _phase(self) -> str:
        if self._run.error is not None:
            return "failed"
        if self._result is not None:
            return "done"
        if self._run.is_cancelled:
            return "stopped"
        if self._leg is not None:
            return "running"
        return "warming" if wait_of(self._engine, self._run) is None else "waiting"

    def _announcement(self) -> str:
        """What a screen reader says: the phase, but of a wait not every step."""
        wait = wait_of(self._engine, self._run)
        if wait is not None and self._phase() == "waiting":
            return wait.announcement
        return self._phase_text()

    def _phase_text(self) -> str:
        phase, wait = self._phase(), wait_of(self._engine, self._run)
        if wait is not None and phase == "waiting":
            return wait.text
        if phase == "running" and self._leg is not None:
            count = f"run {self._leg.leg + 1} of {len(self._request.order)}"
            again = "; shown are the first two" if self._leg.leg >= 2 else ""
            return f"Measuring {MODE_NAMES[self._leg.mode]}, {count}{again}"
        if self._result is not None:
            return outcome(self._result)
        return {
            "waiting": "Waiting for the engine",  # and it has come meanwhile
            "warming": "Reading the prompt and warming both up",
            "stopped": "Stopped before both had answered",
            "failed": "The race broke off",
        }.get(phase, "")


def outcome(result: Comparison) -> str:
    """What a screen reader says at the end; the same stands in large figures."""
    verdict = result.verdict.sentence().removesuffix(".")
    speedup = result.decode_speedup
    return f"Race done: {verdict}" + (f", decode speedup {speedup:.2f}." if speedup else ".")


def result_payload(result: Comparison) -> dict[str, Any]:
    """The outcome as the page shows it."""
    return {
        "kind": result.verdict.kind,
        "num_same": result.verdict.num_same,
        "num_tokens": result.verdict.num_tokens,
        "decode_speedup": result.decode_speedup,
        "end_to_end_speedup": result.end_to_end_speedup,
        "seconds_saved": result.seconds_saved,
        "mean_acceptance_length": result.acceptance.mean_acceptance_length,
        "step_cost": result.step_cost,
        "sentences": list(result.sentences()),
    }
