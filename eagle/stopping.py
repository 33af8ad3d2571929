"""When an answer ends: at end-of-sequence, at a stop string, at the token budget; never past it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from eagle.types import FinishReason


@dataclass(frozen=True, slots=True)
class StopRule:
    """`completes_stop_string` says whether the text of all tokens so far holds a stop string."""

    max_new_tokens: int
    eos_token_ids: frozenset[int] = field(default_factory=frozenset)
    completes_stop_string: Callable[[Sequence[int]], bool] | None = None

    def cut(
        self, generated: Sequence[int], new: Sequence[int]
    ) -> tuple[tuple[int, ...], FinishReason | None]:
        """How many of `new` may follow `generated`, and why decoding ends there, if it does.

        An end-of-sequence token and the token that completes a stop string are kept.
        """
        tokens = list(generated)
        for count, token in enumerate(new, start=1):
            tokens.append(token)
            reason = self._reason(tokens)
            if reason is not None:
                return tuple(new[:count]), reason
        return tuple(new), None

    def _reason(self, tokens: Sequence[int]) -> FinishReason | None:
        if tokens[-1] in self.eos_token_ids:
            return "eos"
        if self.completes_stop_string is not None and self.completes_stop_string(tokens):
            return "stop"
        return "length" if len(tokens) >= self.max_new_tokens else None
