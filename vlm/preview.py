"""What the visual encoder would see of a question's pictures, and what they would cost.

Comes in: the messages of a request and its limits. Goes out: every picture as the encoder gets it
(turned back from the very tensor), its tokens, the limit that decided its size, the room that the
prompt leaves and the time it is expected to take. No model is run.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

from PIL import Image

from visual_encoder import CachingEncoder
from visual_encoder.feature_cache import split_images
from visual_encoder.preprocess import PreparedPictures
from visual_encoder.resize_plan import ResizePlan, binding_limit
from visual_encoder.types import PATCHES_PER_TOKEN, ImageTokenLimits
from vlm.errors import ImagesNotSupported
from vlm.pipeline import VlmPipeline
from vlm.requests import ChatMessage


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """A question that may be asked. `limits` None are those the pipeline was started with."""

    messages: tuple[ChatMessage, ...]
    limits: ImageTokenLimits | None = None


@dataclass(frozen=True, slots=True)
class PicturePreview:
    """One picture as the visual encoder would get it."""

    png: bytes
    source_width: int
    source_height: int
    width: int
    height: int
    grid: tuple[int, int]  # rows and columns of patches; a token is two by two of them
    num_tokens: int
    bound_by: str | None  # the option that made it smaller or larger; None: only rounded to tokens
    is_cached: bool  # its features are known, so it will not be encoded
    is_new: bool  # of the last message, not of an earlier turn


@dataclass(frozen=True, slots=True)
class EncoderPreview:
    """All pictures of the prompt, and the prompt's cost."""

    pictures: tuple[PicturePreview, ...]
    num_prompt_tokens: int
    tokens_left: int  # for the rest of the prompt and the answer, of --max-kv-cache-capacity
    over_input: int  # tokens over --max-input-len; 0: the prompt fits
    vision_seconds: float | None  # None: nothing measured yet
    prefill_seconds: float | None
    kv_bytes: int  # keys and values of the prompt

    @property
    def new_tokens(self) -> tuple[int, ...]:
        """Image tokens of the last message's pictures."""
        return tuple(picture.num_tokens for picture in self.pictures if picture.is_new)


def preview(pipeline: VlmPipeline, request: PreviewRequest) -> EncoderPreview:
    """Raises what asking the question would raise for its pictures."""
    if pipeline.vision is None:
        raise ImagesNotSupported(str(pipeline.info.no_images_reason))
    limits = request.limits or pipeline.settings.limits
    sources = [image for message in request.messages for image in message.images]
    prepared = pipeline.vision.preprocessor.prepare_planned(
        sources, limits, pipeline.settings.image_budget
    )
    pictures = picture_previews(pipeline, request, prepared, limits)
    prompt = pipeline.prompt_builder.build(request.messages, prepared.patches.num_image_tokens)
    num_tokens, settings = len(prompt.token_ids), pipeline.settings
    to_encode = sum(picture.num_tokens for picture in pictures if not picture.is_cached)
    return EncoderPreview(
        pictures=pictures,
        num_prompt_tokens=num_tokens,
        tokens_left=settings.max_kv_cache_capacity - num_tokens,
        over_input=max(0, num_tokens - settings.max_input_len),
        vision_seconds=pipeline.vision_pace.estimate(to_encode * PATCHES_PER_TOKEN),
        prefill_seconds=pipeline.prefill_pace.estimate(num_tokens),
        kv_bytes=num_tokens * pipeline.cache.bytes_per_token,
    )


def picture_previews(
    pipeline: VlmPipeline,
    request: PreviewRequest,
    prepared: PreparedPictures,
    limits: ImageTokenLimits,
) -> tuple[PicturePreview, ...]:
    assert pipeline.vision is not None
    encoder = pipeline.vision.encoder
    num_old = len(prepared.plans) - len(request.messages[-1].images)
    pieces = split_images(prepared.patches)
    previews = []
    for index, (piece, plan) in enumerate(zip(pieces, prepared.plans, strict=True)):
        seen = pipeline.vision.preprocessor.picture(piece)
        is_cached = isinstance(encoder, CachingEncoder) and encoder.knows(piece)
        previews.append(
            picture_preview(seen, plan, limits, is_cached=is_cached, is_new=index >= num_old)
        )
    return tuple(previews)


def picture_preview(
    seen: Image.Image, plan: ResizePlan, limits: ImageTokenLimits, *, is_cached: bool, is_new: bool
) -> PicturePreview:
    buffer = io.BytesIO()
    seen.save(buffer, format="PNG", compress_level=1)
    return PicturePreview(
        png=buffer.getvalue(),
        source_width=plan.source_width,
        source_height=plan.source_height,
        width=plan.width,
        height=plan.height,
        grid=plan.grid,
        num_tokens=plan.num_image_tokens,
        bound_by=binding_limit(plan, limits),
        is_cached=is_cached,
        is_new=is_new,
    )
