"""The bundled pair on disk: two ordinary checkpoint directories, composed once into the cache.

The base is a Qwen2.5-VL: SmolLM2 as its language model (a Llama is that decoder with q/k/v biases
of zero, and equal M-RoPE axes are ordinary RoPE, so nothing changes for text), our vision tower
from `assets/`, and three vision tokens behind the vocabulary. The draft is copied beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerBase, Qwen2_5_VLConfig

from vlm.cache_folder import cache_folder
from vlm.demo_model.smollm2 import LanguageModelSource, source_identity
from vlm.errors import CheckpointError

ASSETS = Path(__file__).parents[2] / "assets" / "bundled"
COMPOSE_VERSION = "1"
VISION_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>")

# SmolLM2's own template, with pictures where a message's content is a list of parts.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}"
    "{{ '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LANGUAGE_MODEL: dict[str, Any] = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 100000.0,
        "mrope_section": [8, 12, 12],
    },
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}
PREPROCESSOR: dict[str, Any] = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2_5_VLProcessor",
    "patch_size": 14,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "min_pixels": 4 * 784,
    "max_pixels": 16384 * 784,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}


def bundled_pair(base_weights: str | None, on_progress: Callable[[str], None]) -> tuple[Path, Path]:
    """Directories of base and draft, composed on first use; later calls only find them.

    Raises `CheckpointError` when the weights cannot be had. Safe to interrupt: the pair appears
    under its final name only when it is whole.
    """
    pair = cache_folder() / f"bundled-{_key(base_weights)}"
    if not pair.exists():
        pair.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=pair.parent, prefix="composing-") as scratch:
            folder = Path(scratch)
            source = LanguageModelSource.open(base_weights, folder, on_progress)
            on_progress(f"Composing the bundled model in {pair}")
            (folder / "pair").mkdir()
            write_base(source, folder / "pair" / "base")
            shutil.copytree(ASSETS / "draft", folder / "pair" / "draft")
            _move_into_place(folder / "pair", pair)
    return pair / "base", pair / "draft"


def write_base(source: LanguageModelSource, directory: Path) -> None:
    """Write the base as a Qwen2.5-VL checkpoint."""
    directory.mkdir()
    tokenizer = extended_tokenizer(source)
    start, end, pad = (tokenizer.convert_tokens_to_ids(token) for token in VISION_TOKENS)
    config = Qwen2_5_VLConfig(
        architectures=["Qwen2_5_VLForConditionalGeneration"],
        text_config={**LANGUAGE_MODEL, "vocab_size": len(tokenizer)},
        vision_config=json.loads((ASSETS / "visual.json").read_text(encoding="utf-8")),
        vision_start_token_id=start,
        vision_end_token_id=end,
        image_token_id=pad,
        video_token_id=pad,  # required by the format; no template makes one
        tie_word_embeddings=True,
        dtype="float32",
    )
    config.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    _write_json(directory / "preprocessor_config.json", PREPROCESSOR)
    generation = {"bos_token_id": 1, "eos_token_id": [2], "pad_token_id": 2}
    _write_json(directory / "generation_config.json", generation)
    tensors = language_tensors(source, len(tokenizer))
    tensors |= {
        f"visual.{name}": tensor.float()
        for name, tensor in load_file(ASSETS / "visual.safetensors").items()
    }
    # float32, because the 4-bit source's scale times level plus offset fits no shorter format.
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def extended_tokenizer(source: LanguageModelSource) -> PreTrainedTokenizerBase:
    """SmolLM2's tokenizer with the three vision tokens and the template above."""
    tokenizer = source.tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": list(VISION_TOKENS)})
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def language_tensors(source: LanguageModelSource, vocab_size: int) -> dict[str, torch.Tensor]:
    """All tensors below `model.`; new vocabulary rows are the mean of the old ones, which no
    hidden state prefers over a real word."""
    tensors: dict[str, torch.Tensor] = {}
    for name, tensor in source.tensors():
        if name == "embed_tokens.weight":
            extra = vocab_size - tensor.shape[0]
            tensor = torch.cat((tensor, tensor.mean(0, keepdim=True).expand(extra, -1)))
        tensors[f"model.{name}"] = tensor.contiguous()
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
            bias_name = f"model.{name.removesuffix('weight')}bias"
            tensors[bias_name] = torch.zeros(tensor.shape[0])
    return tensors


def _key(base_weights: str | None) -> str:
    """Changes with whatever the composed files depend on."""
    digest = hashlib.sha256(f"{COMPOSE_VERSION} {source_identity(base_weights)}".encode())
    for path in sorted(path for path in ASSETS.rglob("*") if path.is_file()):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()[:16]


def _move_into_place(source: Path, target: Path) -> None:
    try:
        os.replace(source, target)  # noqa: PTH105 (atomic, also over a rival's result)
    except OSError as error:
        if not target.exists():  # else another process finished first
            raise CheckpointError(f"Could not write {target}: {error}") from error


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
