"""Join SmolLM2-135M-Instruct and a small vision tower into one Qwen2.5-VL.

In: the language model's weights and a vision config. Out: a transformers model in float32,
its tower randomly initialised. A Llama is a Qwen2.5-VL decoder whose q/k/v biases are zero,
and on text its three position axes are equal, so the text logits stay what they were.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    PreTrainedTokenizerBase,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)

from vlm.demo_model.language_model_source import LanguageModelSource, read_language_model

VISION_START, VISION_END, IMAGE_PAD = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"
VISION_TOKENS = (VISION_START, VISION_END, IMAGE_PAD)
"""Appended to the vocabulary, in this order."""
MROPE_SECTION = (8, 12, 12)
# There is no video token. transformers compares ids with it, and none equals this one.
_NO_TOKEN = -1


def compose_model(
    gguf_path: Path, vision_config: dict[str, Any]
) -> Qwen2_5_VLForConditionalGeneration:
    """The model of `compose` for the language model in a GGUF file."""
    return compose(read_language_model(gguf_path), vision_config)


def compose(
    source: LanguageModelSource, vision_config: dict[str, Any]
) -> Qwen2_5_VLForConditionalGeneration:
    """A float32 model in evaluation mode; only the vision tower is random."""
    model = Qwen2_5_VLForConditionalGeneration(model_config(source, vision_config))
    missing, unexpected = model.model.language_model.load_state_dict(
        language_model_weights(source), strict=False
    )
    if missing or unexpected:
        raise ValueError(f"weights missing: {missing}, not expected: {unexpected}")
    model.tie_weights()
    model.eval()  # type: ignore[no-untyped-call]
    return model


def model_config(source: LanguageModelSource, vision_config: dict[str, Any]) -> Qwen2_5_VLConfig:
    """The config.json of the composed checkpoint."""
    figures = source.config
    first = figures.vocab_size
    text_config = {
        "vocab_size": first + len(VISION_TOKENS),
        "hidden_size": figures.hidden_size,
        "intermediate_size": figures.intermediate_size,
        "num_hidden_layers": figures.num_layers,
        "num_attention_heads": figures.num_heads,
        "num_key_value_heads": figures.num_key_value_heads,
        "max_position_embeddings": figures.max_position_embeddings,
        "rms_norm_eps": figures.rms_norm_eps,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": figures.rope_theta,
            "mrope_section": list(MROPE_SECTION),
        },
        "hidden_act": "silu",
        "use_sliding_window": False,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
    }
    return Qwen2_5_VLConfig(
        text_config=text_config,
        vision_config=dict(vision_config),
        vision_start_token_id=first,
        vision_end_token_id=first + 1,
        image_token_id=first + 2,
        video_token_id=_NO_TOKEN,
        tie_word_embeddings=True,
    )


def language_model_weights(
    source: LanguageModelSource, updates: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """The Llama's tensors, zero biases and the rows of the three new tokens added.

    `updates` is added to the tensors of the same names. Raises `KeyError` for an unknown name.
    """
    weights = dict(source.weights)
    for name, update in (updates or {}).items():
        weights[name] = weights[name] + update
    for name, weight in source.weights.items():
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
            weights[name.replace(".weight", ".bias")] = torch.zeros(weight.shape[0])
    embeddings = weights["embed_tokens.weight"]
    # The mean row is as unremarkable as a new token can be made without training.
    new_rows = embeddings.mean(0, keepdim=True).expand(len(VISION_TOKENS), -1)
    weights["embed_tokens.weight"] = torch.cat((embeddings, new_rows))
    return weights


def add_vision_tokens(tokenizer: PreTrainedTokenizerBase) -> None:
    """Append the three tokens; their ids follow the language model's own."""
    tokenizer.add_special_tokens({"additional_special_tokens": list(VISION_TOKENS)})
    expected = list(range(len(tokenizer) - len(VISION_TOKENS), len(tokenizer)))
    found = tokenizer.convert_tokens_to_ids(list(VISION_TOKENS))
    if found != expected:
        raise ValueError(f"the vision tokens got ids {found}, expected {expected}")
