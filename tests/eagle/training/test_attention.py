"""The training-time-test mask against one written out slot by slot."""

from __future__ import annotations

import torch

from eagle.training.attention import causal_bias, ttt_attention


def brute_force(
    query: torch.Tensor,
    blocks: list[tuple[torch.Tensor, torch.Tensor]],
    valid: torch.Tensor,
    length: int,
) -> torch.Tensor:
    """One query, one head at a time; blocks are step 0 and then each later step."""
    batch, slots, heads, d = query.shape
    out = torch.zeros(batch, slots, heads, d)
    for b in range(batch):
        for s in range(slots):
            own = length - slots + s
            seen = [(0, t) for t in range(own + 1) if valid[b, t] or t == own]
            seen += [(step, s) for step in range(1, len(blocks))]
            for h in range(heads):
                kv = h // (heads // blocks[0][0].shape[2])
                keys = torch.stack([blocks[step][0][b, t, kv] for step, t in seen])
                values = torch.stack([blocks[step][1][b, t, kv] for step, t in seen])
                weights = torch.softmax(keys @ query[b, s, h] / d**0.5, dim=0)
                out[b, s, h] = weights @ values
    return out.flatten(2)


def test_attention_equals_brute_force() -> None:
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    batch, length, slots, heads, kv, d = 2, 9, 5, 6, 2, 8
    valid = torch.ones(batch, length, dtype=torch.bool)
    valid[0, :2] = valid[1, -1:] = False  # padding before a prompt, padding after an answer
    bias = causal_bias(valid, slots)
    blocks = [(random(batch, length, kv, d), random(batch, length, kv, d))]
    for _ in range(3):
        query = random(batch, slots, heads, d)
        ours = ttt_attention(query, *blocks[0], bias, blocks[1:])
        torch.testing.assert_close(ours, brute_force(query, blocks, valid, length))
        blocks.append((random(batch, slots, kv, d), random(batch, slots, kv, d)))
