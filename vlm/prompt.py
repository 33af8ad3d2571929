"""From a conversation to token ids: the checkpoint's chat template, image placeholders expanded.

What a person typed can never become a special token. The template is rendered with a marker in
place of every text; only the template's own parts are searched for special tokens, and everything
between two of them is encoded as ordinary text, just as the tokenizer would split it itself.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from vlm.errors import CheckpointError, VlmError
from vlm.requests import ChatMessage


@dataclass(frozen=True, slots=True)
class TokenizedPrompt:
    """`image_starts` are indices of the first token of every picture, in order."""

    token_ids: tuple[int, ...]
    image_starts: tuple[int, ...]


class PromptBuilder:
    """Tokenizer and chat template of one checkpoint. `image_token_id` None: text only."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, image_token_id: int | None) -> None:
        if not tokenizer.chat_template:
            raise CheckpointError("The base has no chat template, so it cannot be asked questions.")
        self.tokenizer = tokenizer
        self.image_token_id = image_token_id
        special = {
            token.content: index
            for index, token in tokenizer.added_tokens_decoder.items()
            if token.special
        }
        self._special_ids = special
        names = sorted(special, key=len, reverse=True)
        self._special_pattern = re.compile("|".join(map(re.escape, names)) or r"(?!)")
        # A copy, because the switch below would change the tokenizer for everybody.
        self._text_encoder = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._text_encoder.encode_special_tokens = True
        self._strips_text = self._render([ChatMessage("user", "")], ["  x  "]).count("  x  ") == 0

    def build(
        self, messages: Sequence[ChatMessage], image_token_counts: Sequence[int]
    ) -> TokenizedPrompt:
        """Tokens up to where the answer begins. One count a picture, in order of appearance."""
        markers = [f"\x02{secrets.token_hex(8)}\x03" for _ in messages]
        rendered = self._render(messages, markers)
        token_ids = self._encode(rendered, dict(zip(markers, messages, strict=True)))
        return self._expand_images(token_ids, image_token_counts)

    def encode_text(self, text: str) -> list[int]:
        """Ids of ordinary text: special tokens in it are spelled out."""
        ids: list[int] = self._text_encoder.encode(text, add_special_tokens=False).ids
        return ids

    def _render(self, messages: Sequence[ChatMessage], texts: Sequence[str]) -> str:
        conversation = [
            {"role": message.role, "content": self._content(message, text)}
            for message, text in zip(messages, texts, strict=True)
        ]
        rendered = self.tokenizer.apply_chat_template(
            conversation,  # type: ignore[arg-type]  # content may be a list of parts
            tokenize=False,
            add_generation_prompt=True,
        )
        assert isinstance(rendered, str)
        return rendered

    def _content(self, message: ChatMessage, text: str) -> str | list[dict[str, Any]]:
        if self.image_token_id is None or message.role != "user":
            return text
        pictures: list[dict[str, Any]] = [{"type": "image"} for _ in message.images]
        return [*pictures, {"type": "text", "text": text}]

    def _encode(self, rendered: str, texts: dict[str, ChatMessage]) -> list[int]:
        """Encode the runs between the template's special tokens as ordinary text."""
        token_ids: list[int] = []
        run = ""
        for part in re.split("(" + "|".join(map(re.escape, texts)) + ")", rendered):
            if part in texts:
                text = texts[part].text
                run += text.strip() if self._strips_text else text
                continue
            end = 0
            for match in self._special_pattern.finditer(part):
                token_ids += self.encode_text(run + part[end : match.start()])
                token_ids.append(self._special_ids[match.group()])
                run, end = "", match.end()
            run += part[end:]
        return token_ids + self.encode_text(run)

    def _expand_images(
        self, token_ids: Sequence[int], image_token_counts: Sequence[int]
    ) -> TokenizedPrompt:
        placeholders = sum(1 for token in token_ids if token == self.image_token_id)
        if placeholders != len(image_token_counts):
            raise VlmError(
                f"The chat template made {placeholders} places for {len(image_token_counts)} "
                f"pictures; this base's template cannot place them."
            )
        counts = iter(image_token_counts)
        expanded: list[int] = []
        starts: list[int] = []
        for token in token_ids:
            if token != self.image_token_id:
                expanded.append(token)
                continue
            starts.append(len(expanded))
            expanded += [token] * next(counts)
        return TokenizedPrompt(tuple(expanded), tuple(starts))
