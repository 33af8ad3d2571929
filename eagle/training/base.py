"""The base as training sees it: a transformers model, its tokenizer, and the layers to capture."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    PreTrainedModel,
)

from eagle.errors import EagleConfigError

MIN_LAYERS = 7  # with fewer, the three default layers are not distinct


@dataclass(frozen=True, slots=True)
class Base:
    """A loaded base and the facts about it that data and trainer share."""

    path: str
    model: PreTrainedModel
    tokenizer: Any
    layer_ids: tuple[int, int, int]  # SGLang's meaning: outputs of these layers
    stop_ids: tuple[int, ...]

    @property
    def text_config(self) -> Any:
        return self.model.config.get_text_config()

    @property
    def decoder(self) -> Any:
        """The stack of decoder layers inside a causal or a vision-language model."""
        inner: Any = self.model.model
        return getattr(inner, "language_model", inner)

    @property
    def is_multi_axis(self) -> bool:
        """Whether the rotary embedding has three axes (Qwen2.5-VL)."""
        return "mrope_section" in (self.text_config.rope_parameters or {})

    @property
    def embedding(self) -> torch.Tensor:
        """(V, H), frozen."""
        module: Any = self.model.get_input_embeddings()
        table: torch.Tensor = module.weight.detach()
        return table

    @property
    def head(self) -> torch.Tensor:
        """(V, H), frozen; the embedding itself where the two are tied."""
        model: Any = self.model
        table: torch.Tensor = model.get_output_embeddings().weight.detach()
        return table


def default_layer_ids(num_layers: int) -> tuple[int, int, int]:
    """Layers whose outputs EAGLE-3 fuses: low, middle and high."""
    if num_layers < MIN_LAYERS:
        raise EagleConfigError(
            f"a base of {num_layers} layers is too shallow for the default captured layers; "
            f"at least {MIN_LAYERS} are needed."
        )
    return 1, num_layers // 2 - 1, num_layers - 4


def add_base_arguments(parser: argparse.ArgumentParser) -> None:
    """The base, and what it runs on: the same for every command that loads one."""
    parser.add_argument("--base", required=True, help="directory or hub id of the base")
    parser.add_argument("--device", default=_default_device(), help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads")


def _default_device() -> str:
    """A GPU where torch sees one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def load_base(path: str, dtype: torch.dtype = torch.bfloat16, device: str = "cpu") -> Base:
    """Load a directory or hub id; a Qwen2.5-VL base comes with its visual encoder."""
    config = AutoConfig.from_pretrained(path)
    has_vision = getattr(config, "vision_config", None) is not None
    loader: Any = AutoModelForImageTextToText if has_vision else AutoModelForCausalLM
    model = loader.from_pretrained(path, dtype=dtype).eval().to(device)
    tokenizer = AutoTokenizer.from_pretrained(path)
    num_layers = model.config.get_text_config().num_hidden_layers
    return Base(path, model, tokenizer, default_layer_ids(num_layers), stop_ids(model, tokenizer))


def stop_ids(model: PreTrainedModel, tokenizer: Any) -> tuple[int, ...]:
    """Tokens that end an answer, from the generation config and the tokenizer."""
    configured = model.generation_config.eos_token_id if model.generation_config else None
    ids = configured if isinstance(configured, list) else [configured]
    return tuple(sorted({i for i in (*ids, tokenizer.eos_token_id) if i is not None}))
