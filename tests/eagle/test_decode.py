"""The two loops: same text for any draft, exact stops, caches as a fresh prefill leaves them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from eagle.decode import autoregressive_decode, speculative_decode
from eagle.errors import KVCacheFull
from eagle.models import DraftModel
from eagle.sampling import Sampler
from eagle.stopping import StopRule
from eagle.types import DecodeStep, MergedPrompt, SamplingParams, TreeShape
from tests.eagle.drafts import CAPACITY, KnowingDraft, random_draft
from vlm.language_model import LanguageModel

LENGTH = 40
SHAPES = [
    TreeShape(draft_top_k=1, draft_step=1, verify_tree_size=2),
    TreeShape(draft_top_k=1, draft_step=5, verify_tree_size=6),
    TreeShape(draft_top_k=3, draft_step=2, verify_tree_size=10),
    TreeShape(draft_top_k=4, draft_step=4, verify_tree_size=8),
    TreeShape(draft_top_k=8, draft_step=6, verify_tree_size=60),
]


def alone(
    target: LanguageModel, prompt: MergedPrompt, stop: StopRule | None = None
) -> list[DecodeStep]:
    return list(
        autoregressive_decode(
            target,
            prompt,
            target.new_cache(CAPACITY),
            Sampler(SamplingParams()),
            stop or StopRule(LENGTH),
        )
    )


def together(
    target: LanguageModel,
    draft: DraftModel,
    prompt: MergedPrompt,
    stop: StopRule | None = None,
) -> Iterator[DecodeStep]:
    return speculative_decode(
        target,
        draft,
        prompt,
        target.new_cache(CAPACITY),
        Sampler(SamplingParams()),
        stop or StopRule(LENGTH),
    )


def tokens(steps: list[DecodeStep]) -> list[int]:
    return [token for step in steps for token in step.token_ids]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_random_draft_never_changes_the_text(
    target: LanguageModel, prompt: MergedPrompt, shape: TreeShape, seed: int
) -> None:
    expected = tokens(alone(target, prompt))
    draft = random_draft(target, shape, seed=seed)
    steps = list(together(target, draft, prompt))
    assert tokens(steps) == expected
    assert len(set(expected)) > 5, "a target that repeats itself proves nothing"
    for step in steps[1:-1]:
        assert len(step.token_ids) == step.num_accepted + 1
        assert step.num_drafted == shape.verify_tree_size - 1


@pytest.mark.parametrize("depth", [1, 3, 7])
def test_a_perfect_chain_is_accepted_whole(
    target: LanguageModel, prompt: MergedPrompt, depth: int
) -> None:
    expected = tokens(alone(target, prompt))
    steps = list(together(target, KnowingDraft(expected, depth), prompt))
    assert tokens(steps) == expected
    assert all(step.num_accepted == depth for step in steps[1:-1])


def test_a_hostile_draft_costs_steps_not_words(target: LanguageModel, prompt: MergedPrompt) -> None:
    expected = tokens(alone(target, prompt))
    steps = list(together(target, KnowingDraft(expected, 4, hostile=True), prompt))
    assert tokens(steps) == expected
    assert all(step.num_accepted == 0 for step in steps)
    assert len(steps) == LENGTH


@pytest.mark.parametrize("shape", SHAPES[1:4], ids=str)
def test_caches_equal_a_fresh_prefill_after_every_step(
    target: LanguageModel, prompt: MergedPrompt, shape: TreeShape
) -> None:
    """Between two steps the target's cache holds all but the last token; the draft's lags by one
    step, so it is compared when the next step begins (after the refill)."""
    cache = target.new_cache(CAPACITY)
    draft = random_draft(target, shape)
    refilled: list[tuple[int, torch.Tensor]] = []
    inner_propose = draft.propose

    def propose_and_record():  # type: ignore[no-untyped-def]
        refilled.append((draft.cache.length, draft.cache.keys[:, :, : draft.cache.length].clone()))
        return inner_propose()

    draft.propose = propose_and_record  # type: ignore[method-assign]
    sampler = Sampler(SamplingParams())
    generated: list[int] = []
    for step in speculative_decode(target, draft, prompt, cache, sampler, StopRule(24)):
        generated += step.token_ids
        fresh_prompt = extend(target, prompt, generated[:-1])
        fresh = target.new_cache(CAPACITY)
        output = target.prefill(fresh_prompt, fresh)
        assert cache.length == fresh.length
        for ours, theirs in ((cache.keys, fresh.keys), (cache.values, fresh.values)):
            rows = slice(0, fresh.length)
            torch.testing.assert_close(ours[:, :, rows], theirs[:, :, rows], rtol=0, atol=1e-5)
        other = random_draft(target, shape)
        other.prefill(fresh_prompt, output.aux_hidden, generated[-1])
        if refilled:
            length, keys = refilled[-1]
            torch.testing.assert_close(keys, other.cache.keys[:, :, :length], rtol=0, atol=1e-5)


def extend(target: LanguageModel, prompt: MergedPrompt, token_ids: list[int]) -> MergedPrompt:
    more = torch.tensor(token_ids, dtype=torch.int64)
    embeds = target.embed(more)
    slots = torch.arange(len(prompt), len(prompt) + len(more)) + prompt.rope_delta
    return MergedPrompt(
        torch.cat((prompt.input_ids, more)),
        torch.cat((prompt.inputs_embeds, embeds)),
        torch.cat((prompt.draft_embeds, embeds)),
        torch.cat((prompt.position_ids, slots.expand(3, -1)), dim=1),
        prompt.rope_delta,
    )


@pytest.mark.parametrize("position", [0, 1, 2, 3, 5, 9])
def test_decoding_ends_at_end_of_sequence_inside_an_accepted_run(
    target: LanguageModel, prompt: MergedPrompt, position: int
) -> None:
    answer = tokens(alone(target, prompt))
    eos = answer[position]
    first = answer.index(eos)
    stop = StopRule(LENGTH, frozenset({eos}))
    steps = list(together(target, KnowingDraft(answer, 4), prompt, stop))
    assert tokens(steps) == tokens(alone(target, prompt, stop)) == answer[: first + 1]
    assert steps[-1].finish_reason == "eos"
    assert all(step.finish_reason is None for step in steps[:-1])


@pytest.mark.parametrize("budget", [1, 2, 3, 6, 7])
def test_decoding_ends_at_the_token_budget(
    target: LanguageModel, prompt: MergedPrompt, budget: int
) -> None:
    answer = tokens(alone(target, prompt))
    stop = StopRule(budget)
    steps = list(together(target, KnowingDraft(answer, 4), prompt, stop))
    assert tokens(steps) == tokens(alone(target, prompt, stop)) == answer[:budget]
    assert steps[-1].finish_reason == "length"
    assert sum(step.num_accepted for step in steps) <= budget


def test_decoding_ends_at_a_stop_string(target: LanguageModel, prompt: MergedPrompt) -> None:
    answer = tokens(alone(target, prompt))
    wanted = answer[6:8]
    stop = StopRule(LENGTH, frozenset(), lambda ids: list(ids[-2:]) == wanted)
    steps = list(together(target, KnowingDraft(answer, 5), prompt, stop))
    end = next(at for at in range(2, LENGTH) if answer[at - 2 : at] == wanted)
    assert tokens(steps) == answer[:end]
    assert steps[-1].finish_reason == "stop"


def test_the_capacity_is_checked_before_anything_is_computed(
    target: LanguageModel, prompt: MergedPrompt
) -> None:
    cache = target.new_cache(len(prompt) + 30)
    steps = autoregressive_decode(target, prompt, cache, Sampler(SamplingParams()), StopRule(30))
    with pytest.raises(KVCacheFull, match=f"holds {len(prompt) + 30}.*max-new-tokens"):
        next(steps)
    assert cache.length == 0


def test_a_reader_may_stop_midway(target: LanguageModel, prompt: MergedPrompt) -> None:
    """The same models, draft and cache serve the next request as if nothing had happened."""
    shape = TreeShape(4, 4, 12)
    draft = random_draft(target, shape)
    cache = target.new_cache(CAPACITY)
    sampler = Sampler(SamplingParams())
    arguments = (target, draft, prompt, cache, sampler, StopRule(LENGTH))
    abandoned = speculative_decode(*arguments)
    for _ in range(4):
        next(abandoned)
    abandoned.close()  # type: ignore[attr-defined]
    again = list(speculative_decode(*arguments))
    assert tokens(again) == tokens(alone(target, prompt))


def test_the_clock_does_not_run_while_the_reader_thinks(
    target: LanguageModel, prompt: MergedPrompt
) -> None:
    now = 0.0

    def clock() -> float:
        return now

    steps = autoregressive_decode(
        target,
        prompt,
        target.new_cache(CAPACITY),
        Sampler(SamplingParams()),
        StopRule(5),
        clock=clock,
    )
    for step in steps:
        assert step.verify_seconds == 0
        now += 10
