"""Write a draft in another of the three forms in circulation (see `draft_config`).

In: a draft's directory. Out: a directory with the same tensors under the names, and the same facts
under the keys, that the other form's readers look for. Nothing is computed: a converted draft gives
identical logits.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from eagle.checkpoint import read_config
from eagle.draft_config import DraftConfig, DraftFormat, default_aux_layers
from eagle.errors import DraftMismatch
from eagle.loading import DraftCheckpoint, TargetFacts, check_fit, read_draft

LAYER_PREFIXES: Mapping[DraftFormat, str] = {
    "specforge": "midlayer.",
    "safeailab": "midlayer.",
    "speculators": "layers.0.",
}
# Tensors outside the one layer carry no prefix.
_OUTSIDE = ("fc.", "fc_norm.", "input_norm.", "norm.", "lm_head.", "embed_tokens.", "d2t", "t2d")
_VARIANTS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
# What a Llama's config says about the layer itself, in every form.
_LAYER_KEYS = (
    "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "hidden_act", "attention_bias", "mlp_bias", "rms_norm_eps", "rope_theta", "rope_scaling",
    "rope_parameters", "max_position_embeddings",
)  # fmt: skip
_TOKEN_KEYS = ("bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype", "dtype")
_PROPOSED_TOKENS = 3  # what vLLM drafts by default from a speculators config


def convert_draft(source: Path, out: Path, form: DraftFormat, base: Path) -> None:
    """Write the draft in `source` to `out`, which must not exist, as `form`.

    `base` is the directory of the draft's base. Raises `DraftMismatch` when the draft does not fit
    it, or when the form cannot say what this draft needs.
    """
    if out.exists():
        raise DraftMismatch(f"{out} exists already; give a directory that does not.")
    draft = read_draft(source)
    base_config = read_config(base)
    aux_layers = check_fit(draft, TargetFacts.from_json(base_config))
    config = converted_config(read_config(source), draft.config, form, base_config, aux_layers)
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    write_tensors(draft, form, partial)
    (partial / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    partial.rename(out)


def write_tensors(draft: DraftCheckpoint, form: DraftFormat, folder: Path) -> None:
    """`pytorch_model.bin` for SafeAILab's form, `model.safetensors` for the others."""
    tensors = {
        name if name.startswith(_OUTSIDE) else LAYER_PREFIXES[form] + name: tensor.contiguous()
        for name, tensor in draft.tensors.items()
    }
    if form == "safeailab":
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def converted_config(
    source: Mapping[str, Any],
    draft: DraftConfig,
    form: DraftFormat,
    base: Mapping[str, Any],
    aux_layers: tuple[int, ...],
) -> dict[str, Any]:
    """The config.json of `form`. `aux_layers` are indices into hidden_states."""
    layer_source = {**source, **(source.get("transformer_layer_config") or {})}
    layer = {key: layer_source[key] for key in _LAYER_KEYS if key in layer_source}
    tokens = {key: source[key] for key in _TOKEN_KEYS if key in source}
    variants = {name: True for name in _VARIANTS if getattr(draft, name)}
    match form:
        case "safeailab":
            return _safeailab(layer | tokens, draft, variants, base, aux_layers)
        case "specforge":
            return _specforge(layer | tokens, draft, variants, base, aux_layers)
        case "speculators":
            return _speculators(layer, tokens, draft, base, aux_layers)


def _safeailab(
    plain: dict[str, Any],
    draft: DraftConfig,
    variants: Mapping[str, bool],
    base: Mapping[str, Any],
    aux_layers: tuple[int, ...],
) -> dict[str, Any]:
    """A plain Llama config: captured layers are the base's defaults, and there are no variants."""
    num_layers = TargetFacts.from_json(dict(base)).num_layers
    if aux_layers != default_aux_layers(num_layers):
        raise DraftMismatch(
            f"The draft captures hidden states {list(aux_layers)}, but SafeAILab's form always "
            f"means {list(default_aux_layers(num_layers))} for a base of {num_layers} layers: "
            f"choose another form."
        )
    if variants or draft.owns_embeddings:
        named = ", ".join(
            [*variants, *(["embeddings of its own"] if draft.owns_embeddings else [])]
        )
        raise DraftMismatch(f"SafeAILab's form cannot say: {named}. Choose another form.")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **plain,
        "num_hidden_layers": 1,
        "tie_word_embeddings": False,
        "vocab_size": draft.vocab_size,
        "draft_vocab_size": draft.draft_vocab_size,
    }


def _specforge(
    plain: dict[str, Any],
    draft: DraftConfig,
    variants: Mapping[str, bool],
    base: Mapping[str, Any],
    aux_layers: tuple[int, ...],
) -> dict[str, Any]:
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "target_model_type": base.get("model_type"),
        **plain,
        **variants,
        "num_hidden_layers": 1,
        "tie_word_embeddings": False,
        "vocab_size": draft.vocab_size,
        "draft_vocab_size": draft.draft_vocab_size,
        # SGLang counts outputs of layers: one lower for the same tensor.
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": [layer - 1 for layer in aux_layers],
            "use_aux_hidden_state": True,
        },
    }
    if draft.owns_embeddings:
        config["target_hidden_size"] = draft.target_hidden_size
    return config


def _speculators(
    layer: dict[str, Any],
    tokens: dict[str, Any],
    draft: DraftConfig,
    base: Mapping[str, Any],
    aux_layers: tuple[int, ...],
) -> dict[str, Any]:
    proposal = {
        "proposal_type": "greedy",
        "speculative_tokens": _PROPOSED_TOKENS,
        "verifier_accept_k": 1,
        "accept_tolerance": 0.0,
    }
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "transformer_layer_config": {
            "model_type": "llama",
            **layer,
            "num_hidden_layers": 1,
            "vocab_size": draft.vocab_size,
        },
        **tokens,
        "tie_word_embeddings": False,
        "draft_vocab_size": draft.draft_vocab_size,
        "target_hidden_size": draft.target_hidden_size if draft.owns_embeddings else None,
        **{name: getattr(draft, name) for name in _VARIANTS},
        # vLLM counts inputs of layers, as hidden_states does.
        "eagle_aux_hidden_state_layer_ids": list(aux_layers),
        "embed_requires_grad": False,
        "speculators_config": {
            "algorithm": "eagle3",
            "proposal_methods": [proposal],
            "default_proposal_method": "greedy",
            "verifier": {
                "name_or_path": base.get("_name_or_path") or "",
                "architectures": list(base.get("architectures") or []),
            },
        },
    }
