"""Small random checkpoints, written by transformers itself in the real formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCAB = 160
VISION_START, VISION_END, IMAGE_PAD = 157, 158, 159
SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 7,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
    "rope_theta": 5000.0,
}


def vision_config() -> dict[str, Any]:
    return {
        "depth": 4,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_heads": 2,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [1, 3],
        "out_hidden_size": SHAPE["hidden_size"],
    }


def build(family: str, *, tied: bool = False) -> PreTrainedModel:
    """A random model whose logits are spread enough for greedy text to vary."""
    torch.manual_seed(7)
    if family == "llama":
        model: PreTrainedModel = LlamaForCausalLM(
            LlamaConfig(**SHAPE, rope_parameters=LLAMA3_SCALING, tie_word_embeddings=tied)
        )
    elif family == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=8, tie_word_embeddings=tied))
    else:
        rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
        model = Qwen2_5_VLForConditionalGeneration(
            Qwen2_5_VLConfig(
                text_config={**SHAPE, "rope_parameters": rope, "tie_word_embeddings": tied},
                vision_config=vision_config(),
                image_token_id=IMAGE_PAD,
                video_token_id=156,
                vision_start_token_id=VISION_START,
                vision_end_token_id=VISION_END,
                tie_word_embeddings=tied,
            )
        )
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.15)
        elif "norm" in name or "ln" in name:
            torch.nn.init.uniform_(parameter, 0.7, 1.3)
        else:
            torch.nn.init.normal_(parameter, std=0.1)
    return model.eval()


def write(family: str, directory: Path, *, tied: bool = False) -> PreTrainedModel:
    """Save a random checkpoint to `directory` and return the model that it holds."""
    model = build(family, tied=tied)
    model.save_pretrained(directory)
    return model


IMAGE_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer(*, images: bool) -> PreTrainedTokenizerFast:
    """One token a printable ASCII character, and the special tokens of Qwen's chats."""
    characters = ["\n", *map(chr, range(32, 127))]
    specials = {2: "<|im_end|>", 150: "<|im_start|>"}
    specials |= {VISION_START: "<|vision_start|>", VISION_END: "<|vision_end|>"}
    specials |= {IMAGE_PAD: "<|image_pad|>"}
    vocabulary = {"<unk>": 0, "<s>": 1} | {text: index for index, text in specials.items()}
    vocabulary |= {character: index for index, character in enumerate(characters, start=3)}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    inner.decoder = decoders.Fuse()
    inner.add_special_tokens([AddedToken(text, special=True) for text in specials.values()])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", unk_token="<unk>"
    )
    wrapped.chat_template = IMAGE_TEMPLATE if images else TEXT_TEMPLATE
    return wrapped


def write_with_tokenizer(family: str, directory: Path) -> PreTrainedModel:
    """A checkpoint that can be chatted with."""
    model = write(family, directory)
    tokenizer(images=family == "qwen2_5_vl").save_pretrained(directory)
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": [2]}))
    return model
