"""From a draft's files to a `DraftHead`: look first, load strictly, check against the target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from eagle.checkpoint import iterate_tensors, read_config, tensor_files
from eagle.draft_config import DraftConfig, DraftFormat, parse_draft_config
from eagle.draft_model import DraftHead
from eagle.errors import DraftMismatch

INTEGER_TENSORS = ("d2t", "t2d")


@dataclass(frozen=True, slots=True)
class DraftCheckpoint:
    """A draft read from disk, its vocabulary maps checked, not yet bound to a target."""

    config: DraftConfig
    tensors: dict[str, torch.Tensor]  # names without the layer prefix

    @property
    def num_parameters(self) -> int:
        return sum(t.numel() for name, t in self.tensors.items() if name not in INTEGER_TENSORS)


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What a draft must agree with."""

    hidden_size: int
    vocab_size: int
    num_layers: int

    @classmethod
    def from_json(cls, config: dict[str, Any]) -> TargetFacts:
        text = config.get("text_config") or config
        return cls(text["hidden_size"], text["vocab_size"], text["num_hidden_layers"])


def detect_format(directory: Path, config: dict[str, Any]) -> DraftFormat:
    """Which of the three forms the files have."""
    if config.get("speculators_model_type"):
        if config["speculators_model_type"] != "eagle3":
            kind = config["speculators_model_type"]
            raise DraftMismatch(f"{directory} is a '{kind}' speculator; EAGLE-3 is needed.")
        return "speculators"
    if "draft_vocab_size" not in config and not config.get("eagle_config"):
        raise DraftMismatch(
            f"{directory} is no EAGLE-3 draft: its config.json has no draft_vocab_size."
        )
    return "specforge" if tensor_files(directory) else "safeailab"


def read_draft(directory: Path) -> DraftCheckpoint:
    """Read and check a draft. Raises `DraftMismatch` in one sentence."""
    raw = read_config(directory)
    draft_format = detect_format(directory, raw)
    config = parse_draft_config(raw, draft_format)
    tensors = {_plain_name(name): tensor for name, tensor in iterate_tensors(directory)}
    if not config.owns_embeddings:
        # Some exporters add a copy of the target's table, which is shared instead.
        tensors.pop("embed_tokens.weight", None)
    _check_tensors(config, tensors)
    _check_vocabulary_maps(config, tensors)
    return DraftCheckpoint(config, tensors)


def bind_draft(
    draft: DraftCheckpoint, embedding: torch.Tensor, *, dtype: torch.dtype, device: torch.device
) -> DraftHead:
    """Place a draft on a device, sharing the target's embedding table (V, Ht)."""
    placed = {
        name: tensor.to(device, None if name in INTEGER_TENSORS else dtype)
        for name, tensor in draft.tensors.items()
    }
    return DraftHead(draft.config, placed, embedding)


def check_fit(draft: DraftCheckpoint, target: TargetFacts) -> tuple[int, ...]:
    """The hidden states to capture. Raises `DraftMismatch` naming the first misfit."""
    config = draft.config
    if config.target_hidden_size != target.hidden_size:
        raise DraftMismatch(
            f"The draft reads hidden states of size {config.target_hidden_size}, but the base's "
            f"have size {target.hidden_size}: it was made for another base."
        )
    if config.vocab_size != target.vocab_size:
        raise DraftMismatch(
            f"The draft was made for a vocabulary of {config.vocab_size}, but the base has "
            f"{target.vocab_size}: it was made for another base."
        )
    return config.aux_layers_for(target.num_layers)


def _plain_name(name: str) -> str:
    for prefix in ("midlayer.", "layers.0."):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def expected_shapes(config: DraftConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes that a checkpoint must hold, vocabulary maps aside."""
    c, h = config, config.hidden_size
    queries, keys = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    fused = c.num_aux * c.target_hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (h, fused),
        "self_attn.q_proj.weight": (queries, 2 * h),
        "self_attn.k_proj.weight": (keys, 2 * h),
        "self_attn.v_proj.weight": (keys, 2 * h),
        "self_attn.o_proj.weight": (h, queries),
        "mlp.gate_proj.weight": (c.intermediate_size, h),
        "mlp.up_proj.weight": (c.intermediate_size, h),
        "mlp.down_proj.weight": (h, c.intermediate_size),
        "lm_head.weight": (c.draft_vocab_size, h),
    }
    norms = ("input_layernorm", "hidden_norm", "post_attention_layernorm", "norm")
    shapes |= {f"{name}.weight": (h,) for name in norms}
    if c.norm_before_fc:
        shapes["input_norm.weight"] = (fused,)
    if c.fc_norm:
        shapes |= {f"fc_norm.{i}.weight": (c.target_hidden_size,) for i in range(c.num_aux)}
    if c.owns_embeddings:
        shapes["embed_tokens.weight"] = (c.vocab_size, h)
    return shapes


def _check_tensors(config: DraftConfig, tensors: dict[str, torch.Tensor]) -> None:
    expected = expected_shapes(config)
    missing = sorted(expected.keys() - tensors.keys())
    if missing:
        raise DraftMismatch(f"The draft lacks the tensor {missing[0]}.")
    unexpected = sorted(tensors.keys() - expected.keys() - set(INTEGER_TENSORS))
    if unexpected:
        raise DraftMismatch(f"The draft holds a tensor that is not understood: {unexpected[0]}.")
    for name, shape in expected.items():
        if tuple(tensors[name].shape) != shape:
            raise DraftMismatch(
                f"The draft's {name} has shape {tuple(tensors[name].shape)}; its config.json "
                f"asks for {shape}."
            )


def _check_vocabulary_maps(config: DraftConfig, tensors: dict[str, torch.Tensor]) -> None:
    """`d2t` are offsets (target id = draft id + d2t), `t2d` marks the targets reached."""
    if "d2t" not in tensors:
        if config.draft_vocab_size != config.vocab_size:
            raise DraftMismatch(
                f"The draft has no d2t, though its vocabulary ({config.draft_vocab_size}) is "
                f"smaller than the base's ({config.vocab_size})."
            )
        return
    offsets = tensors["d2t"].long()
    if offsets.shape != (config.draft_vocab_size,):
        raise DraftMismatch(
            f"The draft's d2t has shape {tuple(offsets.shape)} instead of "
            f"({config.draft_vocab_size},)."
        )
    targets = offsets + torch.arange(len(offsets))
    if bool((offsets < 0).any()) or bool((targets.diff() <= 0).any()):
        raise DraftMismatch("The draft's d2t is no increasing map of offsets.")
    if int(targets[-1]) >= config.vocab_size:
        raise DraftMismatch(
            f"The draft's d2t leads to token {int(targets[-1])}, beyond the vocabulary of "
            f"{config.vocab_size}."
        )
    if "t2d" in tensors:
        reached = torch.zeros(config.vocab_size, dtype=torch.bool)
        reached[targets] = True
        if not torch.equal(reached, tensors["t2d"].bool()):
            raise DraftMismatch("The draft's t2d does not mark the tokens that d2t leads to.")
