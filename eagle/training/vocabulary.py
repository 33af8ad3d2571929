"""The draft vocabulary: the tokens the base writes most often, and the maps to its own ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class DraftVocabulary:
    """`d2t` (Vd,) int64: target id = draft id + d2t[draft id]; `t2d` (V,) bool: membership."""

    d2t: torch.Tensor
    t2d: torch.Tensor

    @property
    def target_ids(self) -> torch.Tensor:
        """(Vd,) ascending target ids of the draft vocabulary."""
        return self.d2t + torch.arange(len(self.d2t), device=self.d2t.device)


def build_vocabulary(counts: Counter[int], size: int, vocab_size: int) -> DraftVocabulary:
    """The `size` most frequent tokens; ties and missing ones go to the smallest ids."""
    if size > vocab_size:
        raise ValueError(f"a draft vocabulary of {size} exceeds the base's {vocab_size} tokens")
    ranked = sorted(counts, key=lambda token: (-counts[token], token))[:size]
    chosen = set(ranked)
    unused = (token for token in range(vocab_size) if token not in counts)
    while len(chosen) < size:
        chosen.add(next(unused))
    return vocabulary_of(torch.tensor(sorted(chosen)), vocab_size)


def vocabulary_of(target_ids: torch.Tensor, vocab_size: int) -> DraftVocabulary:
    """The maps for these ascending target ids."""
    t2d = torch.zeros(vocab_size, dtype=torch.bool)
    t2d[target_ids] = True
    return DraftVocabulary(target_ids - torch.arange(len(target_ids)), t2d)


def count_tokens(answers: Iterable[tuple[int, ...]]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for answer in answers:
        counts.update(answer)
    return counts


def coverage(counts: Counter[int], vocabulary: DraftVocabulary) -> float:
    """Share of the counted tokens that the draft can propose."""
    inside = sum(n for token, n in counts.items() if vocabulary.t2d[token])
    return inside / max(1, counts.total())
