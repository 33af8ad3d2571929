"""What a visitor does in the chat becomes updates of the page.

Comes in: what he did. Goes out: `PageUpdate`s. Decoding happens in `engine_thread`; here it is only
watched (`watching`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import gradio as gr

from vlm.errors import REFUSALS, ConfigError
from vlm.ui import panels
from vlm.ui.answers import (
    KEEP,
    AnswerView,
    LiveUpdate,
    PageUpdate,
    composer_ready,
    panel_state,
)
from vlm.ui.asking import generation_request
from vlm.ui.conversation import Conversation, Question, Turn
from vlm.ui.engine_thread import EngineThread
from vlm.ui.examples import Example
from vlm.ui.watching import Watching


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
        self._examples = examples
        self._answers: Watching[AnswerView] = Watching()

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
        """The answer as it grows."""
        yield LiveUpdate()
        async for view in self._answers.follow(str(request.session_hash)):
            yield view.update()

    def conclude(self, request: gr.Request) -> PageUpdate:
        """The end of an answer, whatever it was."""
        view = self._answers.conclude(str(request.session_hash))
        return PageUpdate() if view is None else view.conclusion()

    def stop(self, request: gr.Request) -> None:
        """The engine stops within a step; `watch` sees it and ends."""
        self._answers.cancel(str(request.session_hash))

    def leave(self, request: gr.Request) -> None:
        """The tab was closed."""
        self._answers.forget(str(request.session_hash))

    def clear(self, request: gr.Request, use_eagle: bool) -> PageUpdate:
        """A new conversation."""
        self._answers.forget(str(request.session_hash))
        return PageUpdate((), [], self.idle_panel(use_eagle), composer_ready(), "")

    def show_mode(self, request: gr.Request, use_eagle: bool) -> tuple[str, Any]:
        """EAGLE-3 was switched: the chip says so, and the panel unless an answer is under way."""
        chip = panels.model_chip(self._info, use_eagle=use_eagle)
        if str(request.session_hash) in self._answers:
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
            if session in self._answers:
                raise ConfigError("The last answer is still being written: stop it first.")
            generation = generation_request(self._engine, question, values)
        except REFUSALS as error:
            return PageUpdate(notice=panels.notice(str(error)))
        view = AnswerView(self._engine, generation, question)
        self._answers.begin(session, view)
        return view.start()
