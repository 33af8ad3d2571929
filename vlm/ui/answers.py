"""An answer under way, as the page shows it.

Comes in: the events of one run. Goes out: values for the conversation, the panel, the composer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import gradio as gr

from vlm.errors import REFUSALS
from vlm.requests import GenerationRequest
from vlm.trace_recording import TraceRecorder
from vlm.ui import panels
from vlm.ui.asking import broken_off
from vlm.ui.conversation import Question, Turn, chat_messages
from vlm.ui.engine_thread import EngineThread
from vlm.ui.waits import wait_of

KEEP = gr.skip()  # leaves a part of the page as it is


class LiveUpdate(NamedTuple):
    """What changes while an answer grows."""

    chat: Any = KEEP
    panel: Any = KEEP


class PageUpdate(NamedTuple):
    """New values for the parts of the page."""

    conversation: Any = KEEP
    chat: Any = KEEP
    panel: Any = KEEP
    composer: Any = KEEP
    notice: Any = KEEP


def composer_ready(turn: Turn | None = None) -> Any:
    """What is in it stays, unless the question of a turn is given back."""
    value: dict[str, Any] = {} if turn is None else {"value": _message(turn)}
    return gr.update(submit_btn=True, stop_btn=False, **value)


def composer_busy(turn: Turn | None = None) -> Any:
    """Empty, unless the question of a turn is to stay in it."""
    return gr.update(value=_message(turn or Turn("")), submit_btn=False, stop_btn=True)


def _message(turn: Turn) -> dict[str, Any]:
    return {"text": turn.question, "files": [str(path) for path in turn.images]}


class AnswerView:
    """How one run looks on the page at any moment."""

    def __init__(
        self, engine: EngineThread, request: GenerationRequest, question: Question
    ) -> None:
        self._run = engine.submit(request)
        self._request = request
        self._question = question
        self._engine = engine
        self._trace = TraceRecorder()
        self._num_records_sent = 0
        self._shown_phase = ""
        self.is_over = False

    def cancel(self) -> None:
        self._run.cancel()

    def start(self) -> PageUpdate:
        """The question is taken: the composer is free for the next one."""
        self._shown_phase = self._phase()
        return PageUpdate(
            chat=self._chat(), panel=self._panel(), composer=composer_busy(), notice=""
        )

    def poll(self) -> bool:
        # In this order: what the engine put before it finished is then in the queue.
        self.is_over = self._run.is_finished or self._run.is_cancelled
        events = self._run.drain()
        for event in events:
            self._trace.add(event)
        return bool(events) or self._phase() != self._shown_phase

    def update(self) -> LiveUpdate:
        """What changed since the last call."""
        self._shown_phase = self._phase()
        return LiveUpdate(self._chat(), self._panel())

    def conclusion(self) -> PageUpdate:
        """The answer with its figures, or the message of the error that ended it."""
        error = self._run.error
        if error is not None and self._is_refused:
            return self._refusal(broken_off(error))
        turn = replace(
            self._question.turn,
            answer=self._trace.text,
            run=self._run.number,
            figures=self._figures(),
            problem="" if error is None else broken_off(error),
        )
        conversation = (*self._question.before, turn)
        self._note_pace()
        self._num_records_sent = 0  # all of them once more mend what got lost on the way
        return PageUpdate(
            conversation, chat_messages(conversation), self._panel(), composer_ready(), ""
        )

    @property
    def _is_refused(self) -> bool:
        return isinstance(self._run.error, REFUSALS) and not self._trace.has_begun

    def _note_pace(self) -> None:
        """An answer of the base alone tells what a pass of it takes."""
        run, pace = self._trace.run, self._trace.end().summary.time_per_output_token_seconds
        if run is not None and run.mode == "base" and pace is not None:
            self._engine.base_step_seconds = pace

    def _figures(self) -> str:
        run = self._trace.run
        if run is not None and self._trace.steps:
            image_tokens = [image.num_tokens for image in self._trace.images]
            return panels.figures_line(run, image_tokens, self._trace.end())
        return "" if self._run.error is not None else "stopped before the first token"

    def _refusal(self, reason: str) -> PageUpdate:
        """Nothing was answered: the visitor gets the question back, to correct it."""
        return PageUpdate(
            chat=chat_messages(self._question.on_refusal),
            panel=self._panel(),
            composer=composer_ready(self._question.turn),
            notice=panels.notice(reason),
        )

    def _phase(self) -> str:
        if self._run.error is not None:
            return "failed"
        if self._trace.is_complete:
            return "done"
        if self._run.is_cancelled:
            return "stopped"
        if self._trace.steps:
            return "decoding"
        return "prefill" if wait_of(self._engine, self._run) is None else "waiting"

    def _chat(self) -> list[dict[str, Any]]:
        if self._trace.text:
            turn = replace(self._question.turn, answer=self._trace.text, run=self._run.number)
            return chat_messages((*self._question.before, turn))
        return chat_messages(self._question.conversation, waiting_for=self._waiting_for())

    def _waiting_for(self) -> str:
        wait = wait_of(self._engine, self._run)
        if wait is not None:
            return wait.text
        return "Reading the picture" if self._question.turn.images else "Reading the question"

    def _announcement(self) -> str:
        """What a screen reader says of a wait and of a fault; a refusal is an alert already."""
        error, wait = self._run.error, wait_of(self._engine, self._run)
        if wait is not None and self._phase() == "waiting":
            return wait.announcement
        if error is None or self._is_refused:
            return ""
        begin = "The answer broke off: "
        return begin + broken_off(error).removeprefix(begin)

    def _panel(self) -> dict[str, Any]:
        """Only the records that the panel does not have yet."""
        state = panel_state(
            self._engine,
            run=self._run.number,
            phase=self._phase(),
            use_eagle=self._request.use_eagle,
            announcement=self._announcement(),
        )
        records, first = self._trace.records, self._num_records_sent
        self._num_records_sent = len(records)
        end = self._trace.end() if self._trace.steps else None
        return panels.panel_payload(state, records, end, first=first)


def panel_state(
    engine: EngineThread, *, run: int, phase: str, use_eagle: bool, announcement: str = ""
) -> panels.PanelState:
    mode = panels.mode_sentence(engine.pipeline.info, use_eagle=use_eagle)
    height = engine.pipeline.settings.draft_step + 1
    return panels.PanelState(run, phase, mode, height, engine.base_step_seconds, announcement)
