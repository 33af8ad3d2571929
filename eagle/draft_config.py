"""What a draft checkpoint is: one description for the three formats in circulation.

Formats are told apart by what the files say (`eagle3` facts, section 1.6 of the field's practice):

- "safeailab": plain Llama config with `draft_vocab_size`, weights in pytorch_model.bin;
- "specforge": `LlamaForCausalLMEagle3`, `midlayer.*` in model.safetensors (SGLang's form);
- "speculators": `speculators_model_type` "eagle3", `layers.0.*` (vLLM's form).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from eagle.errors import DraftMismatch, EagleConfigError
from eagle.layers import RotaryConfig

DraftFormat = Literal["safeailab", "specforge", "speculators"]

# transformers' LlamaConfig default. Drafts without a rope_theta were trained with it, even where
# their base uses another: taking the base's value here costs acceptance.
DEFAULT_ROPE_THETA = 10000.0


@dataclass(frozen=True, slots=True)
class DraftConfig:
    """An EAGLE-3 head. `aux_layers` None means the defaults for the target's depth."""

    format: DraftFormat
    hidden_size: int
    target_hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    vocab_size: int
    draft_vocab_size: int
    rotary: RotaryConfig
    aux_layers: tuple[int, ...] | None  # indices into hidden_states, 0 = embeddings
    owns_embeddings: bool
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False

    @property
    def num_aux(self) -> int:
        return 3 if self.aux_layers is None else len(self.aux_layers)

    def aux_layers_for(self, num_target_layers: int) -> tuple[int, ...]:
        """Which hidden states of the target to capture; index 0 is the embedding output."""
        layers = self.aux_layers or default_aux_layers(num_target_layers)
        if max(layers) > num_target_layers or len(set(layers)) != len(layers):
            raise DraftMismatch(
                f"The draft captures hidden states {list(layers)} of the base, which has "
                f"{num_target_layers} layers: they must be different and at most "
                f"{num_target_layers}."
            )
        return layers


def default_aux_layers(num_target_layers: int) -> tuple[int, int, int]:
    """EAGLE-3's choice: inputs of layers 2, n // 2 and n - 3."""
    return 2, num_target_layers // 2, num_target_layers - 3


def parse_draft_config(config: Mapping[str, Any], draft_format: DraftFormat) -> DraftConfig:
    """Read a draft's config.json. Raises `DraftMismatch` naming what is missing or unsupported."""
    layer: Mapping[str, Any] = config.get("transformer_layer_config") or config
    try:
        hidden, heads = int(layer["hidden_size"]), int(layer["num_attention_heads"])
        num_layers = int(layer.get("num_hidden_layers", 1))
        head_dim = int(layer.get("head_dim") or hidden // heads)
        vocab_size = int(config.get("vocab_size") or layer["vocab_size"])
        if num_layers != 1:
            raise DraftMismatch(
                f"The draft has {num_layers} layers; one-layer heads are supported."
            )
        return DraftConfig(
            format=draft_format,
            hidden_size=hidden,
            target_hidden_size=int(config.get("target_hidden_size") or hidden),
            intermediate_size=int(layer["intermediate_size"]),
            num_attention_heads=heads,
            num_key_value_heads=int(layer.get("num_key_value_heads") or heads),
            head_dim=head_dim,
            rms_norm_eps=float(layer["rms_norm_eps"]),
            vocab_size=vocab_size,
            draft_vocab_size=int(config.get("draft_vocab_size") or vocab_size),
            rotary=RotaryConfig.from_json(layer, head_dim, DEFAULT_ROPE_THETA),
            aux_layers=_aux_layers(config),
            owns_embeddings=(config.get("target_hidden_size") or hidden) != hidden,
            norm_before_residual=bool(config.get("norm_before_residual", False)),
            norm_before_fc=bool(config.get("norm_before_fc", False)),
            fc_norm=bool(config.get("fc_norm", False)),
            norm_output=bool(config.get("norm_output", False)),
        )
    except KeyError as error:
        raise DraftMismatch(f"The draft's config.json has no {error}.") from error
    except EagleConfigError as error:
        raise DraftMismatch(f"The draft's config.json does not work: {error}") from error


def _aux_layers(config: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Two families count differently: vLLM's ids are inputs of layers (hidden_states indices),
    SGLang's, NVIDIA's and AngelSlim's are outputs, one lower for the same tensor."""
    inputs = config.get("eagle_aux_hidden_state_layer_ids")
    eagle_config = config.get("eagle_config") or {}
    outputs = eagle_config.get("eagle_aux_hidden_state_layer_ids") or config.get(
        "aux_hidden_states_layer_ids"
    )
    if eagle_config.get("use_aux_hidden_state") is False:
        raise DraftMismatch("The draft reads the last layer only (EAGLE-1/2); EAGLE-3 is needed.")
    if inputs:
        return tuple(int(layer) for layer in inputs)
    return tuple(int(layer) + 1 for layer in outputs) if outputs else None
