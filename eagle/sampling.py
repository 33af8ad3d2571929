"""From logits to tokens: the one sampler that both decoding loops use.

Order of the processors: temperature, top-p, top-k, as in EAGLE's reference code.
"""

from __future__ import annotations

import torch

from eagle.types import SamplingParams


class Sampler:
    """Greedy or random choice with its own generator, so that a seed fixes the answer."""

    def __init__(self, params: SamplingParams, device: torch.device | None = None) -> None:
        self.params = params
        self._generator = torch.Generator(device=device or "cpu").manual_seed(params.seed)

    @property
    def is_greedy(self) -> bool:
        return self.params.is_greedy

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """Distribution that tokens are drawn from. logits (V,) -> (V,) float32, sum 1."""
        scaled = logits.float() / self.params.temperature
        if self.params.top_p < 1:
            scaled = _restrict_to_nucleus(scaled, self.params.top_p)
        if 0 < self.params.top_k < scaled.shape[-1]:
            threshold = scaled.topk(self.params.top_k).values[-1]
            scaled = scaled.masked_fill(scaled < threshold, -torch.inf)
        return scaled.softmax(-1)

    def choose(self, logits: torch.Tensor) -> int:
        """The next token from logits (V,)."""
        if self.is_greedy:
            return int(greedy_tokens(logits))
        return self.draw(self.probabilities(logits))

    def draw(self, probabilities: torch.Tensor) -> int:
        """A token from unnormalised probabilities (V,)."""
        return int(torch.multinomial(probabilities, 1, generator=self._generator))

    def accepts(self, probability: float) -> bool:
        """True with the given probability."""
        device = self._generator.device
        return float(torch.rand((), generator=self._generator, device=device)) < probability


def greedy_tokens(logits: torch.Tensor) -> torch.Tensor:
    """The most likely token of every row, (..., V) -> (...); of equals the first.

    In float32, which holds the same values: torch's argmax of bfloat16 is five times slower on a
    CPU.
    """
    return logits.float().argmax(-1)


def _restrict_to_nucleus(scaled: torch.Tensor, top_p: float) -> torch.Tensor:
    """Keep the fewest most likely tokens whose probabilities reach top_p; the first one always."""
    ordered, order = scaled.sort(descending=True, stable=True)
    probabilities = ordered.softmax(-1)
    mass_before = probabilities.cumsum(-1) - probabilities
    removed = torch.zeros_like(scaled, dtype=torch.bool)
    removed[order] = mass_before >= top_p
    return scaled.masked_fill(removed, -torch.inf)
