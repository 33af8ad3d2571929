"""The events of a run become updates of the page.

Comes in: what a visitor did. Goes out: `PageUpdate`s, at most `UPDATES_PER_SECOND` of them. This is
the only place where errors become messages. Decoding happens in `engine_thread`; here it is only
watched, on the server's event loop, so that a visitor who waits costs no thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from eagle.errors import EagleError
from visual_encoder.errors import VisualEncoderError
from vlm.errors import ConfigError, ImagesNotSupported, VlmError
from vlm.requests import GenerationRequest
from vlm.trace_recording import TraceRecorder
from vlm.ui import panels
from vlm.ui.controls import Controls
from vlm.ui.conversation import (
    Conversation,
    Question,
    Turn,
    chat_messages,
    request_messages,
)
from vlm.ui.engine_thread import EngineThread
from vlm.ui.examples import Example

# More would be seen by nobody and, on a machine that decodes on its CPU, taken from decoding.
UPDATES_PER_SECOND = 10
# A closed tab is noticed when a message cannot be sent, so one is sent at least this often.
HEARTBEAT_SECONDS = 0.5

# What a visitor caused and can correct; anything else is a fault of ours.
REFUSALS = (VlmError, EagleError, VisualEncoderError)

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


def composer_ready(**value: Any) -> Any:
    return gr.update(submit_btn=True, stop_btn=False, **value)


def composer_busy() -> Any:
    return gr.update(value={"text": "", "files": []}, submit_btn=False, stop_btn=True)


class Handlers:
    """One object for all visitors; what belongs to one of them is kept under his session.

    An answer takes three events, one after the other: `ask` and its like take the question,
    `watch` shows the answer as it grows, `conclude` ends it. They are apart because Gradio builds
    a component anew for every update that skips it: while an answer streams, only what streams may
    be an output.
    """

    def __init__(self, engine: EngineThread, examples: tuple[Example, ...]) -> None:
        self._engine = engine
        self._info = engine.pipeline.info
        self._settings = engine.pipeline.settings
        self._examples = examples
        self._views: dict[str, AnswerView] = {}  # answers under way, by session

    def ask(
        self,
        request: gr.Request,
        message: dict[str, Any],
        conversation: Conversation,
        *controls: Any,
    ) -> PageUpdate:
        """The composer was sent."""
        images = tuple(Path(path) for path in message["files"])
        turn = Turn(message["text"].strip(), images)
        return self._begin(request, Question(conversation, turn, conversation), controls)

    def ask_example(
        self,
        request: gr.Request,
        event: gr.EventData,
        conversation: Conversation,
        *controls: Any,
    ) -> PageUpdate:
        """An example card was chosen."""
        example = self._examples[int(event._data["example"])]
        turn = Turn(example.question, (example.image,))
        return self._begin(request, Question(conversation, turn, conversation), controls)

    def regenerate(
        self, request: gr.Request, conversation: Conversation, *controls: Any
    ) -> PageUpdate:
        """The last question again, with the settings of now."""
        if not conversation:
            return PageUpdate()
        *before, last = conversation
        turn = Turn(last.question, last.images)
        return self._begin(request, Question(tuple(before), turn, conversation), controls)

    async def watch(self, request: gr.Request) -> AsyncGenerator[LiveUpdate, None]:
        """The answer as it grows, until it is over or the visitor wants something else."""
        session = str(request.session_hash)
        view = self._views.get(session)
        yield LiveUpdate()
        if view is None:
            return
        try:
            while not view.is_over:
                await asyncio.sleep(1 / UPDATES_PER_SECOND)
                if self._views.get(session) is not view:
                    return
                update = view.update()
                if update is not None:
                    yield update
        finally:
            # Reached also when the tab was closed: the engine must not go on for nobody.
            view.cancel()

    def conclude(self, request: gr.Request) -> PageUpdate:
        """The end of an answer, whatever it was."""
        session = str(request.session_hash)
        view = self._views.get(session)
        if view is None or not view.is_over:
            return PageUpdate()
        del self._views[session]
        return view.conclusion()

    def stop(self, request: gr.Request) -> None:
        """The engine stops within a step; `watch` sees it and ends."""
        view = self._views.get(str(request.session_hash))
        if view is not None:
            view.cancel()

    def leave(self, request: gr.Request) -> None:
        """The tab was closed."""
        self._forget(str(request.session_hash))

    def clear(self, request: gr.Request, use_eagle: bool) -> PageUpdate:
        """A new conversation."""
        self._forget(str(request.session_hash))
        return PageUpdate((), [], self.idle_panel(use_eagle), composer_ready(), "")

    def show_mode(self, request: gr.Request, use_eagle: bool) -> tuple[str, Any]:
        """EAGLE-3 was switched: the chip says so, and the panel unless an answer is under way."""
        chip = panels.model_chip(self._info, use_eagle=use_eagle)
        if str(request.session_hash) in self._views:
            return chip, KEEP
        return chip, {"mode": panels.mode_sentence(self._info, use_eagle=use_eagle)}

    def idle_panel(self, use_eagle: bool) -> dict[str, Any]:
        """The panel before the first question."""
        state = panel_state(self._engine, run=-1, phase="idle", use_eagle=use_eagle)
        return panels.panel_payload(state)

    def _begin(
        self, request: gr.Request, question: Question, values: tuple[Any, ...]
    ) -> PageUpdate:
        """Queue the question, or say why not: for that the engine is not needed yet."""
        session = str(request.session_hash)
        try:
            if session in self._views:
                raise ConfigError("The last answer is still being written: stop it first.")
            generation = self._generation_request(question, values)
        except REFUSALS as error:
            return PageUpdate(notice=panels.notice(str(error)))
        view = AnswerView(self._engine, generation, question)
        self._views[session] = view
        return view.start()

    def _generation_request(self, question: Question, values: tuple[Any, ...]) -> GenerationRequest:
        if question.turn.images and self._info.no_images_reason is not None:
            raise ImagesNotSupported(self._info.no_images_reason)
        if not question.turn.question:
            raise ConfigError("Type a question first.")
        messages = request_messages(question.conversation)
        return Controls.from_values(values).request(messages, self._settings)

    def _forget(self, session: str) -> None:
        """Give up the answer under way, if there is one."""
        view = self._views.pop(session, None)
        if view is not None:
            view.cancel()


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
        self._last_sent = time.monotonic()
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

    def update(self) -> LiveUpdate | None:
        """What changed since the last call; None when nothing did."""
        # In this order: what the engine put before it finished is then in the queue.
        self.is_over = self._run.is_finished or self._run.is_cancelled
        events = self._run.drain()
        for event in events:
            self._trace.add(event)
        changed = bool(events) or self._phase() != self._shown_phase
        now = time.monotonic()
        if self.is_over or not (changed or now - self._last_sent >= HEARTBEAT_SECONDS):
            return None
        self._last_sent, self._shown_phase = now, self._phase()
        return LiveUpdate(self._chat(), self._panel())

    def conclusion(self) -> PageUpdate:
        """The answer with its figures, or the message of the error that ended it."""
        error = self._run.error
        if isinstance(error, REFUSALS) and not self._trace.has_begun:
            return self._refusal(str(error))
        turn = replace(
            self._question.turn,
            answer=self._trace.text,
            run=self._run.number,
            figures=self._figures(),
            problem="" if error is None else broken_off(error),
        )
        conversation = (*self._question.before, turn)
        self._num_records_sent = 0  # all of them once more mend what got lost on the way
        return PageUpdate(
            conversation, chat_messages(conversation), self._panel(), composer_ready(), ""
        )

    def _figures(self) -> str:
        run = self._trace.run
        if run is not None and self._trace.steps:
            image_tokens = [image.num_tokens for image in self._trace.images]
            return panels.figures_line(run, image_tokens, self._trace.end())
        return "" if self._run.error is not None else "stopped before the first token"

    def _refusal(self, reason: str) -> PageUpdate:
        """Nothing was answered: the visitor gets the question back, to correct it."""
        turn = self._question.turn
        value = {"text": turn.question, "files": [str(path) for path in turn.images]}
        return PageUpdate(
            chat=chat_messages(self._question.on_refusal),
            panel=self._panel(),
            composer=composer_ready(value=value),
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
        return "prefill" if self._engine.num_ahead(self._run) == 0 else "waiting"

    def _chat(self) -> list[dict[str, Any]]:
        if self._trace.text:
            turn = replace(self._question.turn, answer=self._trace.text, run=self._run.number)
            return chat_messages((*self._question.before, turn))
        return chat_messages(self._question.conversation, waiting_for=self._waiting_for())

    def _waiting_for(self) -> str:
        ahead = self._engine.num_ahead(self._run)
        if ahead:
            return f"Waiting for the engine: {ahead} before you"
        return "Reading the picture" if self._question.turn.images else "Reading the question"

    def _panel(self) -> dict[str, Any]:
        """Only the records that the panel does not have yet."""
        state = panel_state(
            self._engine,
            run=self._run.number,
            phase=self._phase(),
            use_eagle=self._request.use_eagle,
        )
        records, first = self._trace.records, self._num_records_sent
        self._num_records_sent = len(records)
        end = self._trace.end() if self._trace.steps else None
        return panels.panel_payload(state, records, end, first=first)


def panel_state(
    engine: EngineThread, *, run: int, phase: str, use_eagle: bool
) -> panels.PanelState:
    mode = panels.mode_sentence(engine.pipeline.info, use_eagle=use_eagle)
    height = engine.pipeline.settings.draft_step + 1
    return panels.PanelState(run, phase, mode, height, engine.base_step_seconds)


def broken_off(error: Exception) -> str:
    """The message for an answer that an error ended; the conversation goes on."""
    if isinstance(error, REFUSALS):
        return str(error)
    reason = str(error) or type(error).__name__
    return f"The answer broke off: {reason} The conversation is kept; you can ask again."
