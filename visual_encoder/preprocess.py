"""Pictures in, patches out: sizes inside the token limits, pixels as transformers makes them.

Sizes are planned from the files' headers alone, so a request that breaks a limit is refused before
any pixel is decoded (`resize_plan`). Where transformers' resize rule keeps the limits, the patches
equal those of its `Qwen2VLImageProcessorPil` bit for bit; where the rule breaks one, a nearby size
is chosen. Knows nothing of prompts or engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from PIL import Image

from visual_encoder.errors import CheckpointError
from visual_encoder.image_loading import ImageSource, decode_image, open_image, upright_size
from visual_encoder.resize_plan import SHARE, ResizePlan, plan_resizes
from visual_encoder.types import (
    MERGE_SIZE,
    NUM_CHANNELS,
    PATCH_SIZE,
    TEMPORAL_PATCH_SIZE,
    ImagePatches,
    ImageTokenLimits,
)

if TYPE_CHECKING:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

# Settings of a checkpoint's preprocessor that patches of this package have; others are refused.
SUPPORTED_PROCESSOR = {
    "patch_size": PATCH_SIZE,
    "temporal_patch_size": TEMPORAL_PATCH_SIZE,
    "merge_size": MERGE_SIZE,
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
}


@dataclass(frozen=True, slots=True)
class PreparedPictures:
    """The pictures of a request as an engine takes them, and the size planned for each."""

    patches: ImagePatches
    plans: tuple[ResizePlan, ...]


class ImagePreprocessor:
    """Turns the pictures of a request into `ImagePatches`, normalised for one checkpoint."""

    def __init__(self, model_dir: Path) -> None:
        """Read mean, deviation and filter from a checkpoint; CLIP's and bicubic if it has none.

        Its pixel limits are not read: ours come with every request. Raises `CheckpointError`.
        """
        self._processor = _load_processor(model_dir)

    def prepare(
        self,
        sources: Sequence[ImageSource],
        limits: ImageTokenLimits,
        image_budget: str = SHARE,
    ) -> ImagePatches:
        """Open, judge, decode, resize and cut up one or more pictures.

        Raises `ImageRefused`; limits are judged for all pictures before any is decoded.
        """
        return self.prepare_planned(sources, limits, image_budget).patches

    def prepare_planned(
        self,
        sources: Sequence[ImageSource],
        limits: ImageTokenLimits,
        image_budget: str = SHARE,
    ) -> PreparedPictures:
        """As `prepare`, with the plans that led to the patches."""
        if not sources:
            raise ValueError("no pictures to preprocess")
        opened = [open_image(source) for source in sources]
        plan_resizes([upright_size(image) for image in opened], limits, image_budget)
        images = [decode_image(image) for image in opened]
        # Planned again, because decoding may reveal that a PNG lies on its side.
        sizes = [(image.height, image.width) for image in images]
        plans = plan_resizes(sizes, limits, image_budget)
        return PreparedPictures(self.patches(images, plans), plans)

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

    def picture(self, patches: ImagePatches) -> Image.Image:
        """The one still picture in `patches`, turned back from the tensor that an engine gets."""
        ((frames, rows, columns),) = patches.grid_thw
        tokens = (frames, rows // MERGE_SIZE, columns // MERGE_SIZE, MERGE_SIZE, MERGE_SIZE)
        pixels = patches.pixel_values.reshape(
            *tokens, NUM_CHANNELS, TEMPORAL_PATCH_SIZE, PATCH_SIZE, PATCH_SIZE
        )
        first = pixels[0, ..., 0, :, :]  # a still picture is one frame, shown twice
        # (rows of tokens, columns of tokens, row, column in a token, channel, y, x)
        upright = first.permute(0, 2, 5, 1, 3, 6, 4).reshape(
            rows * PATCH_SIZE, columns * PATCH_SIZE, NUM_CHANNELS
        )
        mean, deviation = (
            torch.tensor(values)
            for values in (self._processor.image_mean, self._processor.image_std)
        )
        levels = (upright * deviation + mean).mul(255).round().clamp(0, 255)
        return Image.fromarray(levels.to(torch.uint8).numpy())


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
