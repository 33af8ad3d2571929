"""Counting identical texts, and telling a near-tie from a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlm.errors import ConfigError
from vlm.identity import compare, finish, question_request, read_questions, summary
from vlm.metrics import RunStats
from vlm.pipeline import VlmPipeline


def test_identical_texts_are_counted(tiny_pipeline: VlmPipeline) -> None:
    questions = ["one?", "two?", "three?"]
    requests = [question_request(tiny_pipeline, text, ()) for text in questions]
    requests = [type(r)(r.messages, r.sampling, max_new_tokens=12) for r in requests]
    figures = summary(list(compare(tiny_pipeline, requests)))
    assert figures["prompts"] == figures["identical"] == 3
    assert figures["logit_gaps"] == []


def test_a_difference_is_placed_and_measured(
    tiny_pipeline: VlmPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a draft's answer falsified at token 3, the gap is how much the base preferred its
    own token there: nothing like a tie."""
    request = question_request(tiny_pipeline, "one?", ())
    request = type(request)(request.messages, request.sampling, max_new_tokens=8, ignore_eos=True)

    def falsified(pipeline: VlmPipeline, asked: object) -> RunStats:
        stats = finish(pipeline, asked)  # type: ignore[arg-type]
        if not asked.use_eagle:  # type: ignore[attr-defined]
            return stats
        wrong = (*stats.token_ids[:3], (stats.token_ids[3] + 1) % 150, *stats.token_ids[4:])
        fields = {name: getattr(stats, name) for name in RunStats.__slots__}
        return RunStats(**fields | {"token_ids": wrong})

    monkeypatch.setattr("vlm.identity.finish", falsified)
    (result,) = compare(tiny_pipeline, [request])
    assert result.first_difference == 3
    assert result.logit_gap is not None
    assert result.logit_gap > 0


def test_files_of_another_form_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text('{"turns": ["a", "b"]}\n\n{"turns": ["c"]}\n')
    assert read_questions(path) == ["a", "c"]
    path.write_text('{"prompt": "x"}\n')
    with pytest.raises(ConfigError, match="cannot be read as questions"):
        read_questions(path)
