"""What flows through the visual encoder: limits, patches, features, and the engines' interface.

Plain data only. Nothing here opens a file or knows how an engine computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

from visual_encoder.errors import CheckpointError, InvalidLimits

if TYPE_CHECKING:
    import torch

PATCH_SIZE = 14  # pixels on a side
TEMPORAL_PATCH_SIZE = 2  # frames; a still picture is shown twice
MERGE_SIZE = 2  # patches on a side that the merger joins into one image token
NUM_CHANNELS = 3
PATCHES_PER_TOKEN = MERGE_SIZE**2
TOKEN_SIDE = PATCH_SIZE * MERGE_SIZE  # pixels on a side of one image token
TOKEN_PIXELS = TOKEN_SIDE**2
PATCH_DIM = NUM_CHANNELS * TEMPORAL_PATCH_SIZE * PATCH_SIZE**2  # 1176 values a patch

GridTHW = tuple[tuple[int, int, int], ...]  # per image: frames, rows and columns of patches


def count_image_tokens(grid_thw: GridTHW) -> tuple[int, ...]:
    """Image tokens of every image: its patches, four to a token."""
    return tuple(t * h * w // PATCHES_PER_TOKEN for t, h, w in grid_thw)


@dataclass(frozen=True, slots=True)
class ImageTokenLimits:
    """Bounds on image tokens (28x28 pixels each), named and meant as in TensorRT-Edge-LLM.

    `min_image_tokens` and `max_image_tokens_per_image` bound every picture, `max_image_tokens` all
    pictures of a request together. Raises `InvalidLimits` when they contradict each other.
    """

    min_image_tokens: int = 4
    max_image_tokens: int = 1024
    max_image_tokens_per_image: int = 512

    def __post_init__(self) -> None:
        if 0 < self.min_image_tokens <= self.max_image_tokens_per_image <= self.max_image_tokens:
            return
        raise InvalidLimits(
            "Image-token limits must satisfy 0 < --min-image-tokens <= "
            "--max-image-tokens-per-image <= --max-image-tokens, got "
            f"{self.min_image_tokens}, {self.max_image_tokens_per_image} and "
            f"{self.max_image_tokens}."
        )


@dataclass(frozen=True, slots=True)
class ImagePatches:
    """The pictures of a request, resized, normalised and cut into patches.

    Patches run image by image and, within an image, in groups of four that become one token.
    """

    pixel_values: torch.Tensor  # (num_patches, 1176) float32
    grid_thw: GridTHW
    resized_sizes: tuple[tuple[int, int], ...]  # (height, width) in pixels, one per image

    @property
    def num_image_tokens(self) -> tuple[int, ...]:
        """Image tokens of every image, in order."""
        return count_image_tokens(self.grid_thw)


def check_patches(patches: ImagePatches) -> None:
    """Raise `ValueError` where pixels and grids contradict each other, before an engine sees them.

    An index built from a wrong grid could otherwise read past a tensor's end.
    """
    num_patches = sum(t * h * w for t, h, w in patches.grid_thw)
    if tuple(patches.pixel_values.shape) != (num_patches, PATCH_DIM):
        raise ValueError(
            f"pixel_values has shape {tuple(patches.pixel_values.shape)}, but grids "
            f"{patches.grid_thw} ask for {(num_patches, PATCH_DIM)}"
        )
    if not patches.grid_thw or any(
        min(grid) < 1 or grid[1] % MERGE_SIZE or grid[2] % MERGE_SIZE for grid in patches.grid_thw
    ):
        raise ValueError(f"grids {patches.grid_thw} are empty or do not divide into tokens")


@dataclass(frozen=True, slots=True)
class VisionFeatures:
    """What an engine made of `ImagePatches`: one row per image token, images one after another."""

    embeddings: torch.Tensor  # (num_image_tokens, hidden_size) float32, on the engine's device
    grid_thw: GridTHW
    engine: str
    seconds: float  # wall-clock time of the encoding, device work included
    is_cached: tuple[bool, ...] = ()  # by picture: features known from an earlier request

    @property
    def num_image_tokens(self) -> tuple[int, ...]:
        """Image tokens of every image, in order."""
        return count_image_tokens(self.grid_thw)

    @property
    def num_cached_images(self) -> int:
        """Pictures that were not encoded again."""
        return sum(self.is_cached)


@dataclass(frozen=True, slots=True)
class EncoderInfo:
    """Which engine runs, how, and why it was chosen."""

    engine: str
    device: str
    dtype: str  # number format the engine computes in
    hidden_size: int  # width of the embeddings
    reason: str


class VisualEncoder(Protocol):
    """One engine with a loaded vision tower."""

    @property
    def name(self) -> str:
        """The engine's name, as in `--visual-engine`."""
        ...

    @property
    def info(self) -> EncoderInfo:
        """Engine, device, number format and the reason for the choice."""
        ...

    def encode(self, patches: ImagePatches) -> VisionFeatures:
        """Encode all images of a request in one call. Not thread-safe.

        Raises `ValueError` when patches and grids contradict each other.
        """
        ...


# Fields of a `vision_config` that say nothing about the computation. Anything else that is not a
# field of `VisionConfig` is refused: a tower with an unknown option would be computed wrongly.
IGNORED_CONFIG_FIELDS = frozenset(
    {
        "_attn_implementation_autoset",
        "_name_or_path",
        "architectures",
        "attn_implementation",
        "chunk_size_feed_forward",
        "dtype",
        "id2label",
        "initializer_range",
        "is_encoder_decoder",
        "label2id",
        "model_type",
        "output_attentions",
        "output_hidden_states",
        "problem_type",
        "return_dict",
        "rope_parameters",  # read apart, see `_read_rope_theta`
        "rope_theta",
        "spatial_patch_size",  # repeats patch_size
        "torch_dtype",
        "transformers_version",
        "use_cache",
    }
)


@dataclass(frozen=True, slots=True)
class VisionConfig:
    """The `vision_config` of a Qwen2.5-VL checkpoint.

    Defaults are those transformers fills in, because published checkpoints (32B, 72B) leave fields
    out that equal them. Raises `CheckpointError` for a tower this package does not compute.
    """

    hidden_size: int
    out_hidden_size: int
    depth: int = 32
    intermediate_size: int = 3420
    num_heads: int = 16
    hidden_act: str = "silu"
    in_channels: int = NUM_CHANNELS
    patch_size: int = PATCH_SIZE
    spatial_merge_size: int = MERGE_SIZE
    temporal_patch_size: int = TEMPORAL_PATCH_SIZE
    tokens_per_second: int = 4  # video only; kept because vlm computes positions from it
    window_size: int = 112  # pixels on a side
    fullatt_block_indexes: tuple[int, ...] = (7, 15, 23, 31)
    rope_theta: float = 10000.0

    def __post_init__(self) -> None:
        fixed = {
            "hidden_act": "silu",
            "in_channels": NUM_CHANNELS,
            "patch_size": PATCH_SIZE,
            "spatial_merge_size": MERGE_SIZE,
            "temporal_patch_size": TEMPORAL_PATCH_SIZE,
        }
        for name, value in fixed.items():
            if getattr(self, name) != value:
                raise CheckpointError(
                    f"vision_config has {name} = {getattr(self, name)!r}; only {value!r}, the "
                    "value of every Qwen2.5-VL, is supported."
                )
        self._check_sizes()

    def _check_sizes(self) -> None:
        if min(self.hidden_size, self.out_hidden_size, self.depth, self.intermediate_size) < 1:
            raise CheckpointError("vision_config has a size below 1.")
        if self.num_heads < 1 or self.hidden_size % self.num_heads or self.head_dim % 4:
            raise CheckpointError(
                f"vision_config has hidden_size {self.hidden_size} and num_heads {self.num_heads}: "
                "the size of a head must be a whole multiple of 4."
            )
        if self.window_size < TOKEN_SIDE:
            raise CheckpointError(
                f"vision_config has window_size {self.window_size}; a window holds at least one "
                f"token of {TOKEN_SIDE} pixels."
            )
        outside = [i for i in self.fullatt_block_indexes if not 0 <= i < self.depth]
        if outside:
            raise CheckpointError(
                f"vision_config names full-attention block {outside[0]}, but the tower has "
                f"{self.depth} blocks."
            )

    @property
    def head_dim(self) -> int:
        """Values per attention head."""
        return self.hidden_size // self.num_heads

    @property
    def window_tokens(self) -> int:
        """Image tokens in a window that no picture border cuts."""
        return (self.window_size // TOKEN_SIDE) ** 2

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> VisionConfig:
        """Parse a `vision_config` object strictly. Raises `CheckpointError` naming the field."""
        values = dict(values)
        if "in_chans" in values:  # the name in published checkpoints
            values["in_channels"] = values.pop("in_chans")
        rope_theta = _read_rope_theta(values)
        values = {key: value for key, value in values.items() if key not in IGNORED_CONFIG_FIELDS}
        types = {item.name: item.type for item in fields(cls)}
        for name, value in values.items():
            if name not in types:
                raise CheckpointError(f"vision_config has the unknown field {name!r}.")
            if types[name] == "int" and type(value) is not int:
                raise CheckpointError(f"vision_config field {name!r} is {value!r}, not an integer.")
        for name in ("hidden_size", "out_hidden_size"):
            if name not in values:
                raise CheckpointError(f"vision_config lacks the field {name!r}.")
        if "fullatt_block_indexes" in values:
            values["fullatt_block_indexes"] = _read_block_indexes(values["fullatt_block_indexes"])
        return cls(**values, rope_theta=rope_theta)


def _read_block_indexes(value: Any) -> tuple[int, ...]:
    if isinstance(value, list | tuple) and all(type(index) is int for index in value):
        return tuple(value)
    raise CheckpointError(
        f"vision_config field 'fullatt_block_indexes' is {value!r}, not a list of integers."
    )


def _read_rope_theta(values: Mapping[str, Any]) -> float:
    """Base of the rotary angles, from wherever the transformers release at hand put it."""
    rope = values.get("rope_parameters") or {}
    if not isinstance(rope, dict):
        raise CheckpointError(f"vision_config field 'rope_parameters' is {rope!r}, not an object.")
    if rope.get("rope_type", "axial") not in ("axial", "default"):
        raise CheckpointError(f"vision_config has rope_type {rope['rope_type']!r}, not 'axial'.")
    return float(rope.get("rope_theta") or values.get("rope_theta") or 10000.0)
