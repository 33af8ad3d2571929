"""The bundled pair on disk: two ordinary checkpoint directories, composed once into the cache.

The base is SmolLM2 as the language model of a Qwen2.5-VL (see `composition`) with our vision tower
from `assets/`; the draft is copied beside it. From then on they are anybody's checkpoints.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from transformers import PreTrainedTokenizerBase

from vlm.cache_folder import cache_folder
from vlm.demo_model.composition import add_vision_tokens, language_model_weights, model_config
from vlm.demo_model.fetching import Progress, open_language_model, source_identity
from vlm.demo_model.language_model_source import LanguageModelSource
from vlm.demo_model.weights import read_adapter_updates, read_visual_weights
from vlm.errors import CheckpointError

ASSETS = Path(__file__).parents[2] / "assets" / "bundled"
COMPOSE_VERSION = 2  # raise it when the files below change, so that caches are made anew

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
GENERATION: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": [2], "pad_token_id": 2}


def bundled_pair(
    base_weights: str | None, on_progress: Progress, assets: Path = ASSETS
) -> tuple[Path, Path]:
    """Directories of base and draft, composed on first use; later calls only find them.

    Raises `CheckpointError` when the weights cannot be had. Safe to interrupt: the pair appears
    under its final name only when it is whole.
    """
    pair = cache_folder() / f"bundled-{_key(base_weights, assets)}"
    if not pair.exists():
        pair.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=pair.parent, prefix="composing-") as scratch:
            folder = Path(scratch)
            source, tokenizer = open_language_model(base_weights, folder, on_progress)
            on_progress(f"Composing the bundled model in {pair}")
            (folder / "pair").mkdir()
            write_base(source, tokenizer, folder / "pair" / "base", assets)
            shutil.copytree(assets / "draft", folder / "pair" / "draft")
            _move_into_place(folder / "pair", pair)
    return pair / "base", pair / "draft"


def write_base(
    source: LanguageModelSource,
    tokenizer: PreTrainedTokenizerBase,
    directory: Path,
    assets: Path = ASSETS,
) -> None:
    """Write the base as a Qwen2.5-VL checkpoint."""
    directory.mkdir()
    vision_weights, vision_config = read_visual_weights(assets)
    config = model_config(source, vision_config)
    config.architectures = ["Qwen2_5_VLForConditionalGeneration"]
    config.save_pretrained(directory)
    add_vision_tokens(tokenizer)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(directory)
    _write_json(directory / "preprocessor_config.json", PREPROCESSOR)
    _write_json(directory / "generation_config.json", GENERATION)
    learned = language_model_weights(source, read_adapter_updates(assets))
    tensors = {f"model.{name}": tensor for name, tensor in learned.items()}
    tensors |= {f"visual.{name}": tensor.float() for name, tensor in vision_weights.items()}
    # float32, because the 4-bit source's scale times level plus offset fits no shorter format.
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        directory / "model.safetensors",
        metadata={"format": "pt"},
    )


def _key(base_weights: str | None, assets: Path) -> str:
    """Changes with whatever the composed files depend on."""
    digest = hashlib.sha256(f"{COMPOSE_VERSION} {source_identity(base_weights)}".encode())
    digest.update(CHAT_TEMPLATE.encode())
    for path in sorted(path for path in assets.rglob("*") if path.is_file()):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _move_into_place(source: Path, target: Path) -> None:
    try:
        os.replace(source, target)  # noqa: PTH105 (atomic, also over a rival's result)
    except OSError as error:
        if not target.exists():  # else another process finished first
            raise CheckpointError(f"Could not write {target}: {error}") from error


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
