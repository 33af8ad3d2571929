"""A draft in another form is the same draft, and what a form cannot say is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import save_file

from eagle.__main__ import main
from eagle.convert import convert_draft
from eagle.draft_config import DraftFormat
from eagle.errors import DraftMismatch
from eagle.loading import bind_draft, read_draft
from tests import tiny
from tests.eagle.drafts import draft_json, random_tensors
from vlm.language_model import LanguageModel

FORMS: tuple[DraftFormat, ...] = get_args(DraftFormat)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tiny.write("qwen2_5_vl", folder)
    return folder


def write_draft(folder: Path, target: LanguageModel, **extra: Any) -> Path:
    config = draft_json(target, 90, **extra)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(random_tensors(config), folder / "model.safetensors")
    return folder


def logits(folder: Path, target: LanguageModel) -> torch.Tensor:
    """The head's answer to the same random slots."""
    device = torch.device("cpu")
    embedding = target.embed(torch.arange(target.config.vocab_size))
    head = bind_draft(read_draft(folder), embedding, dtype=torch.float32, device=device)
    generator = torch.Generator().manual_seed(0)
    hidden = target.config.hidden_size
    embeds = torch.randn(6, hidden, generator=generator)
    features = head.fuse_aux(torch.randn(6, 3 * hidden, generator=generator))
    positions = torch.arange(6).expand(3, -1)
    return head.log_probabilities(head.forward(embeds, features, positions, head.new_cache(16)))


@pytest.mark.parametrize("first", FORMS)
@pytest.mark.parametrize("second", FORMS)
def test_a_converted_draft_gives_identical_logits(
    first: DraftFormat, second: DraftFormat, tmp_path: Path, target: LanguageModel, base: Path
) -> None:
    source = write_draft(tmp_path / "source", target)
    convert_draft(source, tmp_path / "first", first, base)
    convert_draft(tmp_path / "first", tmp_path / "second", second, base)
    found = read_draft(tmp_path / "second")
    assert found.config.format == second
    assert found.config.rotary == read_draft(source).config.rotary
    assert torch.equal(logits(source, target), logits(tmp_path / "second", target))


@pytest.mark.parametrize("form", ["specforge", "speculators"])
@pytest.mark.parametrize("variant", ["fc_norm", "norm_output", "norm_before_residual"])
def test_variants_survive(
    form: DraftFormat, variant: str, tmp_path: Path, target: LanguageModel, base: Path
) -> None:
    source = write_draft(tmp_path / "source", target, **{variant: True})
    convert_draft(source, tmp_path / "out", form, base)
    assert getattr(read_draft(tmp_path / "out").config, variant)
    assert torch.equal(logits(source, target), logits(tmp_path / "out", target))


def test_what_safeailabs_form_cannot_say_is_refused(
    tmp_path: Path, target: LanguageModel, base: Path
) -> None:
    source = write_draft(tmp_path / "a", target, norm_output=True)
    with pytest.raises(DraftMismatch, match="cannot say: norm_output"):
        convert_draft(source, tmp_path / "out", "safeailab", base)
    other = write_draft(
        tmp_path / "b", target, eagle_config={"eagle_aux_hidden_state_layer_ids": [0, 2, 4]}
    )
    with pytest.raises(DraftMismatch, match=r"captures hidden states \[1, 3, 5\]"):
        convert_draft(other, tmp_path / "out", "safeailab", base)
    assert not (tmp_path / "out").exists()


def test_the_fields_that_vllm_and_sglang_read_are_there(
    tmp_path: Path, target: LanguageModel, base: Path
) -> None:
    source = write_draft(tmp_path / "source", target)
    for form in ("specforge", "speculators"):
        convert_draft(source, tmp_path / form, form, base)
    sglang = json.loads((tmp_path / "specforge" / "config.json").read_text())
    assert sglang["architectures"] == ["LlamaForCausalLMEagle3"]
    assert sglang["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [1, 2, 3]
    vllm = json.loads((tmp_path / "speculators" / "config.json").read_text())
    assert vllm["speculators_model_type"] == "eagle3"
    assert vllm["eagle_aux_hidden_state_layer_ids"] == [2, 3, 4]
    assert vllm["transformer_layer_config"]["hidden_size"] == target.config.hidden_size
    verifier = vllm["speculators_config"]["verifier"]
    assert verifier["architectures"] == ["Qwen2_5_VLForConditionalGeneration"]


def test_the_command_converts_and_never_writes_over_anything(
    tmp_path: Path, target: LanguageModel, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_draft(tmp_path / "source", target)
    command = ["convert", str(source), "--base", str(base), "--format", "speculators"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    assert main([*command, "--out", str(tmp_path / "out")]) == 2
    assert "exists already" in capsys.readouterr().err


def test_help_needs_no_training_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "generate-data" in capsys.readouterr().out


def test_help_names_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    said = capsys.readouterr().out
    assert "steps of the optimizer (default: 2000)" in said
    assert "None" not in said
    assert "default: False" not in said
