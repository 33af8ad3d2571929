"""A draft to start from, made of the base's own parts."""

from __future__ import annotations

from typing import cast

import torch
from torch import nn

from eagle.training.base import Base
from eagle.training.draft import Draft, DraftShape, RMSNorm
from eagle.training.ttt import Batch, unroll
from eagle.training.vocabulary import DraftVocabulary


def draft_shape(base: Base, draft_vocab_size: int) -> DraftShape:
    """A draft as wide as the base, with the base's attention heads and rotary embedding."""
    config = base.text_config
    rope = config.rope_parameters
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    section = rope.get("mrope_section")
    return DraftShape(
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        head_dim=head_dim,
        vocab_size=config.vocab_size,
        draft_vocab_size=draft_vocab_size,
        rms_norm_eps=config.rms_norm_eps,
        rope_theta=rope["rope_theta"],
        mrope_section=tuple(section) if section else None,
    )


@torch.no_grad()
def initialise(draft: Draft, base: Base, vocabulary: DraftVocabulary) -> None:
    """Fill the draft with the base's weights, so that a short training starts from a language.

    The layer is the base's last one where it reads hidden states and its first one where it reads
    embeddings; the fused feature starts as the high state with a little noise from all three; the
    head is the base's, restricted to the draft vocabulary.
    """
    decoder, size = base.decoder, draft.shape.hidden_size
    first, last, ours = decoder.layers[0], decoder.layers[-1], draft.midlayer
    draft.lm_head.weight.copy_(base.head[vocabulary.target_ids])
    draft.norm.weight.copy_(decoder.norm.weight)

    nn.init.normal_(draft.fc.weight, std=0.002)
    draft.fc.weight[:, 2 * size :] += torch.eye(size)
    ours.input_layernorm.weight.copy_(first.input_layernorm.weight)
    ours.hidden_norm.weight.copy_(last.input_layernorm.weight)
    for name in ("q_proj", "k_proj", "v_proj"):
        projection = getattr(ours.self_attn, name).weight
        projection[:, :size].copy_(getattr(first.self_attn, name).weight)
        projection[:, size:].copy_(getattr(last.self_attn, name).weight)
    ours.self_attn.o_proj.weight.copy_(last.self_attn.o_proj.weight)
    ours.post_attention_layernorm.weight.copy_(last.post_attention_layernorm.weight)
    ours.mlp.load_state_dict(last.mlp.state_dict())


@torch.no_grad()
def scale_fc_norm(draft: Draft, batch: Batch) -> None:
    """Give the norms before fc the captured states' usual size, so that fc reads at first about
    what it would read without them. The median ignores the few tokens whose states are huge."""
    states = batch.aux[batch.valid].float().view(-1, 3, draft.shape.hidden_size)
    sizes = states.square().mean(-1).sqrt().median(0).values
    for norm, size in zip(draft.fc_norm, sizes, strict=True):
        cast(RMSNorm, norm).weight.fill_(size)


@torch.no_grad()
def keep_output_size(draft: Draft, embedding: torch.Tensor, batch: Batch) -> None:
    """Let the final norm keep the outputs' usual size and move its weights into the head: the
    logits stay, and the normed output that is fed back is about what it was before the norm."""
    outputs = next(unroll(draft, embedding.to(batch.aux.device), batch, 1))[batch.answer_valid]
    size = outputs.square().mean(-1).sqrt().median()
    draft.lm_head.weight.mul_(draft.norm.weight / size)
    draft.norm.weight.fill_(size)
