"""The verdict on two answers: identical, a near-tie, a fault, or sampling."""

from __future__ import annotations

import pytest
import torch

from vlm.identity import ROUNDING_STEPS, Verdict, first_difference, judge
from vlm.pipeline import VlmPipeline
from vlm.requests import ChatMessage, GenerationRequest

REQUEST = GenerationRequest((ChatMessage("user", "one?"),), max_new_tokens=8, ignore_eos=True)


def verdict(
    pipeline: VlmPipeline, base: list[int], eagle: list[int], *, greedy: bool = True
) -> Verdict:
    prompt = pipeline.prepare(REQUEST).prompt
    return judge(pipeline, prompt, base, eagle, greedy=greedy)


def answer(pipeline: VlmPipeline) -> list[int]:
    *_, last = pipeline.run(REQUEST)
    return list(last.stats.token_ids)  # type: ignore[union-attr]


def test_the_same_ids_are_identical(tiny_pipeline: VlmPipeline) -> None:
    found = verdict(tiny_pipeline, [4, 5, 6], [4, 5, 6])
    assert found.is_identical
    assert found.sentence() == "IDENTICAL 3/3 tokens"


def test_a_fault_is_placed_and_measured(tiny_pipeline: VlmPipeline) -> None:
    """With the token after the third falsified, the gap is how much the base preferred its own
    token there: nothing like a tie."""
    ids = answer(tiny_pipeline)
    wrong = [*ids[:3], (ids[3] + 1) % 150, *ids[4:]]
    found = verdict(tiny_pipeline, ids, wrong)
    assert (found.kind, found.num_same, found.num_tokens) == ("fault", 3, 8)
    assert (found.base_token, found.eagle_token) == (ids[3], wrong[3])
    assert found.logit_gap is not None
    assert found.rounding is not None
    assert found.logit_gap > found.rounding
    assert found.sentence().startswith("DIFFERENT after 3/8 tokens")


def test_a_gap_within_rounding_is_a_tie(
    tiny_pipeline: VlmPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = torch.finfo(torch.float32).eps
    logits = torch.zeros(150)
    logits[4], logits[5] = 1.0, 1.0 - ROUNDING_STEPS * step
    logits[6] = 1.0 - 2 * ROUNDING_STEPS * step
    monkeypatch.setattr("vlm.identity._logits_after", lambda *_: logits)
    assert verdict(tiny_pipeline, [9, 4], [9, 5]).kind == "tie"
    assert verdict(tiny_pipeline, [9, 5], [9, 4]).kind == "tie"
    assert verdict(tiny_pipeline, [9, 4], [9, 6]).kind == "fault"
    assert "then a tie" in verdict(tiny_pipeline, [9, 4], [9, 5]).sentence()


def test_an_answer_that_ends_early_is_a_fault(tiny_pipeline: VlmPipeline) -> None:
    found = verdict(tiny_pipeline, [4, 5, 6], [4, 5])
    assert (found.kind, found.num_same, found.logit_gap) == ("fault", 2, None)
    assert "one answer ends there" in found.sentence()


def test_with_sampling_a_difference_is_no_fault(tiny_pipeline: VlmPipeline) -> None:
    found = verdict(tiny_pipeline, [4, 5, 6], [4, 7, 6], greedy=False)
    assert (found.kind, found.num_same) == ("sampled", 1)
    assert "another order" in found.sentence()


def test_the_first_difference_counts_shared_tokens() -> None:
    assert first_difference([], []) == 0
    assert first_difference([1, 2, 3], [1, 2]) == 2
    assert first_difference([1, 2, 3], [1, 9, 3]) == 1
