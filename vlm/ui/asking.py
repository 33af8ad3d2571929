"""From what a visitor typed and set to a request, and from errors to sentences for him."""

from __future__ import annotations

from typing import Any

from vlm.errors import REFUSALS, ConfigError, ImagesNotSupported, PromptTooLong
from vlm.requests import GenerationRequest
from vlm.ui.controls import Controls
from vlm.ui.conversation import Question, request_messages
from vlm.ui.engine_thread import EngineThread
from vlm.ui.memory import memory_sentence


def generation_request(
    engine: EngineThread, question: Question, values: tuple[Any, ...]
) -> GenerationRequest:
    """What is asked of the engine. Raises one of `REFUSALS` for what does not fit."""
    info = engine.pipeline.info
    if question.turn.images and info.no_images_reason is not None:
        raise ImagesNotSupported(info.no_images_reason)
    if not question.turn.question:
        raise ConfigError("Type a question first.")
    messages = request_messages(question.conversation)
    return Controls.from_values(values).request(messages, engine.pipeline.settings)


def broken_off(error: Exception) -> str:
    """The message for an answer that an error ended; the conversation goes on."""
    short_of_memory = memory_sentence(error)
    if short_of_memory is not None:
        return f"{short_of_memory} The conversation is kept."
    if isinstance(error, PromptTooLong):
        remedy = "press “New chat”, or lower “At most, a picture” in the settings"
        return f"{error} On this page: {remedy}."
    if isinstance(error, REFUSALS):
        return str(error)
    reason = str(error) or type(error).__name__
    return f"The answer broke off: {reason} The conversation is kept; you can ask again."
