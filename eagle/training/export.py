"""Writing and reading a draft directory in the SpecForge / SGLang form.

The directory appears whole or not at all: it is written beside its place and then renamed.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from eagle.checkpoint import read_config
from eagle.draft_config import parse_draft_config
from eagle.errors import EagleConfigError
from eagle.training.base import Base
from eagle.training.draft import Draft, DraftShape
from eagle.training.initialise import draft_shape
from eagle.training.vocabulary import DraftVocabulary

WEIGHTS = "model.safetensors"
MAX_POSITIONS = 8192


@dataclass(frozen=True, slots=True)
class TrainedDraft:
    draft: Draft
    vocabulary: DraftVocabulary


def draft_config(shape: DraftShape, base: Base) -> dict[str, Any]:
    """The config.json that SGLang and vLLM expect beside the weights."""
    text = base.text_config
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "target_model_type": base.model.config.model_type,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": 1,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_theta": shape.rope_theta,
        "max_position_embeddings": MAX_POSITIONS,
        "vocab_size": shape.vocab_size,
        "draft_vocab_size": shape.draft_vocab_size,
        "bos_token_id": text.bos_token_id,
        "eos_token_id": base.tokenizer.eos_token_id,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        # SGLang's meaning: the output of layer j, which is hidden_states[j + 1].
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": list(base.layer_ids),
            "use_aux_hidden_state": True,
        },
    }
    config |= {name: True for name in ("fc_norm", "norm_output") if getattr(shape, name)}
    if shape.mrope_section is not None:
        config["rope_scaling"] = {"type": "mrope", "mrope_section": list(shape.mrope_section)}
    return config


def export_draft(trained: TrainedDraft, base: Base, out: Path) -> None:
    """Write `out`, replacing a draft that stands there."""
    tensors = {
        name: tensor.detach().to(torch.bfloat16).contiguous()
        for name, tensor in trained.draft.state_dict().items()
    }
    tensors |= {"d2t": trained.vocabulary.d2t, "t2d": trained.vocabulary.t2d}
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_file(tensors, partial / WEIGHTS, metadata={"format": "pt"})
    config = draft_config(trained.draft.shape, base)
    (partial / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)


def import_draft(folder: Path, base: Base) -> TrainedDraft:
    """A draft of `export_draft`'s form to train on, float32; its tensors must fit the base."""
    config = parse_draft_config(read_config(folder), "specforge")
    if config.norm_before_residual or config.norm_before_fc:
        raise EagleConfigError(
            f"{folder} norms its features in a way that training does not know; start from another "
            f"draft."
        )
    tensors = load_file(folder / WEIGHTS)
    vocabulary = DraftVocabulary(tensors.pop("d2t"), tensors.pop("t2d"))
    plain = draft_shape(base, len(vocabulary.d2t))
    draft = Draft(replace(plain, fc_norm=config.fc_norm, norm_output=config.norm_output))
    draft.load_state_dict(tensors)
    return TrainedDraft(draft, vocabulary)
