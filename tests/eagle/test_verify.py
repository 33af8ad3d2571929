"""Acceptance keeps the target's exact distribution, whatever was proposed."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from eagle.sampling import Sampler
from eagle.tree import ROOT, DraftTree
from eagle.types import SamplingParams
from eagle.verify import accept

DRAWS = 100_000
VOCAB = 5
# Root with three children, the first of which has two: siblings, a repeated token below, a leaf.
TREE = DraftTree((0, 4, 1, 0, 2, 3), (ROOT, 0, 0, 0, 1, 1))


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0, seed=1),
        SamplingParams(temperature=0.6, top_p=0.8, seed=2),
        SamplingParams(temperature=1.4, top_k=3, seed=3),
    ],
    ids=["plain", "top-p", "top-k"],
)
def test_sampled_tokens_have_the_targets_distribution(params: SamplingParams) -> None:
    """First token of the step, and second token where the first was accepted, by chi-square."""
    logits = torch.randn(len(TREE), VOCAB, generator=torch.Generator().manual_seed(5)) * 0.6
    sampler = Sampler(params)
    first = torch.zeros(VOCAB)
    second = torch.zeros(VOCAB)
    for _ in range(DRAWS):
        result = accept(TREE, logits, sampler)
        emitted = [TREE.token_ids[node] for node in result.path[1:]] + [result.bonus_token]
        first[emitted[0]] += 1
        if result.path[1:2] == (1,):
            second[emitted[1]] += 1
    assert_drawn_from(first, sampler.probabilities(logits[0]))
    assert_drawn_from(second, sampler.probabilities(logits[1]))


def assert_drawn_from(counts: torch.Tensor, probabilities: torch.Tensor) -> None:
    possible = probabilities > 0
    assert counts[~possible].sum() == 0
    expected = probabilities[possible].double() * counts.sum()
    expected *= counts.sum() / expected.sum()
    result = stats.chisquare(counts[possible].double().numpy(), expected.numpy())
    assert result.pvalue > 1e-4


def test_greedy_takes_the_longest_matching_path() -> None:
    logits = torch.zeros(len(TREE), VOCAB)
    logits[0, 4] = logits[1, 3] = logits[5, 2] = 1
    result = accept(TREE, logits, Sampler(SamplingParams()))
    assert result.path == (0, 1, 5)
    assert result.bonus_token == 2
    assert result.num_accepted == 2


def test_a_certain_candidate_is_always_accepted() -> None:
    """p(x) = 1 leaves no mass for anything else, even when the draw is unlucky."""
    logits = torch.full((len(TREE), VOCAB), -torch.inf)
    logits[:, 0] = 0
    sampler = Sampler(SamplingParams(temperature=1.0))
    for _ in range(200):
        result = accept(TREE, logits, sampler)
        assert result.path == (0, 3)
        assert result.bonus_token == 0
