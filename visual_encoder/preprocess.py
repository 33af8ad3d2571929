"""Pictures in, patches out: sizes inside the token limits, pixels as transformers makes them.

Sizes are planned from the files' headers alone, so a request that breaks a limit is refused before
any pixel is decoded. Where transformers' resize rule keeps the limits, the patches equal those of
its `Qwen2VLImageProcessorPil` bit for bit; where the rule breaks one, a nearby size is chosen.
Knows nothing of prompts or engines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from PIL import Image

from visual_encoder.errors import CheckpointError, ImageRefused
from visual_encoder.image_loading import ImageSource, decode_image, open_image, upright_size
from visual_encoder.types import (
    MERGE_SIZE,
    PATCH_SIZE,
    TEMPORAL_PATCH_SIZE,
    TOKEN_PIXELS,
    TOKEN_SIDE,
    ImagePatches,
    ImageTokenLimits,
)

if TYPE_CHECKING:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

MAX_ASPECT_RATIO = 200  # of transformers' smart_resize
MAX_DISTORTION = 4.0  # a repaired size may stretch one side against the other by at most this

# Settings of a checkpoint's preprocessor that patches of this package have; others are refused.
SUPPORTED_PROCESSOR = {
    "patch_size": PATCH_SIZE,
    "temporal_patch_size": TEMPORAL_PATCH_SIZE,
    "merge_size": MERGE_SIZE,
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
}

PER_IMAGE_FLAG = "--max-image-tokens-per-image"
TOTAL_FLAG = "--max-image-tokens"
MIN_FLAG = "--min-image-tokens"


@dataclass(frozen=True, slots=True)
class ResizePlan:
    """The size one picture will be given, in pixels; both sides are multiples of 28."""

    height: int
    width: int
    source_height: int
    source_width: int

    @property
    def num_image_tokens(self) -> int:
        """Image tokens of the resized picture."""
        return self.height * self.width // TOKEN_PIXELS


def plan_resizes(
    sizes: Sequence[tuple[int, int]], limits: ImageTokenLimits
) -> tuple[ResizePlan, ...]:
    """Choose a size for every picture of a request from their (height, width), oldest first.

    Raises `ImageRefused` with the numbers and the flag when a picture, or all together, do not fit.
    """
    plans = tuple(
        plan_resize(height, width, limits, position=position)
        for position, (height, width) in enumerate(sizes, start=1)
    )
    total = sum(plan.num_image_tokens for plan in plans)
    if total > limits.max_image_tokens:
        parts = " + ".join(str(plan.num_image_tokens) for plan in plans)
        raise ImageRefused(
            f"The request's pictures take {parts} = {total} image tokens, and {TOTAL_FLAG} is "
            f"{limits.max_image_tokens}: send fewer pictures, raise {TOTAL_FLAG} or lower "
            f"{PER_IMAGE_FLAG} (now {limits.max_image_tokens_per_image}).",
            actual=total,
            limit=limits.max_image_tokens,
            flag=TOTAL_FLAG,
        )
    return plans


def plan_resize(
    height: int, width: int, limits: ImageTokenLimits, *, position: int = 1
) -> ResizePlan:
    """Choose the size of one picture, the `position`-th of its request.

    transformers' rule first. It can leave the limits (its sides never fall below 28 pixels, and it
    rounds them one by one); then the grid inside the limits whose shape is nearest is taken.
    """
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    aspect = max(height, width) / min(height, width)
    if aspect > MAX_ASPECT_RATIO:
        raise ImageRefused(
            f"Picture {position} is {width}x{height} pixels, one side {aspect:.1f} times the "
            f"other; at most {MAX_ASPECT_RATIO} times is possible: crop it.",
            actual=aspect,
            limit=MAX_ASPECT_RATIO,
        )
    plain_height, plain_width = smart_resize(
        height,
        width,
        factor=TOKEN_SIDE,
        min_pixels=limits.min_image_tokens * TOKEN_PIXELS,
        max_pixels=limits.max_image_tokens_per_image * TOKEN_PIXELS,
    )
    plan = ResizePlan(plain_height, plain_width, height, width)
    if _within(plan.num_image_tokens, limits):
        return plan
    rows, columns = nearest_grid(height / width, limits)
    if abs(math.log(rows / columns * width / height)) > math.log(MAX_DISTORTION):
        raise _no_grid(plan, limits, position)
    return ResizePlan(rows * TOKEN_SIDE, columns * TOKEN_SIDE, height, width)


def nearest_grid(aspect: float, limits: ImageTokenLimits) -> tuple[int, int]:
    """The (rows, columns) of tokens inside the per-image limits nearest to `aspect` (height/width).

    Of equally near shapes the largest wins. There is always one: a single row of tokens.
    """
    low, high = limits.min_image_tokens, limits.max_image_tokens_per_image
    candidates = []
    for rows in range(1, high + 1):
        fewest, most = math.ceil(low / rows), high // rows
        if fewest > most:
            continue
        wanted = rows / aspect
        for columns in (math.floor(wanted), math.ceil(wanted)):
            candidates.append((rows, min(max(columns, fewest), most)))
    return min(
        candidates,
        key=lambda grid: (abs(math.log(grid[0] / grid[1] / aspect)), -grid[0] * grid[1]),
    )


def _within(tokens: int, limits: ImageTokenLimits) -> bool:
    return limits.min_image_tokens <= tokens <= limits.max_image_tokens_per_image


def _no_grid(plain: ResizePlan, limits: ImageTokenLimits, position: int) -> ImageRefused:
    """The refusal of a picture whose shape no grid inside the limits comes near to."""
    actual = plain.num_image_tokens
    if actual > limits.max_image_tokens_per_image:
        flag, limit, remedy = PER_IMAGE_FLAG, limits.max_image_tokens_per_image, "raise"
    else:
        flag, limit, remedy = MIN_FLAG, limits.min_image_tokens, "lower"
    return ImageRefused(
        f"Picture {position} is {plain.source_width}x{plain.source_height} pixels and takes "
        f"{actual} image tokens in its own shape, but {flag} is {limit} and no size within "
        f"{limits.min_image_tokens} to {limits.max_image_tokens_per_image} tokens keeps that "
        f"shape: {remedy} {flag}, or crop the picture.",
        actual=actual,
        limit=limit,
        flag=flag,
    )


class ImagePreprocessor:
    """Turns the pictures of a request into `ImagePatches`, normalised for one checkpoint."""

    def __init__(self, model_dir: Path) -> None:
        """Read mean, deviation and filter from a checkpoint; CLIP's and bicubic if it has none.

        Its pixel limits are not read: ours come with every request. Raises `CheckpointError`.
        """
        self._processor = _load_processor(model_dir)

    def prepare(self, sources: Sequence[ImageSource], limits: ImageTokenLimits) -> ImagePatches:
        """Open, judge, decode, resize and cut up one or more pictures.

        Raises `ImageRefused`; limits are judged for all pictures before any is decoded.
        """
        if not sources:
            raise ValueError("no pictures to preprocess")
        opened = [open_image(source) for source in sources]
        plan_resizes([upright_size(image) for image in opened], limits)
        images = [decode_image(image) for image in opened]
        # Planned again, because decoding may reveal that a PNG lies on its side.
        return self.patches(images, plan_resizes([(i.height, i.width) for i in images], limits))

    def patches(self, images: Sequence[Image.Image], plans: Sequence[ResizePlan]) -> ImagePatches:
        """Resize decoded RGB pictures as planned, normalise them and cut them into patches."""
        resized = [
            image.resize((plan.width, plan.height), resample=self._processor.resample)
            for image, plan in zip(images, plans, strict=True)
        ]
        output = self._processor(images=resized, do_resize=False, return_tensors="pt")
        pixel_values = output["pixel_values"].to(torch.float32)
        return ImagePatches(
            pixel_values=pixel_values,
            grid_thw=tuple((int(t), int(h), int(w)) for t, h, w in output["image_grid_thw"]),
            resized_sizes=tuple((plan.height, plan.width) for plan in plans),
        )


def _load_processor(model_dir: Path) -> Qwen2VLImageProcessorPil:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    names = ("preprocessor_config.json", "processor_config.json")
    if not any((model_dir / name).exists() for name in names):
        return Qwen2VLImageProcessorPil()
    try:
        processor = Qwen2VLImageProcessorPil.from_pretrained(model_dir, local_files_only=True)
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"The image preprocessor of {model_dir} cannot be read: {error}"
        ) from error
    for name, value in SUPPORTED_PROCESSOR.items():
        if getattr(processor, name) != value:
            raise CheckpointError(
                f"The image preprocessor of {model_dir} has {name} = "
                f"{getattr(processor, name)!r}; only {value!r} is supported."
            )
    return processor
