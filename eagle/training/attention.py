"""Attention of training-time test: one causal block and, per later step, one diagonal.

At step i the query of slot t may look at the step-0 keys of slots 0..t and, for each step 1..i, at
the key of slot t alone: exactly what inference sees i levels below the root. Written out as a
matrix that is a causal block followed by i diagonals, so the diagonals are computed as dot products
of matching rows and never as a square.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


def causal_bias(valid: torch.Tensor, num_queries: int) -> torch.Tensor:
    """(B, 1, 1, A, L) float bias for the last A of L slots as queries; `valid` (B, L) marks keys.

    Each slot sees itself and everything valid before it. A padded query sees at least itself, so
    that no row is all -inf.
    """
    length = valid.shape[1]
    slots = torch.arange(length, device=valid.device)
    queries = slots[length - num_queries :, None]
    allowed = (slots <= queries) & valid[:, None] | (slots == queries)
    bias = torch.zeros(allowed.shape, device=valid.device)
    return bias.masked_fill_(~allowed, float("-inf"))[:, None, None]


def ttt_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    bias: torch.Tensor,
    diagonals: Sequence[tuple[torch.Tensor, torch.Tensor]],
) -> torch.Tensor:
    """Grouped-query attention of A slots at step i = len(diagonals) -> (B, A, nh * d).

    query (B, A, nh, d); keys and values of step 0 (B, L, nkv, d); bias (B, 1, 1, A, L); each
    diagonal holds a later step's keys and values, (B, A, nkv, d).
    """
    batch, slots, num_heads, head_dim = query.shape
    num_kv, length = keys.shape[2], keys.shape[1]
    group = num_heads // num_kv
    query = query * head_dim**-0.5
    # (B, nkv, group * A, d): the group shares one multiplication with its keys.
    grouped = query.view(batch, slots, num_kv, group, head_dim).permute(0, 2, 3, 1, 4)
    flat = grouped.reshape(batch, num_kv, group * slots, head_dim)
    block = flat @ keys.permute(0, 2, 3, 1)
    scores = [block.view(batch, num_kv, group, slots, length).float() + bias]
    for key, _ in diagonals:
        own = (grouped * key.transpose(1, 2)[:, :, None]).sum(-1, keepdim=True)
        scores.append(own.float())
    weights = torch.softmax(torch.cat(scores, dim=-1), dim=-1).to(values.dtype)
    block_weights = weights[..., :length].reshape(batch, num_kv, group * slots, length)
    out = (block_weights @ values.transpose(1, 2)).view(grouped.shape)
    for step, (_, value) in enumerate(diagonals):
        out = out + weights[..., length + step, None] * value.transpose(1, 2)[:, :, None]
    return out.permute(0, 3, 1, 2, 4).reshape(batch, slots, num_heads * head_dim)
