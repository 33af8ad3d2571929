"""Building blocks shared by the draft head and by targets: linear, norm, rotary, attention.

A decoder here works on one sequence: activations are (T, ...) with T the rows of this call, never
a batch. Every block computes a row without regard to how many rows stand beside it, as far as the
kernels allow, so that verifying a tree gives the same bits as decoding one token at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from eagle.errors import EagleConfigError

# oneDNN and MKL have kernels of their own for one to three rows, whose sums run in another order
# than with more rows. Computing at least four rows keeps every row's bits the same.
MIN_ROWS = 4

# From this many rows on, exact accumulation would cost more than it is worth: such calls are
# prefills, and both decoding loops share them.
EXACT_ATTENTION_MAX_ROWS = 128


class Linear:
    """y = x W^T + b for (T, in) inputs, with W (out, in).

    On a CPU the weight is laid out once for oneDNN, which is up to 1.5 times faster for few rows,
    and fewer than `MIN_ROWS` rows are filled up with zeros.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.out_features, self.in_features = weight.shape
        self.bias = bias
        on_cpu = weight.device.type == "cpu"
        self._packed = on_cpu and _can_pack(weight.dtype)
        self._min_rows = MIN_ROWS if on_cpu else 1
        self._weight = (
            torch.ops.mkldnn._reorder_linear_weight(weight, None) if self._packed else weight
        )

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        if rows >= self._min_rows:
            return self._apply(x)
        return self._apply(F.pad(x, (0, 0, 0, self._min_rows - rows)))[:rows]

    def _apply(self, x: torch.Tensor) -> torch.Tensor:
        if self._packed:
            result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
                x, self._weight, self.bias, "none", [], ""
            )
            return result
        return F.linear(x, self._weight, self.bias)


def _can_pack(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies this number format on this CPU."""
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if dtype == torch.bfloat16:
        return available and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return available and dtype == torch.float32


class RMSNorm:
    """x / rms(x) * weight over the last axis, computed in float32."""

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        self.weight = weight
        self.eps = eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * (wide * scale).to(x.dtype)


@dataclass(frozen=True, slots=True)
class RotaryConfig:
    """Rotary embedding of one checkpoint. `mrope_section` splits head_dim / 2 over three axes."""

    head_dim: int
    theta: float
    mrope_section: tuple[int, int, int] | None = None
    llama3: Mapping[str, float] | None = None
    linear_factor: float = 1.0

    @classmethod
    def from_json(cls, config: Mapping[str, object], head_dim: int, theta: float) -> RotaryConfig:
        """Read `rope_scaling` (transformers 4) or `rope_parameters` (5) of a config.json.

        `theta` is the fallback where the config names none. Raises `EagleConfigError` for a
        scaling that is not implemented.
        """
        scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
        assert isinstance(scaling, Mapping)
        theta = float(scaling.get("rope_theta") or config.get("rope_theta") or theta)  # type: ignore[arg-type]
        kind = scaling.get("rope_type") or scaling.get("type") or "default"
        section = scaling.get("mrope_section")
        if section is not None:
            if sum(section) != head_dim // 2:
                raise EagleConfigError(
                    f"mrope_section {list(section)} adds up to {sum(section)}, but half of the "
                    f"head size is {head_dim // 2}."
                )
            return cls(head_dim, theta, mrope_section=tuple(section))
        if kind == "default":
            return cls(head_dim, theta)
        if kind == "linear":
            return cls(head_dim, theta, linear_factor=float(scaling["factor"]))
        if kind == "llama3":
            names = ("factor", "low_freq_factor", "high_freq_factor")
            values = {name: float(scaling[name]) for name in names}
            values["original"] = float(scaling["original_max_position_embeddings"])
            return cls(head_dim, theta, llama3=values)
        raise EagleConfigError(
            f"rope scaling '{kind}' is not implemented; known are default, linear, llama3, mrope."
        )

    def inverse_frequencies(self) -> torch.Tensor:
        """(head_dim / 2,) float32."""
        exponent = torch.arange(0, self.head_dim, 2, dtype=torch.int64).float() / self.head_dim
        frequencies = 1.0 / (self.theta**exponent) / self.linear_factor
        return frequencies if self.llama3 is None else _llama3_frequencies(frequencies, self.llama3)


def _llama3_frequencies(frequencies: torch.Tensor, p: Mapping[str, float]) -> torch.Tensor:
    """Llama 3.1's rule: long waves are divided by the factor, short ones kept, with a ramp."""
    wavelength = 2 * math.pi / frequencies
    ramp = (p["original"] / wavelength - p["low_freq_factor"]) / (
        p["high_freq_factor"] - p["low_freq_factor"]
    )
    blended = (1 - ramp) * frequencies / p["factor"] + ramp * frequencies
    scaled = torch.where(
        wavelength > p["original"] / p["low_freq_factor"], frequencies / p["factor"], blended
    )
    return torch.where(wavelength < p["original"] / p["high_freq_factor"], frequencies, scaled)


class Rotary:
    """Cosines and sines for positions on three axes; equal axes give ordinary RoPE."""

    def __init__(self, config: RotaryConfig, device: torch.device, dtype: torch.dtype) -> None:
        self.inverse_frequencies = config.inverse_frequencies().to(device)
        self.dtype = dtype
        section = config.mrope_section or (config.head_dim // 2, 0, 0)
        axes = [axis for axis, size in enumerate(section) for _ in range(size)]
        self.axis_of_frequency = torch.tensor(axes, device=device)

    def __call__(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """position_ids (3, T) -> cos, sin, each (T, 1, head_dim)."""
        positions = position_ids.float().index_select(0, self.axis_of_frequency).T
        angles = positions * self.inverse_frequencies
        angles = torch.cat((angles, angles), dim=-1).unsqueeze(1)
        return angles.cos().to(self.dtype), angles.sin().to(self.dtype)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Apply rotary embeddings in the half-rotation layout. x (T, heads, head_dim)."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + turned * sin


def cache_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Number format of cached keys and values: on a CPU that of `attend`'s sums, since converting
    the window at every pass costs more than reading a wider cache."""
    return torch.float64 if device.type == "cpu" else dtype


def attend(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """Grouped-query attention of T rows over a window of W cache rows -> (T, heads * head_dim).

    query (T, heads, head_dim); keys and values (kv_heads, W, head_dim) in `cache_dtype`; bias
    (T, W) holds 0 where a row may look and -inf elsewhere.

    On a CPU, sums run in float64: the accepted tokens of a tree lie at other cache rows than the
    same tokens decoded one by one, and only a sum that is exact before it is rounded gives the
    same result for both orders.
    """
    rows, heads, head_dim = query.shape
    kv_heads = keys.shape[0]
    if rows > EXACT_ATTENTION_MAX_ROWS or query.device.type != "cpu":
        out = F.scaled_dot_product_attention(
            query.transpose(0, 1).unsqueeze(0),
            keys.unsqueeze(0).to(query.dtype),
            values.unsqueeze(0).to(query.dtype),
            attn_mask=bias.to(query.dtype),
            enable_gqa=heads != kv_heads,
        )
        return out.squeeze(0).transpose(0, 1).reshape(rows, heads * head_dim)
    group = heads // kv_heads
    grouped = query.reshape(rows, kv_heads, group, head_dim).permute(1, 2, 0, 3)
    grouped = grouped.reshape(kv_heads, group * rows, head_dim).double() * head_dim**-0.5
    scores = torch.bmm(grouped, keys.transpose(1, 2))
    scores = scores.view(kv_heads, group, rows, -1) + bias
    weights = torch.softmax(scores, dim=-1).view(kv_heads, group * rows, -1)
    out = torch.bmm(weights, values).view(kv_heads, group, rows, head_dim)
    return out.permute(2, 0, 1, 3).reshape(rows, heads * head_dim).to(query.dtype)


def attention_bias(
    rows: int, length: int, window: int, mask: torch.Tensor | None, device: torch.device
) -> torch.Tensor:
    """(rows, window): 0 where visible, -inf elsewhere, for rows appended after `length`.

    The first `length` columns are visible to all. `mask` (rows, m) bool covers the m columns
    after them; None means causal order among the new rows.
    """
    if mask is None:
        mask = torch.ones(rows, rows, dtype=torch.bool, device=device).tril()
    dtype = cache_dtype(torch.float32, device)
    bias = torch.full((rows, window), -torch.inf, dtype=dtype, device=device)
    bias[:, :length] = 0
    bias[:, length : length + mask.shape[1]].masked_fill_(mask, 0)
    return bias


def fuse(weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack (out_i, in) weights so that one product computes several projections."""
    return torch.cat(list(weights), dim=0).contiguous()
