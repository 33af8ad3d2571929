"""Errors of `visual_encoder` that a person can act on; each message is a whole sentence."""

from __future__ import annotations


class VisualEncoderError(Exception):
    """Base of everything that `visual_encoder` refuses."""


class InvalidLimits(VisualEncoderError):
    """Image-token limits that contradict each other."""


class ImageRefused(VisualEncoderError):
    """A picture that cannot be read or does not fit the limits.

    Where a limit was the reason, `actual` and `limit` are the two numbers and `flag` is the
    command-line option that moves the limit; all three also stand in the message.
    """

    def __init__(
        self,
        message: str,
        *,
        actual: float | None = None,
        limit: float | None = None,
        flag: str | None = None,
    ) -> None:
        super().__init__(message)
        self.actual = actual
        self.limit = limit
        self.flag = flag


class EngineUnavailable(VisualEncoderError):
    """An engine that cannot run here: the reason, and what to install or choose instead."""


class CheckpointError(VisualEncoderError):
    """A checkpoint whose vision tower is missing, incomplete, unexpected or of another kind."""


class EngineBuildFailed(VisualEncoderError):
    """An engine's builder refused the graph, its profile or its options; its log says why."""


class EngineOutdated(VisualEncoderError):
    """A built engine of another version or device: the message has the command that rebuilds it."""
