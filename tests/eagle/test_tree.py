"""Properties of the tree for any pool of candidates."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle.tree import ROOT, CandidatePool


@st.composite
def pools(draw: st.DrawFn) -> CandidatePool:
    """Pools as drafting makes them, with many equal scores (log-probability 0 happens)."""
    size = draw(st.integers(2, 60))
    parents = [draw(st.integers(ROOT, node - 1)) for node in range(size)]
    scores: list[float] = []
    for parent in parents:
        above = 0.0 if parent == ROOT else scores[parent]
        scores.append(above - draw(st.sampled_from([0.0, 0.0, 0.5, 1.0, 3.0])))
    return CandidatePool(torch.arange(100, 100 + size), torch.tensor(scores), torch.tensor(parents))


@settings(max_examples=150, deadline=None)
@given(pools(), st.integers(1, 60))
def test_the_best_candidates_form_a_tree(pool: CandidatePool, wanted: int) -> None:
    count = min(wanted, len(pool.token_ids))
    tree = pool.best(7, count)
    assert len(tree) == count + 1
    assert tree.token_ids[0] == 7
    for node in range(1, len(tree)):
        index = tree.token_ids[node] - 100
        parent_index = int(pool.parents[index])
        parent = tree.parents[node]
        assert parent < node
        assert tree.token_ids[parent] == (7 if parent_index == ROOT else parent_index + 100)
        ancestors = set()
        walker = node
        while walker != ROOT:
            ancestors.add(walker)
            walker = tree.parents[walker]
        assert set(tree.ancestor_mask[node].nonzero().flatten().tolist()) == ancestors
        assert tree.depths[node] == len(ancestors) - 1
        assert node in tree.children[parent]
    chosen = pool.scores[[token - 100 for token in tree.token_ids[1:]]]
    left_out = set(range(len(pool.token_ids))) - {token - 100 for token in tree.token_ids[1:]}
    assert all(pool.scores[index] <= chosen.min() for index in left_out)


def test_ties_go_to_the_smaller_pool_index() -> None:
    pool = CandidatePool(
        torch.tensor([10, 11, 12, 13]),
        torch.tensor([-1.0, -1.0, -1.0, -1.0]),
        torch.tensor([ROOT, ROOT, 0, 0]),
    )
    assert pool.best(9, 2).token_ids == (9, 10, 11)
