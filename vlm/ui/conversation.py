"""A conversation as the page keeps it, and the two forms made of it: for the model, for the chat.

The chat component's own value is never read back: it carries figures and messages of the page,
which must not reach the model.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlm.requests import ChatMessage
from vlm.ui.markdown import safe_markdown, verbatim


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and what came of it."""

    question: str
    images: tuple[Path, ...] = ()
    answer: str = ""
    figures: str = ""  # the line under the answer
    problem: str = ""  # why there is no (whole) answer
    run: int | None = None  # the engine's number of the run that answered


Conversation = tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What a visitor asked, and the conversation to return to when it is refused."""

    before: Conversation
    turn: Turn
    on_refusal: Conversation

    @property
    def conversation(self) -> Conversation:
        return (*self.before, self.turn)


WAITING_DOTS = '<span class="ee-dots"><i></i><i></i><i></i></span>'


def request_messages(conversation: Conversation) -> tuple[ChatMessage, ...]:
    """All turns for the model, pictures included; the last one is the open question.

    Turns without an answer are left out: a picture that was refused must not spoil the next turn.
    """
    messages: list[ChatMessage] = []
    for turn in conversation[:-1]:
        if turn.answer:
            messages.append(ChatMessage("user", turn.question, turn.images))
            messages.append(ChatMessage("assistant", turn.answer))
    last = conversation[-1]
    return (*messages, ChatMessage("user", last.question, last.images))


def chat_messages(conversation: Conversation, *, waiting_for: str = "") -> list[dict[str, Any]]:
    """The messages of the chat component. `waiting_for`: why the last answer has no text yet."""
    messages = [message for turn in conversation for message in (_question(turn), *_answer(turn))]
    if waiting_for:
        text = f'<div class="ee-waiting">{WAITING_DOTS}{html.escape(waiting_for)}</div>'
        messages.append({"role": "assistant", "content": [_text(text)]})
    return messages


def _question(turn: Turn) -> dict[str, Any]:
    content = [_picture(path, turn.question) for path in turn.images]
    return {"role": "user", "content": [*content, _text(verbatim(turn.question))]}


def _answer(turn: Turn) -> list[dict[str, Any]]:
    """Figures and problems are messages of their own, so that no open code block swallows them."""
    parts = []
    if turn.answer:
        parts.append(safe_markdown(turn.answer))
    if turn.problem:
        parts.append(f'<div class="ee-problem">{html.escape(turn.problem)}</div>')
    if turn.run is not None and turn.answer:
        # Filled by assets/page/answers.js; the same text at every update, so it stays in place.
        # The number is a class, since the chat's sanitiser takes other attributes away.
        parts.append(f'<div class="ee-answer-bar ee-run-{turn.run}"></div>')
    if turn.figures:
        parts.append(f'<div class="ee-figures">{html.escape(turn.figures)}</div>')
    return [{"role": "assistant", "content": [_text(part)]} for part in parts]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _picture(path: Path, question: str) -> dict[str, Any]:
    # Without a media type the chat offers a file to download instead of showing it.
    picture = {"path": str(path), "mime_type": "image/*"}
    alt_text = f"Picture for the question: {question}"
    return {"type": "file", "file": picture, "alt_text": alt_text}
