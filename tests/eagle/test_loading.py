"""Drafts in their three forms, and every misfit named in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from eagle.__main__ import main
from eagle.errors import DraftMismatch
from eagle.loading import TargetFacts, check_fit, read_draft
from tests.eagle.drafts import draft_json, random_tensors
from vlm.language_model import LanguageModel

Tensors = dict[str, torch.Tensor]


@pytest.fixture
def parts(target: LanguageModel) -> tuple[dict[str, Any], Tensors]:
    config = draft_json(target, 90)
    return config, random_tensors(config)


def prefixed(tensors: Tensors, prefix: str) -> Tensors:
    inner = ("self_attn.", "mlp.", "input_layernorm", "hidden_norm", "post_attention")
    return {(prefix if k.startswith(inner) else "") + k: v.clone() for k, v in tensors.items()}


def write(folder: Path, config: dict[str, Any], tensors: Tensors) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")
    return folder


def write_safeailab(folder: Path, config: dict[str, Any], tensors: Tensors) -> Path:
    folder.mkdir()
    plain = {k: v for k, v in config.items() if k != "eagle_config"}
    plain["architectures"] = ["LlamaForCausalLM"]
    (folder / "config.json").write_text(json.dumps(plain))
    torch.save(prefixed(tensors, "midlayer."), folder / "pytorch_model.bin")
    return folder


def write_speculators(folder: Path, config: dict[str, Any], tensors: Tensors) -> Path:
    own = ("draft_vocab_size", "eagle_config", "architectures")
    layer = {k: v for k, v in config.items() if k not in own}
    outer = {
        "speculators_model_type": "eagle3",
        "draft_vocab_size": config["draft_vocab_size"],
        "transformer_layer_config": layer,
        "eagle_aux_hidden_state_layer_ids": [2, 3, 4],
    }
    extra = {"embed_tokens.weight": torch.zeros(config["vocab_size"], config["hidden_size"])}
    return write(folder, outer, prefixed(tensors, "layers.0.") | extra)


def test_the_three_forms_hold_the_same_draft(
    parts: tuple[dict[str, Any], Tensors], tmp_path: Path, target: LanguageModel
) -> None:
    config, tensors = parts
    read = {
        "specforge": read_draft(write(tmp_path / "a", config, prefixed(tensors, "midlayer."))),
        "safeailab": read_draft(write_safeailab(tmp_path / "b", config, tensors)),
        "speculators": read_draft(write_speculators(tmp_path / "c", config, tensors)),
    }
    facts = TargetFacts(target.config.hidden_size, target.config.vocab_size, 7)
    for name, draft in read.items():
        assert draft.config.format == name
        assert draft.tensors.keys() == tensors.keys()
        assert all(torch.equal(draft.tensors[key], tensors[key]) for key in tensors)
        # Seven layers: the defaults (2, n/2, n-3) are the explicit ids of the other two forms.
        assert check_fit(draft, facts) == (2, 3, 4)


def broken_maps() -> list[tuple[str, Any, str]]:
    def shuffled(tensors: Tensors) -> None:
        tensors["d2t"] = tensors["d2t"].flip(0)

    def beyond(tensors: Tensors) -> None:
        tensors["d2t"][-1] += 500

    def disagreeing(tensors: Tensors) -> None:
        tensors["t2d"] = ~tensors["t2d"]

    def missing(tensors: Tensors) -> None:
        del tensors["fc.weight"]

    def extra(tensors: Tensors) -> None:
        tensors["fc.bias"] = torch.zeros(3)

    def wrong_shape(tensors: Tensors) -> None:
        tensors["lm_head.weight"] = torch.zeros(3, 3)

    def no_map(tensors: Tensors) -> None:
        del tensors["d2t"]

    return [
        ("shuffled", shuffled, "d2t is no increasing map"),
        ("beyond", beyond, "beyond the vocabulary of 160"),
        ("disagreeing", disagreeing, "t2d does not mark"),
        ("missing", missing, "lacks the tensor fc.weight"),
        ("extra", extra, "not understood: fc.bias"),
        ("shape", wrong_shape, r"lm_head.weight has shape \(3, 3\)"),
        ("no map", no_map, "no d2t"),
    ]


@pytest.mark.parametrize(
    ("spoil", "message"), [pytest.param(s, m, id=name) for name, s, m in broken_maps()]
)
def test_a_malformed_draft_is_refused(
    spoil: Any, message: str, parts: tuple[dict[str, Any], Tensors], tmp_path: Path
) -> None:
    config, tensors = parts
    spoil(tensors)
    with pytest.raises(DraftMismatch, match=message):
        read_draft(write(tmp_path / "draft", config, tensors))


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (TargetFacts(64, 160, 7), "hidden states of size 48.*have size 64"),
        (TargetFacts(48, 200, 7), "vocabulary of 160.*base has 200"),
        (TargetFacts(48, 160, 3), r"captures hidden states \[2, 3, 4\].*3 layers"),
    ],
)
def test_a_draft_of_another_base_is_refused(
    facts: TargetFacts, message: str, parts: tuple[dict[str, Any], Tensors], tmp_path: Path
) -> None:
    config, tensors = parts
    draft = read_draft(write(tmp_path / "draft", config, tensors))
    with pytest.raises(DraftMismatch, match=message):
        check_fit(draft, facts)


def test_the_ropes_base_comes_from_the_draft_never_from_the_target(
    parts: tuple[dict[str, Any], Tensors], tmp_path: Path
) -> None:
    """Drafts without rope_theta were trained with 10000, whatever their base uses."""
    config, tensors = parts
    del config["rope_theta"]
    draft = read_draft(write(tmp_path / "draft", config, tensors))
    assert draft.config.rotary.theta == 10000


def test_inspect_prints_the_facts_or_the_misfit(
    parts: tuple[dict[str, Any], Tensors], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, tensors = parts
    draft = str(write(tmp_path / "draft", config, tensors))
    base = tmp_path / "base"
    base.mkdir()
    shape = {"hidden_size": 48, "vocab_size": 160, "num_hidden_layers": 7}
    (base / "config.json").write_text(json.dumps(shape))
    assert main(["inspect", draft, "--base", str(base)]) == 0
    out = capsys.readouterr().out
    for fact in ("format: specforge", "hidden states [2, 3, 4]", "90 of 160", "base 10000"):
        assert fact in out
    (base / "config.json").write_text(json.dumps(shape | {"hidden_size": 96}))
    assert main(["inspect", draft, "--base", str(base)]) == 2
    assert "made for another base" in capsys.readouterr().err
    assert main(["inspect", str(base)]) == 2
    assert "no EAGLE-3 draft" in capsys.readouterr().err
