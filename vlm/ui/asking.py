"""From what a visitor typed and set to a request, and from errors to sentences for him."""

from __future__ import annotations

from typing import Any

import torch

from eagle.errors import EagleError
from visual_encoder.errors import VisualEncoderError
from vlm.errors import ConfigError, ImagesNotSupported, PromptTooLong, VlmError
from vlm.requests import GenerationRequest
from vlm.ui.controls import Controls
from vlm.ui.conversation import Question, request_messages
from vlm.ui.engine_thread import EngineThread

# What a visitor caused and can correct; anything else is a fault of ours.
REFUSALS = (VlmError, EagleError, VisualEncoderError)


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
    if isinstance(error, PromptTooLong):
        remedy = "press “New chat”, or lower “At most, a picture” in the settings"
        return f"{error} On this page: {remedy}."
    if isinstance(error, REFUSALS):
        return str(error)
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return (
            "There was not enough memory for this. Lower “At most, a picture” and “Max new tokens” "
            "in the settings, or start with a smaller --max-kv-cache-capacity. The conversation is "
            "kept."
        )
    reason = str(error) or type(error).__name__
    return f"The answer broke off: {reason} The conversation is kept; you can ask again."
