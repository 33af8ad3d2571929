"""What a verified tree looks like afterwards: probabilities of both models, path, missed token.

Everything is read from tensors that the step has computed anyway; the only new work is the
normaliser of the target's logits at the nodes that have children.
"""

from __future__ import annotations

import math

import torch

from eagle.models import DraftModel
from eagle.tree import DraftTree
from eagle.types import StepTree
from eagle.verify import VerifyResult

DIGITS = 6  # decimal places kept of a probability


@torch.inference_mode()
def record_tree(
    draft: DraftModel, tree: DraftTree, logits: torch.Tensor, result: VerifyResult
) -> StepTree:
    """`tree` is the last that `draft` proposed; logits (T, V) are the target's at every node."""
    last = result.path[-1]
    targets = _probabilities(
        logits,
        rows=[*tree.parents[1:], last],
        token_ids=[*tree.token_ids[1:], result.bonus_token],
    )
    scores = tree.scores
    drafts = (
        math.exp(score - scores[parent])
        for score, parent in zip(scores[1:], tree.parents[1:], strict=True)
    )
    return StepTree(
        token_ids=tree.token_ids,
        parents=tree.parents,
        draft_probabilities=(1.0, *(round(p, DIGITS) for p in drafts)),
        target_probabilities=(1.0, *targets[:-1]),
        path=result.path,
        target_token=result.bonus_token,
        target_probability=targets[-1],
        target_rank=draft.rank(tree, last, result.bonus_token),
    )


def _probabilities(logits: torch.Tensor, rows: list[int], token_ids: list[int]) -> list[float]:
    """Softmax of logits (T, V) at (row, token) pairs, normalising every row once."""
    distinct = sorted(set(rows))
    device, width = logits.device, logits.shape[1]
    chosen = logits.index_select(0, torch.tensor(distinct, device=device))
    at = [distinct.index(row) * width + token for row, token in zip(rows, token_ids, strict=True)]
    log_p = chosen.log_softmax(-1, dtype=torch.float32).take(torch.tensor(at, device=device))
    return [round(p, DIGITS) for p in log_p.exp().tolist()]
