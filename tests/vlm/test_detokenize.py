"""Text as it comes: fragments joined, stop strings held back."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from vlm.detokenize import TextStream, contains_stop_string


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """One token a byte, so that every character beyond ASCII is split."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


TEXT = "Grüße 🦅, ok"


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_characters_appear_whole(tokenizer: Tokenizer, size: int) -> None:
    ids = tokenizer.encode(TEXT).ids
    stream = TextStream(tokenizer)
    pieces = [stream.push(ids[at : at + size]) for at in range(0, len(ids), size)]
    assert all("\ufffd" not in piece for piece in pieces)
    assert "".join(pieces) + stream.finish() == TEXT == stream.shown


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_stop_string_is_never_shown(tokenizer: Tokenizer, size: int) -> None:
    ids = tokenizer.encode("one END two").ids
    stream = TextStream(tokenizer, ("END",))
    completes = contains_stop_string(tokenizer, ("END",))
    seen = ""
    for at in range(0, len(ids), size):
        seen += stream.push(ids[at : at + size])
        assert "E" not in seen
        if completes(ids[: at + size]):
            break
    assert seen + stream.finish() == "one "


def test_what_only_began_like_a_stop_string_is_shown(tokenizer: Tokenizer) -> None:
    stream = TextStream(tokenizer, ("END",))
    shown = stream.push(tokenizer.encode("an EN").ids)
    assert shown == "an "
    assert shown + stream.finish() == "an EN"
