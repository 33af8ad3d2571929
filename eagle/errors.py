"""Errors of `eagle` that a person can act on; each message is one sentence with the numbers."""

from __future__ import annotations


class EagleError(Exception):
    """Base of everything that `eagle` refuses."""


class EagleConfigError(EagleError):
    """An option, or a combination of options, that cannot work."""


class DraftMismatch(EagleError):
    """A draft checkpoint that is malformed or does not fit its target."""


class KVCacheFull(EagleError):
    """The prompt and the requested output do not fit into the KV cache."""
