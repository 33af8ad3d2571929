"""Growing a draft tree with an EAGLE-3 head: prefill, propose, advance.

Per round the head runs once over the newly committed tokens with the target's true features (the
refill, which also scores level 1), then once a level over the best k nodes. What it writes to its
cache while growing a tree is thrown away: only true features stay (EAGLE-2/3's dynamic tree).
"""

from __future__ import annotations

import torch

from eagle.draft_model import DraftHead
from eagle.kv_cache import KVCache
from eagle.tree import ROOT, CandidatePool, DraftTree
from eagle.types import MergedPrompt, TreeShape


class Eagle3Draft:
    """A `DraftModel` with an EAGLE-3 head and its own cache of `capacity` tokens."""

    def __init__(self, head: DraftHead, shape: TreeShape, capacity: int) -> None:
        self.head = head
        self.shape = shape
        self.cache: KVCache = head.new_cache(capacity)
        self._root = ROOT
        self._rope_delta = 0
        self._last_hidden = torch.empty(0)  # (1, H): the last committed slot
        # Candidates expanded in the last tree, a level each, and their log-probabilities (k, Vd).
        self._expanded: list[tuple[list[int], torch.Tensor]] = []

    @classmethod
    def fitting(cls, head: DraftHead, shape: TreeShape, num_tokens: int) -> Eagle3Draft:
        """A draft for `num_tokens` of prompt and answer; its growing tree stands behind them."""
        return cls(head, shape, num_tokens + shape.draft_step * shape.draft_top_k)

    @property
    def tree_size(self) -> int:
        return self.shape.verify_tree_size

    @torch.inference_mode()
    def prefill(self, prompt: MergedPrompt, aux_hidden: torch.Tensor, root: int) -> None:
        """One slot a prompt token: its feature with the embedding of the token after it."""
        self.cache.truncate(0)
        self._rope_delta = prompt.rope_delta
        root_embed = self._embed((root,))
        embeds = torch.cat((prompt.draft_embeds[1:].to(root_embed.dtype), root_embed))
        self._refill(embeds, aux_hidden, prompt.position_ids, root)

    @torch.inference_mode()
    def advance(self, token_ids: tuple[int, ...], aux_hidden: torch.Tensor) -> None:
        positions = self._positions(self.cache.length, len(token_ids))
        self._refill(self._embed(token_ids), aux_hidden, positions, token_ids[-1])

    @torch.inference_mode()
    def propose(self) -> DraftTree:
        committed = self.cache.length
        pool = self._grow()
        self.cache.truncate(committed)
        return pool.best(self._root, self.shape.verify_tree_size - 1)

    @torch.inference_mode()
    def rank(self, tree: DraftTree, node: int, token: int) -> int | None:
        draft_id = self.head.draft_id_of.get(token)
        candidate = tree.candidates[node]
        for candidates, log_p in self._expanded:
            if draft_id is not None and candidate in candidates:
                row = log_p[candidates.index(candidate)]
                return int((row > row[draft_id]).sum()) + 1
        return None

    def _refill(
        self, embeds: torch.Tensor, aux_hidden: torch.Tensor, positions: torch.Tensor, root: int
    ) -> None:
        features = self.head.fuse_aux(aux_hidden)
        hidden = self.head.forward(embeds, features, positions, self.cache)
        self._last_hidden = hidden[-1:]
        self._root = root

    def _grow(self) -> CandidatePool:
        """Draft `draft_step` levels of candidates below the root."""
        head, k = self.head, self.shape.draft_top_k
        committed = self.cache.length
        log_p = head.log_probabilities(self._last_hidden)
        scores, draft_ids = log_p[0].topk(min(k, log_p.shape[-1]))
        tokens = head.to_target[draft_ids]
        k = len(tokens)
        pool = [(tokens, scores, torch.full_like(tokens, ROOT))]
        self._expanded = [([ROOT], log_p)]
        beam = torch.arange(k)  # pool indices of the nodes to expand
        features = head.recycled(self._last_hidden).expand(k, -1)
        mask = torch.eye(k, dtype=torch.bool, device=head.device)
        for level in range(1, self.shape.draft_step):
            positions = self._positions(committed + level - 1, 1).expand(3, k)
            hidden = head.forward(head.embed(tokens), features, positions, self.cache, mask)
            all_log_p = head.log_probabilities(hidden)
            self._expanded.append((beam.tolist(), all_log_p))
            log_p, draft_ids = all_log_p.topk(k)
            first = sum(len(block[0]) for block in pool)
            child_tokens = head.to_target[draft_ids].flatten()
            child_scores = (scores[:, None] + log_p).flatten()
            pool.append((child_tokens, child_scores, beam.repeat_interleave(k)))
            # The next beam: the k best of this level; ties go to the smaller pool index.
            best = torch.sort(child_scores, descending=True, stable=True).indices[:k]
            parents = best // k
            scores, tokens, beam = child_scores[best], child_tokens[best], first + best.cpu()
            features = head.recycled(hidden)[parents]
            own = torch.eye(k, dtype=torch.bool, device=head.device)
            mask = torch.cat((mask[parents], own), dim=1)
        token_ids, all_scores, parent_ids = (
            torch.cat([block[column].cpu() for block in pool]) for column in range(3)
        )
        return CandidatePool(token_ids, all_scores, parent_ids)

    def _embed(self, token_ids: tuple[int, ...]) -> torch.Tensor:
        return self.head.embed(torch.tensor(token_ids, device=self.head.device))

    def _positions(self, first_slot: int, count: int) -> torch.Tensor:
        """(3, count): text advances all three axes together."""
        slots = torch.arange(first_slot, first_slot + count, device=self.head.device)
        return (slots + self._rope_delta).expand(3, count)
