"""Acceptance: which path of the tree the target agrees with, and the token it adds itself.

Both rules are lossless. Greedy follows the target's argmax. Sampling treats each candidate as a
point-mass proposal: it is kept with the target's own probability, and a refused candidate's mass is
removed before the next one is tried (recursive rejection sampling with q = 1), so every token has
exactly the target's distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from eagle.sampling import Sampler, greedy_tokens
from eagle.tree import DraftTree


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """`path` are the tree nodes to commit, root first; `bonus_token` is the target's own."""

    path: tuple[int, ...]
    bonus_token: int

    @property
    def num_accepted(self) -> int:
        return len(self.path) - 1


def accept(tree: DraftTree, logits: torch.Tensor, sampler: Sampler) -> VerifyResult:
    """Walk the tree from its root. logits (T, V) are the target's at every node."""
    return (
        accept_greedy(tree, logits) if sampler.is_greedy else accept_sampled(tree, logits, sampler)
    )


def accept_greedy(tree: DraftTree, logits: torch.Tensor) -> VerifyResult:
    """Descend while a child carries the target's argmax."""
    wanted = greedy_tokens(logits).tolist()
    path = [0]
    while True:
        token = wanted[path[-1]]
        child = next((c for c in tree.children[path[-1]] if tree.token_ids[c] == token), None)
        if child is None:
            return VerifyResult(tuple(path), token)
        path.append(child)


def accept_sampled(tree: DraftTree, logits: torch.Tensor, sampler: Sampler) -> VerifyResult:
    """Descend while a child is accepted with the target's (residual) probability."""
    path = [0]
    while True:
        probabilities = sampler.probabilities(logits[path[-1]])
        child = _first_accepted(tree, tree.children[path[-1]], probabilities, sampler)
        if child is None:
            return VerifyResult(tuple(path), sampler.draw(probabilities))
        path.append(child)


def _first_accepted(
    tree: DraftTree, children: tuple[int, ...], probabilities: torch.Tensor, sampler: Sampler
) -> int | None:
    """Try candidates in order; on refusal zero theirs in `probabilities` (in place)."""
    for child in children:
        token = tree.token_ids[child]
        probability = float(probabilities[token])
        if sampler.accepts(probability):
            return child
        probabilities[token] = 0
        remaining = probabilities.sum()
        if remaining <= 0:
            # All mass was on this candidate; only rounding can have refused it.
            probabilities[token] = 1
            return child
        probabilities /= remaining
    return None
