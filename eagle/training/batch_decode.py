"""Batched decoding of a transformers base, fast enough on a CPU to write a training set.

What comes in: requests (prompt ids, a seed, a temperature). What goes out: completions, each with
the hidden states that the same forward passes produced, so that nobody has to run the base over
the text again. This module knows nothing of prompts' meaning, tokenizers or files.

The plain `generate` of transformers spends most of its time concatenating caches and repeating
key/value heads. Here each running request owns a row of one preallocated cache, grouped-query
attention reads it without repeating anything, and a finished row is refilled from the queue.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import AttentionInterface, PreTrainedModel

from eagle.training.base import Base
from eagle.training.images import MergedInput
from eagle.training.shards import Features

ATTENTION_NAME = "eagle_training_rows"
SAMPLING_TOP_K = 64  # sampled answers draw from the 64 likeliest tokens


@dataclass(frozen=True, slots=True)
class Request:
    """One text to continue. Temperature 0 is greedy. `merged` replaces the ids' embeddings."""

    key: int
    prompt_ids: tuple[int, ...]
    temperature: float
    max_new_tokens: int
    seed: int
    merged: MergedInput | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished request.

    `greedy_ids` are the base's likeliest tokens where `new_ids` were chosen (the same ones unless
    the request samples). `states` (n, 4H) bfloat16 holds, for each token that was fed to the base
    (every token but the last one generated), the captured low, mid and high states and the final
    normed state.
    """

    request: Request
    new_ids: tuple[int, ...]
    greedy_ids: tuple[int, ...]
    states: torch.Tensor

    @property
    def features(self) -> Features:
        """The states and, for a merged prompt, what stood at its placeholders."""
        merged = self.request.merged
        if merged is None:
            return Features(self.states, self.states.new_empty(0, self.states.shape[1] // 4))
        return Features(self.states, merged.image_embeds.to("cpu", self.states.dtype))


def grouped_attention(
    module: nn.Module,
    query: torch.Tensor,  # (B, nh, L, d)
    key: torch.Tensor,  # (B, nkv, T, d)
    value: torch.Tensor,  # (B, nkv, T, d)
    attention_mask: torch.Tensor | None,  # (B, 1, 1, T) bool, or None for a causal prefill
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Grouped-query attention; in a decode step the group takes the place of the query axis."""
    rows, num_heads, length, head_dim = query.shape
    if attention_mask is None:
        out = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=True
        )
        return out.transpose(1, 2), None
    grouped = query.view(rows, key.shape[1], num_heads // key.shape[1], head_dim)
    out = F.scaled_dot_product_attention(
        grouped, key, value, attn_mask=attention_mask, scale=scaling
    )
    return out.reshape(rows, length, num_heads, head_dim), None


AttentionInterface.register(ATTENTION_NAME, grouped_attention)


class RowCache:
    """Keys and values of all running requests: per layer two tensors (rows, nkv, capacity, d).

    It offers the one method that attention layers call. `begin_prefill` and `begin_decode` say
    where the next forward's keys go.
    """

    def __init__(self, model: PreTrainedModel, rows: int, capacity: int) -> None:
        config = model.config.get_text_config()
        head_dim = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        shape = (rows, config.num_key_value_heads, capacity, head_dim)
        layers = range(config.num_hidden_layers)
        self.keys = [torch.zeros(shape, dtype=model.dtype, device=model.device) for _ in layers]
        self.values = [torch.zeros(shape, dtype=model.dtype, device=model.device) for _ in layers]
        self._rows = torch.arange(rows)
        self._lengths: torch.Tensor | None = None
        self._width = 0

    def begin_prefill(self, rows: torch.Tensor) -> None:
        self._rows, self._lengths = rows, None

    def begin_decode(self, rows: torch.Tensor, lengths: torch.Tensor) -> None:
        self._rows, self._lengths = rows, lengths
        self._width = int(lengths.max()) + 1

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store (B, nkv, L, d) and return what the queries may look at."""
        keys, values = self.keys[layer], self.values[layer]
        if self._lengths is None:
            keys[self._rows, :, : key.shape[2]] = key
            values[self._rows, :, : key.shape[2]] = value
            return key, value
        keys[self._rows, :, self._lengths] = key[:, :, 0]
        values[self._rows, :, self._lengths] = value[:, :, 0]
        used = len(self._rows)  # running requests always fill the first rows
        return keys[:used, :, : self._width], values[:used, :, : self._width]

    def move(self, source: int, destination: int) -> None:
        for tensor in (*self.keys, *self.values):
            tensor[destination] = tensor[source]


class StateCapture:
    """Records the residual stream after the chosen layers and the final normed state.

    `layer_ids` follow SGLang: the output of layer j. `collect` returns (B, L, 4H).
    """

    def __init__(self, decoder: Any, layer_ids: Sequence[int]) -> None:
        self._states: list[torch.Tensor] = []
        modules = [*(decoder.layers[index] for index in layer_ids), decoder.norm]
        self._handles = [module.register_forward_hook(self._record) for module in modules]

    def _record(self, _module: nn.Module, _inputs: object, output: Any) -> None:
        self._states.append(output[0] if isinstance(output, tuple) else output)

    def collect(self) -> torch.Tensor:
        states, self._states = torch.cat(self._states, dim=-1), []
        return states

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()


@dataclass(slots=True)
class _Running:
    request: Request
    states: torch.Tensor  # (prompt + max_new_tokens, 4H)
    length: int  # tokens fed so far
    rope_delta: int  # position of the next token, less `length`
    new_ids: list[int] = field(default_factory=list)
    greedy_ids: list[int] = field(default_factory=list)
    rng: random.Random = field(default_factory=random.Random)


def choose(logits: torch.Tensor, running: Sequence[_Running]) -> None:
    """Append one token per row of (B, V) logits: the argmax, or a draw from the row's stream."""
    greedy: list[int] = logits.argmax(-1).tolist()
    chosen = list(greedy)
    sampled = [i for i, row in enumerate(running) if row.request.temperature > 0]
    if sampled:
        temperatures = torch.tensor([running[i].request.temperature for i in sampled])
        most_likely = logits[sampled].float().topk(min(SAMPLING_TOP_K, logits.shape[-1]))
        top, ids = most_likely.values.cpu(), most_likely.indices.cpu()
        cumulative = torch.softmax(top / temperatures[:, None], -1).cumsum(-1)
        draws = torch.tensor([[running[i].rng.random()] for i in sampled])
        picks = (cumulative < draws * cumulative[:, -1:]).sum(-1).clamp(max=ids.shape[1] - 1)
        for i, token in zip(sampled, ids.gather(1, picks[:, None])[:, 0].tolist(), strict=True):
            chosen[i] = token
    for row, token, greedy_token in zip(running, chosen, greedy, strict=True):
        row.new_ids.append(token)
        row.greedy_ids.append(greedy_token)


class BatchDecoder:
    """Runs requests `rows` at a time and yields completions as they finish."""

    def __init__(self, base: Base, *, rows: int = 64, capacity: int = 512) -> None:
        self.base, self.rows, self.capacity = base, rows, capacity
        # The visual encoder keeps its own attention, which is not causal.
        base.decoder.set_attn_implementation(ATTENTION_NAME)
        self._embed: Any = base.model.get_input_embeddings()
        self._capture = StateCapture(base.decoder, base.layer_ids)
        self._cache = RowCache(base.model, rows, capacity)
        self._device = base.model.device
        self._running: list[_Running] = []

    def close(self) -> None:
        """Take the hooks off the base again."""
        self._capture.close()

    @torch.inference_mode()
    def run(
        self, requests: Sequence[Request], on_tokens: Callable[[int], None] = lambda _: None
    ) -> Iterator[Completion]:
        """Yield every request's completion; `on_tokens` hears how many tokens each step wrote."""
        # Neighbours in the queue are prefilled together, so sorting them saves padding.
        queue = deque(sorted(requests, key=lambda r: (-len(r.prompt_ids), r.key)))
        while queue or self._running:
            free = self.rows - len(self._running)
            # A prefill of few rows wastes the matrix kernels, so wait for a batch of free rows.
            if queue and (free >= max(1, self.rows // 6) or free >= len(queue)):
                self._prefill([queue.popleft() for _ in range(min(free, len(queue)))])
            else:
                self._decode_step()
            on_tokens(len(self._running))
            yield from self._retire()

    def _forward(self, embeds: torch.Tensor, positions: torch.Tensor, mask: Any) -> torch.Tensor:
        """Captured states (B, L, 4H) of embeds (B, L, H) at positions (3, B, L)."""
        self.base.decoder(
            inputs_embeds=embeds,
            position_ids=positions if self.base.is_multi_axis else positions[0],
            attention_mask=mask,
            past_key_values=self._cache,
            use_cache=True,
        )
        return self._capture.collect()

    def _head(self, states: torch.Tensor) -> torch.Tensor:
        """Logits (B, V) of captured states (B, 4H)."""
        return states[:, -states.shape[-1] // 4 :] @ self.base.head.T

    def _prefill(self, requests: Sequence[Request]) -> None:
        lengths = torch.tensor([len(request.prompt_ids) for request in requests])
        # Padding stands on the right: causal attention never sees it, and the first decode steps
        # overwrite its cache columns.
        ids = torch.zeros(len(requests), int(lengths.max()), dtype=torch.long)
        for row, request in enumerate(requests):
            ids[row, : len(request.prompt_ids)] = torch.tensor(request.prompt_ids)
        embeds = self._embed(ids.to(self._device))
        positions = torch.arange(ids.shape[1], device=self._device).repeat(3, len(requests), 1)
        for row, request in enumerate(requests):
            if request.merged is not None:
                embeds[row, : len(request.prompt_ids)] = request.merged.embeds
                positions[:, row, : len(request.prompt_ids)] = request.merged.positions
        first = len(self._running)
        self._cache.begin_prefill(torch.arange(first, first + len(requests)))
        states = self._forward(embeds, positions, None)
        fresh = []
        for row, request in enumerate(requests):
            length = len(request.prompt_ids)
            total = length + request.max_new_tokens
            if total > self.capacity:
                raise ValueError(f"a request needs {total} tokens, the cache has {self.capacity}")
            buffer = torch.empty(total, states.shape[-1], dtype=torch.bfloat16, device=self._device)
            buffer[:length] = states[row, :length]
            delta = int(positions[:, row, :length].max()) + 1 - length
            fresh.append(_Running(request, buffer, length, delta, rng=random.Random(request.seed)))
        logits = self._head(states[torch.arange(len(requests)), lengths - 1])
        self._running.extend(fresh)
        choose(logits, fresh)

    def _decode_step(self) -> None:
        device = self._device
        lengths = torch.tensor([running.length for running in self._running], device=device)
        self._cache.begin_decode(torch.arange(len(lengths), device=device), lengths)
        deltas = torch.tensor([running.rope_delta for running in self._running], device=device)
        ids = torch.tensor([[running.new_ids[-1]] for running in self._running], device=device)
        mask = torch.arange(int(lengths.max()) + 1, device=device)[None] <= lengths[:, None]
        positions = (lengths + deltas)[:, None].repeat(3, 1, 1)
        states = self._forward(self._embed(ids), positions, mask[:, None, None])[:, 0]
        for row, running in enumerate(self._running):
            running.states[running.length] = states[row]
            running.length += 1
        choose(self._head(states), self._running)

    def _retire(self) -> Iterator[Completion]:
        """Yield finished requests and close the gaps, last row first."""
        for row in reversed(range(len(self._running))):
            running = self._running[row]
            done = len(running.new_ids) >= running.request.max_new_tokens
            if not done and running.new_ids[-1] not in self.base.stop_ids:
                continue
            last = self._running.pop()
            if row < len(self._running):
                self._running[row] = last
                self._cache.move(len(self._running), row)
            states = running.states[: running.length].to("cpu", copy=True)
            chosen, greedy = tuple(running.new_ids), tuple(running.greedy_ids)
            yield Completion(running.request, chosen, greedy, states)
