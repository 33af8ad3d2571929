"""Real decoding over transformers: the tree's passes are the base's own, and figures add up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from eagle.__main__ import main
from eagle.errors import EagleConfigError
from eagle.models import TargetOutput
from eagle.training.base import Base
from eagle.training.evaluate_draft import (
    Acceptance,
    Decoded,
    Evaluator,
    by_category,
    choose_prompts,
    evaluate,
    table,
)
from eagle.training.prompts import PromptSeed, is_held_out
from eagle.training.target import TransformersTarget
from eagle.tree import ROOT, DraftTree
from eagle.types import DecodeStep, MergedPrompt, TreeShape
from tests.eagle.drafts import random_tensors
from vlm.checkpoint import base_config, load_language_model
from vlm.language_model import LanguageModel

SHAPE = TreeShape(3, 3, 8)


@pytest.fixture(scope="module")
def ours(base_directory: Path) -> LanguageModel:
    """The same base as the page runs it."""
    return load_language_model(
        base_directory,
        base_config(base_directory),
        aux_layers=(2, 3, 4),
        dtype=torch.float32,
        device=torch.device("cpu"),
    )


@pytest.fixture(scope="module")
def draft(base: Base, tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = base.text_config
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "hidden_size": text.hidden_size,
        "intermediate_size": 64,
        "num_attention_heads": text.num_attention_heads,
        "num_key_value_heads": text.num_key_value_heads,
        "head_dim": text.hidden_size // text.num_attention_heads,
        "num_hidden_layers": 1,
        "rms_norm_eps": 1e-6,
        "vocab_size": text.vocab_size,
        "draft_vocab_size": 90,
    }
    folder = tmp_path_factory.mktemp("draft")
    (folder / "config.json").write_text(json.dumps(config))
    save_file(random_tensors(config), folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def evaluator(base: Base, draft: Path) -> Evaluator:
    return Evaluator(base, draft, SHAPE, max_new_tokens=12)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Image.new("RGB", (84, 56), "orange").save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def text_prompt(base: Base) -> MergedPrompt:
    ids = torch.tensor([4, 8, 15, 16, 23, 42, 108])
    embeds = base.embedding[ids]
    return MergedPrompt(ids, embeds, embeds, torch.arange(len(ids)).expand(3, -1), 0)


def assert_same(ours: TargetOutput, theirs: TargetOutput) -> None:
    torch.testing.assert_close(ours.logits, theirs.logits, rtol=0, atol=1e-4)
    torch.testing.assert_close(ours.aux_hidden, theirs.aux_hidden, rtol=0, atol=1e-4)


def test_prefill_and_trees_are_those_of_the_page(base: Base, ours: LanguageModel) -> None:
    target = TransformersTarget(base, (2, 3, 4))
    theirs_cache, ours_cache = target.new_cache(64), ours.new_cache(64)
    prompt = text_prompt(base)
    assert_same(ours.prefill(prompt, ours_cache), target.prefill(prompt, theirs_cache))
    tree = DraftTree((7, 9, 11, 13, 15), (ROOT, 0, 0, 1, 3))
    for _ in range(2):
        assert_same(ours.verify(tree, 0, ours_cache), target.verify(tree, 0, theirs_cache))
        for cache in (ours_cache, theirs_cache):
            cache.keep(cache.length - len(tree), [0, 1, 3])
    target.close()


def test_greedy_text_is_the_bases_own(evaluator: Evaluator, picture: Path) -> None:
    prompts = [PromptSeed("Tell me more.", "chat"), PromptSeed("What?", "image", image=picture)]
    decoded = list(evaluate(evaluator, prompts, [0.0, 1.0]))
    assert [one.identical for one in decoded] == [True, True, None, None]
    assert all(one.num_tokens <= 12 for one in decoded)
    figures = by_category(decoded)
    assert figures.keys() == {"temperature 0", "temperature 1"}
    assert figures["temperature 0"]["all"].identical == 2
    assert "2/2" in table(figures)


def test_the_draft_sees_what_it_was_trained_on(base: Base, draft: Path, picture: Path) -> None:
    seed = PromptSeed("What?", "image", image=picture)
    plain = Evaluator(base, draft, SHAPE, max_new_tokens=12).prompt(seed)
    merged = Evaluator(base, draft, SHAPE, max_new_tokens=12, image_slots="merged").prompt(seed)
    assert torch.equal(merged.draft_embeds, merged.inputs_embeds)
    assert torch.equal(plain.inputs_embeds, merged.inputs_embeds)
    assert not torch.equal(plain.draft_embeds, merged.draft_embeds)


def step(index: int, accepted: int) -> DecodeStep:
    return DecodeStep(index, (1,) * (accepted + 1), 7, accepted, 0.0, 0.0)


def test_acceptance_by_position_is_counted_both_ways() -> None:
    steps = tuple(step(index, accepted) for index, accepted in enumerate((0, 2, 0, 1, 3)))
    found = Acceptance.of([Decoded("chat", 0.0, steps, True)])
    assert found.passes == 4  # the prefill verifies nothing
    assert found.mean_acceptance_length == pytest.approx(1 + 6 / 4)
    assert found.unconditional == pytest.approx((3 / 4, 2 / 4, 1 / 4))
    assert found.conditional == pytest.approx((3 / 4, 2 / 3, 1 / 2))


def test_prompts_are_chosen_by_category_and_hash(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    lines = [{"turns": [f"Question {i}?"], "category": "ab"[i % 2]} for i in range(200)]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert len(choose_prompts([path], 3, held_out_only=False)) == 6
    held_out = choose_prompts([path], None, held_out_only=True)
    assert held_out
    assert all(is_held_out(seed.text) for seed in held_out)
    path.write_text('{"question": "?"}')
    with pytest.raises(EagleConfigError, match="Line 1 of"):
        choose_prompts([path], None, held_out_only=False)
    path.write_text("")
    with pytest.raises(EagleConfigError, match="no prompt"):
        choose_prompts([path], None, held_out_only=False)


def test_the_command_prints_a_table_and_writes_json(
    base_directory: Path, draft: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "Hello?", "category": "chat"}')
    command = ["evaluate", "--base", str(base_directory), "--draft", str(draft)]
    command += ["--prompts", str(tmp_path / "prompts.jsonl"), "--out", str(tmp_path / "out.json")]
    command += ["--max-new-tokens", "8", "--dtype", "float32", "--temperatures", "0"]
    assert main([*command, "--threads", "1"]) == 0
    assert "| chat | 1 |" in capsys.readouterr().out
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["temperature 0"]["chat"]["identical"] == 1
