"""Errors of the application. Whoever shows them prints the message: it is a whole sentence."""

from __future__ import annotations

from eagle.errors import EagleError
from visual_encoder.errors import VisualEncoderError


class VlmError(Exception):
    """Base of everything a user can cause and correct."""


class ConfigError(VlmError):
    """Options that are wrong or do not fit each other."""


class CheckpointError(VlmError):
    """A checkpoint that is missing, incomplete or of a kind we do not run."""


class PromptTooLong(VlmError):
    """The prompt, or prompt and answer together, exceed a limit."""


class ImagesNotSupported(VlmError):
    """A picture was sent to a text-only base."""


class EngineLost(VlmError):
    """The process that decodes is gone."""


class TraceError(VlmError):
    """A trace that cannot be read, or that contradicts itself."""


# What a user caused and can correct; anything else is a fault of ours.
REFUSALS = (VlmError, EagleError, VisualEncoderError)
