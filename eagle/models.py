"""What the decoding loops ask of the two models: nothing more, so that anything can stand in.

A target knows its weights and positions; a draft keeps its own cache. Shapes: n prompt tokens,
T tree nodes, H hidden size, A = 3 * H the three auxiliary hidden states side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from eagle.kv_cache import KVCache
from eagle.tree import DraftTree
from eagle.types import MergedPrompt


@dataclass(frozen=True, slots=True)
class TargetOutput:
    """One forward pass. After a prefill `logits` has the last row only."""

    logits: torch.Tensor  # (rows, V)
    aux_hidden: torch.Tensor  # (T or n, A); A is 0 for a target without a draft


class TargetModel(Protocol):
    """The model whose text is produced."""

    def prefill(self, prompt: MergedPrompt, cache: KVCache) -> TargetOutput:
        """Append the whole prompt to the empty cache; logits of its last token."""
        ...

    def verify(self, tree: DraftTree, rope_delta: int, cache: KVCache) -> TargetOutput:
        """Append all nodes of a tree behind the committed rows; logits at every node."""
        ...


class DraftModel(Protocol):
    """Proposes trees. Its state always stands at the tokens that the target has committed."""

    @property
    def tree_size(self) -> int:
        """Nodes of its largest tree, the root included."""
        ...

    def prefill(self, prompt: MergedPrompt, aux_hidden: torch.Tensor, root: int) -> None:
        """Start anew: the prompt, the target's aux hidden states (n, A), the first token."""
        ...

    def propose(self) -> DraftTree:
        """A tree below the last token given."""
        ...

    def rank(self, tree: DraftTree, node: int, token: int) -> int | None:
        """Place of `token` among what the draft expected after `node` of its last tree, 1 for the
        most likely; None where it drafted nothing or the token is not in its vocabulary."""
        ...

    def advance(self, token_ids: tuple[int, ...], aux_hidden: torch.Tensor) -> None:
        """Tokens that follow the old root (the last is the new root), and the target's true
        aux hidden states (len(token_ids), A) of the old root and of all but the last of them."""
        ...
