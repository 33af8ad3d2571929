"""What is recorded of a tree is what the two models said, and recording changes no token."""

from __future__ import annotations

import itertools

import pytest
import torch

from eagle.decode import speculative_decode
from eagle.drafting import Eagle3Draft
from eagle.sampling import Sampler
from eagle.stopping import StopRule
from eagle.types import DecodeStep, MergedPrompt, SamplingParams, StepTree, TreeShape
from tests.eagle.drafts import CAPACITY, KnowingDraft, random_draft
from tests.eagle.test_decode import alone, extend, tokens
from vlm.language_model import LanguageModel

SHAPES = [TreeShape(1, 4, 5), TreeShape(4, 4, 8), TreeShape(6, 3, 40)]


def recorded_steps(
    target: LanguageModel,
    draft: Eagle3Draft | KnowingDraft,
    prompt: MergedPrompt,
    temperature: float = 0.0,
    *,
    record_trees: bool = True,
) -> list[DecodeStep]:
    sampler = Sampler(SamplingParams(temperature))
    cache = target.new_cache(CAPACITY)
    return list(
        speculative_decode(
            target, draft, prompt, cache, sampler, StopRule(16), record_trees=record_trees
        )
    )


def path_to(tree: StepTree, node: int) -> list[int]:
    """Tokens from below the root to `node`."""
    return [] if node == 0 else [*path_to(tree, tree.parents[node]), tree.token_ids[node]]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_recording_changes_no_token(
    target: LanguageModel, prompt: MergedPrompt, temperature: float
) -> None:
    draft = random_draft(target, TreeShape(4, 4, 12))
    steps = recorded_steps(target, draft, prompt, temperature)
    plain = recorded_steps(target, draft, prompt, temperature, record_trees=False)
    assert tokens(steps) == tokens(plain)
    assert all(step.tree is None for step in plain)
    assert steps[0].tree is None
    assert all(step.tree is not None for step in steps[1:])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_target_probabilities_are_those_of_a_plain_forward(
    target: LanguageModel, prompt: MergedPrompt, shape: TreeShape
) -> None:
    committed: list[int] = []
    for step in recorded_steps(target, random_draft(target, shape), prompt):
        if step.tree is not None:
            for node in range(1, len(step.tree.token_ids)):
                *before, token = path_to(step.tree, node)
                probability = next_probability(target, prompt, committed + before, token)
                assert step.tree.target_probabilities[node] == pytest.approx(probability, abs=1e-5)
            accepted = path_to(step.tree, step.tree.path[-1])
            missed = step.tree.target_token
            probability = next_probability(target, prompt, committed + accepted, missed)
            assert step.tree.target_probability == pytest.approx(probability, abs=1e-5)
            assert step.tree.token_ids[0] == committed[-1]
        committed += step.token_ids


def next_probability(
    target: LanguageModel, prompt: MergedPrompt, generated: list[int], token: int
) -> float:
    output = target.prefill(extend(target, prompt, generated), target.new_cache(CAPACITY))
    return float(output.logits[-1].softmax(-1)[token])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_path_tokens_and_ranks_agree(
    target: LanguageModel, prompt: MergedPrompt, shape: TreeShape, temperature: float
) -> None:
    steps = recorded_steps(target, random_draft(target, shape), prompt, temperature)
    for step in steps[1:]:
        tree = step.tree
        assert tree is not None
        for parent, child in itertools.pairwise(tree.path):
            assert tree.parents[child] == parent
        accepted = path_to(tree, tree.path[-1])
        assert (*accepted, tree.target_token)[: len(step.token_ids)] == step.token_ids
        siblings = [
            (tree.draft_probabilities[node], tree.token_ids[node])
            for node in range(1, len(tree.parents))
            if tree.parents[node] == tree.path[-1]
        ]
        assert sum(probability for probability, _ in siblings) <= 1 + 1e-4
        if siblings and tree.target_rank is not None:
            # The token that the target preferred comes behind the siblings it refused.
            assert tree.target_rank > len(siblings) or temperature > 0


def test_a_rank_counts_the_tokens_the_draft_expected_more(
    target: LanguageModel, prompt: MergedPrompt
) -> None:
    draft = random_draft(target, TreeShape(4, 3, 37))
    output = target.prefill(prompt, target.new_cache(CAPACITY))
    draft.prefill(prompt, output.aux_hidden, 5)
    tree = draft.propose()
    with torch.inference_mode():
        log_p = draft.head.log_probabilities(draft._last_hidden)[0]
    order = draft.head.to_target[log_p.argsort(descending=True)].tolist()
    for place in (1, 2, 30, len(order)):
        assert draft.rank(tree, 0, order[place - 1]) == place
    unknown = next(token for token in range(150) if token not in order)
    assert draft.rank(tree, 0, unknown) is None
    for node, children in enumerate(tree.children):
        ranks = [draft.rank(tree, node, tree.token_ids[child]) for child in children]
        assert sorted(ranks) == list(range(1, len(ranks) + 1))
    deepest = tree.depths.index(max(tree.depths))
    assert max(tree.depths) == 3
    assert draft.rank(tree, deepest, order[0]) is None


def test_seconds_of_a_step_add_up_to_its_time(target: LanguageModel, prompt: MergedPrompt) -> None:
    """With a clock that counts its readings, every reading is the end of exactly one part."""
    readings = itertools.count()
    answer = tokens(alone(target, prompt))
    cache, sampler = target.new_cache(CAPACITY), Sampler(SamplingParams())
    steps = list(
        speculative_decode(
            target,
            KnowingDraft(answer, 3),
            prompt,
            cache,
            sampler,
            StopRule(16),
            clock=lambda: float(next(readings)),
        )
    )
    for step in steps:
        parts = (step.verify_seconds, step.sample_seconds, step.other_seconds)
        assert parts == (1, 1, 1)
    assert [step.draft_prefill_seconds for step in steps[:3]] == [0, 1, 0]
    assert [step.draft_seconds for step in steps[:3]] == [0, 1, 1]
