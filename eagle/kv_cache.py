"""A pre-allocated key/value cache of one sequence: append, keep, truncate.

Rows are tokens. Rows below `length` are valid; a forward pass appends rows behind them, layer by
layer, and `advance` makes them valid. After a tree was verified, `keep` moves the accepted rows
next to the committed ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from eagle.errors import KVCacheFull

# The attended window grows in steps, so that shapes depend on the number of query rows and on few
# window sizes. Small enough that short chats on a CPU do not attend over an empty buffer.
WINDOW_STEP = 128


class KVCache:
    """Keys and values, each (layers, kv_heads, capacity, head_dim)."""

    def __init__(
        self,
        num_layers: int,
        num_kv_heads: int,
        head_dim: int,
        capacity: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (num_layers, num_kv_heads, capacity, head_dim)
        # Zeros, not garbage: masked rows still meet the arithmetic, and NaN * 0 is NaN.
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.capacity = capacity
        self.length = 0

    @property
    def bytes_per_token(self) -> int:
        """Memory of one token's keys and values, all layers together."""
        return (self.keys.nbytes + self.values.nbytes) // self.capacity

    def window(self, new_rows: int) -> int:
        """Rows that a pass appending `new_rows` attends over. Raises `KVCacheFull`."""
        needed = self.length + new_rows
        if needed > self.capacity:
            raise KVCacheFull(
                f"The KV cache holds {self.capacity} tokens, but {needed} are needed: raise "
                f"--max-kv-cache-capacity or shorten the prompt or the answer."
            )
        return min(self.capacity, -(-needed // WINDOW_STEP) * WINDOW_STEP)

    def append(
        self, layer: int, keys: torch.Tensor, values: torch.Tensor, window: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write (T, kv_heads, head_dim) behind the valid rows; return the window of the layer."""
        rows = slice(self.length, self.length + keys.shape[0])
        self.keys[layer, :, rows] = keys.transpose(0, 1)
        self.values[layer, :, rows] = values.transpose(0, 1)
        return self.keys[layer, :, :window], self.values[layer, :, :window]

    def advance(self, rows: int) -> None:
        """Make the `rows` rows appended to every layer valid."""
        self.length += rows

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Replace everything from row `start` on by the given rows, counted from `start`."""
        index = torch.tensor(rows, device=self.keys.device) + start
        target = slice(start, start + len(rows))
        # index_select copies first, so source and destination may overlap.
        self.keys[:, :, target] = self.keys.index_select(2, index)
        self.values[:, :, target] = self.values.index_select(2, index)
        self.length = start + len(rows)

    def truncate(self, length: int) -> None:
        """Forget all rows from `length` on."""
        assert 0 <= length <= self.length
        self.length = length
