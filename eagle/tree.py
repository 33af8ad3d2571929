"""The draft tree: choose the best candidates, and the shapes that verification needs.

Candidates stand in a pool in the order in which they were drafted: k children of the root, then
k * k a level (k children for each of the k nodes that were expanded). A candidate's score is the
sum of draft log-probabilities along its path (EAGLE-2, arXiv 2406.16858, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

ROOT = -1  # parent of the first level in a pool, and of the root in a tree


@dataclass(frozen=True)
class CandidatePool:
    """All drafted candidates; `parents` are pool indices, always smaller than the child's."""

    token_ids: torch.Tensor  # (P,) int64, target vocabulary
    scores: torch.Tensor  # (P,) float32, cumulative log-probability
    parents: torch.Tensor  # (P,) int64

    def best(self, root_token: int, num_nodes: int) -> DraftTree:
        """The tree of the root and the `num_nodes` best candidates below it.

        Ties go to the smaller pool index. A child never scores above its parent and stands behind
        it, so a chosen node's parent is always chosen too.
        """
        order = torch.sort(self.scores, descending=True, stable=True).indices
        chosen = order[:num_nodes].sort().values.tolist()
        node_of = {ROOT: 0} | {index: node for node, index in enumerate(chosen, start=1)}
        parents = [ROOT] + [node_of[int(self.parents[index])] for index in chosen]
        token_ids = [root_token, *self.token_ids[chosen].tolist()]
        scores = [0.0, *self.scores[chosen].tolist()]
        return DraftTree(tuple(token_ids), tuple(parents), tuple(scores), (ROOT, *chosen))


@dataclass(frozen=True)
class DraftTree:
    """Nodes in breadth-first order, node 0 the root. A parent stands before its children."""

    token_ids: tuple[int, ...]
    parents: tuple[int, ...]  # parents[0] is ROOT
    scores: tuple[float, ...] = ()  # cumulative draft log-probability; empty: no draft scored it
    candidates: tuple[int, ...] = ()  # index of every node in its pool, ROOT for the root

    @classmethod
    def root_only(cls, token_id: int) -> DraftTree:
        """The tree that plain decoding verifies: one token."""
        return cls((token_id,), (ROOT,))

    def __len__(self) -> int:
        return len(self.token_ids)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Distance of every node from the root."""
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of every node, the best pool index first."""
        children: list[list[int]] = [[] for _ in self.token_ids]
        for node, parent in enumerate(self.parents[1:], start=1):
            children[parent].append(node)
        return tuple(tuple(nodes) for nodes in children)

    @cached_property
    def ancestor_mask(self) -> torch.Tensor:
        """(T, T) bool: row i is True at node i and at its ancestors."""
        mask = torch.eye(len(self), dtype=torch.bool)
        for node, parent in enumerate(self.parents[1:], start=1):
            mask[node] |= mask[parent]
        return mask
