"""Drafts of every character for one target: perfect, hostile, random EAGLE-3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from eagle.draft_config import parse_draft_config
from eagle.drafting import Eagle3Draft
from eagle.loading import DraftCheckpoint, bind_draft, expected_shapes
from eagle.tree import ROOT, DraftTree
from eagle.types import MergedPrompt, TreeShape
from vlm.language_model import LanguageModel

CAPACITY = 512


class KnowingDraft:
    """Knows the answer that the target will give, and proposes a chain of it, or anything but."""

    def __init__(self, answer: Sequence[int], depth: int, *, hostile: bool = False) -> None:
        self._answer = list(answer)
        self._depth = depth
        self._hostile = hostile
        self._emitted = 0

    @property
    def tree_size(self) -> int:
        return self._depth + 1

    def rank(self, tree: DraftTree, node: int, token: int) -> int | None:
        """It is sure of one token a node, and of none after the last."""
        following = tree.token_ids[node + 1 : node + 2]
        return 1 if following == (token,) else None

    def prefill(self, prompt: MergedPrompt, aux_hidden: torch.Tensor, root: int) -> None:
        self._emitted = 1

    def advance(self, token_ids: tuple[int, ...], aux_hidden: torch.Tensor) -> None:
        self._emitted += len(token_ids)

    def propose(self) -> DraftTree:
        coming = self._answer[self._emitted : self._emitted + self._depth]
        coming += [3] * (self._depth - len(coming))
        if self._hostile:
            coming = [(token + 1) % 150 for token in coming]
        root = self._answer[self._emitted - 1]
        return DraftTree((root, *coming), (ROOT, *range(self._depth)), (0.0,) * (self._depth + 1))


def draft_json(model: LanguageModel, draft_vocab_size: int, **extra: Any) -> dict[str, Any]:
    """A config.json in the SpecForge form for `model`."""
    c = model.config
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "hidden_size": c.hidden_size,
        "intermediate_size": 64,
        "num_attention_heads": c.num_attention_heads,
        "num_key_value_heads": c.num_key_value_heads,
        "head_dim": c.head_dim,
        "num_hidden_layers": 1,
        "rms_norm_eps": 1e-6,
        "vocab_size": c.vocab_size,
        "draft_vocab_size": draft_vocab_size,
        "rope_theta": 10000.0,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [x - 1 for x in model.aux_layers]},
    }
    if c.rotary.mrope_section:
        section = list(c.rotary.mrope_section)
        config["rope_scaling"] = {"type": "mrope", "mrope_section": section}
    return config | extra


def random_tensors(config: dict[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    """Weights for `config`, with a draft vocabulary spread over the target's."""
    generator = torch.Generator().manual_seed(seed)
    parsed = parse_draft_config(config, "specforge")
    tensors = {
        name: torch.randn(shape, generator=generator) * 0.2
        if len(shape) > 1
        else torch.rand(shape, generator=generator) + 0.5
        for name, shape in expected_shapes(parsed).items()
    }
    reached = torch.randperm(parsed.vocab_size, generator=generator)[: parsed.draft_vocab_size]
    reached = reached.sort().values
    tensors["d2t"] = reached - torch.arange(len(reached))
    tensors["t2d"] = torch.zeros(parsed.vocab_size, dtype=torch.bool)
    tensors["t2d"][reached] = True
    return tensors


def random_draft(
    model: LanguageModel, shape: TreeShape, *, draft_vocab_size: int = 90, seed: int = 0
) -> Eagle3Draft:
    config = draft_json(model, draft_vocab_size)
    checkpoint = DraftCheckpoint(
        parse_draft_config(config, "specforge"), random_tensors(config, seed)
    )
    head = bind_draft(checkpoint, model.embedding, dtype=model.dtype, device=model.device)
    return Eagle3Draft(head, shape, CAPACITY)
