"""Token ids to text as they come: UTF-8 fragments joined, stop strings never shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream


class TextStream:
    """The text of one answer. `push` returns what may be shown now, `finish` the rest."""

    def __init__(self, tokenizer: Tokenizer, stop: tuple[str, ...] = ()) -> None:
        self._tokenizer = tokenizer
        self._decoder = DecodeStream(skip_special_tokens=True)
        self._stop = stop
        self._token_ids: list[int] = []
        self.shown = ""
        self.pieces: list[str] = []  # a token each: the characters that it completed
        self._pending = ""  # decoded, but possibly the beginning of a stop string

    def push(self, token_ids: Sequence[int]) -> str:
        self._token_ids += token_ids
        decoded = [self._decoder.step(self._tokenizer, token) or "" for token in token_ids]
        self.pieces += decoded
        self._pending += "".join(decoded)
        before_stop, found = _before_stop(self._pending, self._stop)
        held = 0 if found else _possible_stop_length(before_stop, self._stop)
        ready = before_stop[: len(before_stop) - held]
        self._pending = "" if found else before_stop[len(ready) :]
        self.shown += ready
        return ready

    def finish(self) -> str:
        """What was held back: the start of no stop string after all, an incomplete character."""
        whole = self._tokenizer.decode(self._token_ids, skip_special_tokens=True)
        whole, _ = _before_stop(whole, self._stop)
        rest = whole[len(self.shown) :] if whole.startswith(self.shown) else ""
        self.shown += rest
        return rest


class TokenTexts:
    """Every token's text by itself, special tokens included, looked up once a token."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._texts: dict[int, str] = {}

    def __call__(self, token_ids: Iterable[int]) -> tuple[str, ...]:
        return tuple(self._text(token) for token in token_ids)

    def _text(self, token: int) -> str:
        if token not in self._texts:
            self._texts[token] = self._tokenizer.decode([token], skip_special_tokens=False)
        return self._texts[token]


def _before_stop(text: str, stop: tuple[str, ...]) -> tuple[str, bool]:
    """The text before the first stop string, and whether there was one."""
    positions = [at for at in (text.find(word) for word in stop) if at >= 0]
    return (text[: min(positions)], True) if positions else (text, False)


def _possible_stop_length(text: str, stop: tuple[str, ...]) -> int:
    """Length of the longest end of `text` that a stop string begins with."""
    lengths = (
        size for word in stop for size in range(1, len(word) + 1) if text.endswith(word[:size])
    )
    return max(lengths, default=0)


def contains_stop_string(
    tokenizer: Tokenizer, stop: tuple[str, ...]
) -> Callable[[Sequence[int]], bool]:
    """A predicate for `StopRule`: does the text that ends with these tokens hold a stop string?

    Only the last tokens are decoded: a stop string of c bytes spans at most c of them.
    """
    span = max(len(word.encode()) for word in stop) + 4  # an unfinished character before it

    def completes(token_ids: Sequence[int]) -> bool:
        text = tokenizer.decode(list(token_ids[-span:]), skip_special_tokens=True)
        return any(word in text for word in stop)

    return completes
