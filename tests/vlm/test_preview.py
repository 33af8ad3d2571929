"""What the preview promises is what asking the question then does."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from tests.vlm.conftest import SMALL
from visual_encoder import ImageRefused, ImageTokenLimits
from vlm.config import Settings
from vlm.errors import ImagesNotSupported
from vlm.events import GenerationFinished, PrefillFinished
from vlm.jobs import perform
from vlm.loading import load_pipeline
from vlm.pace import Pace
from vlm.pipeline import VlmPipeline
from vlm.preview import EncoderPreview, PreviewRequest, preview
from vlm.requests import ChatMessage, GenerationRequest


@pytest.fixture
def pipeline(pair: tuple[str, str]) -> VlmPipeline:
    """Its own caches and nothing measured."""
    return load_pipeline(Settings(base=pair[0], draft=pair[1], **SMALL), lambda _: None)


def photo(width: int, height: int, seed: int = 0) -> Image.Image:
    """A picture whose every part differs."""
    ramp = Image.linear_gradient("L").resize((width, height))
    turned = Image.radial_gradient("L").resize((width, height))
    return Image.merge("RGB", (ramp, turned, ramp.point(lambda level: (level + seed) % 256)))


def question(*images: Image.Image, text: str = "What is this?") -> tuple[ChatMessage, ...]:
    return (ChatMessage("user", text, images),)


def shown(
    pipeline: VlmPipeline, *images: Image.Image, limits: ImageTokenLimits | None = None
) -> EncoderPreview:
    return preview(pipeline, PreviewRequest(question(*images), limits))


def test_tokens_and_prompt_are_those_of_the_answer(pipeline: VlmPipeline) -> None:
    messages = question(photo(1920, 1080), photo(300, 500))
    promised = preview(pipeline, PreviewRequest(messages))
    events = list(pipeline.run(GenerationRequest(messages, max_new_tokens=2)))
    prefill = next(event for event in events if isinstance(event, PrefillFinished))
    assert promised.new_tokens == prefill.image_tokens
    assert promised.num_prompt_tokens == prefill.num_prompt_tokens
    assert isinstance(events[-1], GenerationFinished)


def test_the_picture_is_the_tensors_own(pipeline: VlmPipeline) -> None:
    source = photo(200, 120)
    (picture,) = shown(pipeline, source).pictures
    assert (picture.source_width, picture.source_height) == (200, 120)
    assert picture.grid == (picture.height // 14, picture.width // 14)
    assert picture.num_tokens * 784 == picture.height * picture.width
    seen = Image.open(io.BytesIO(picture.png))
    resized = source.resize((picture.width, picture.height), Image.Resampling.BICUBIC)
    assert seen.size == resized.size
    assert seen.tobytes() == resized.tobytes()


@pytest.mark.parametrize(
    ("size", "limits", "bound_by"),
    [
        ((112, 112), ImageTokenLimits(4, 60, 30), None),
        ((560, 560), ImageTokenLimits(4, 60, 30), "--max-image-tokens-per-image"),
        ((28, 28), ImageTokenLimits(4, 60, 30), "--min-image-tokens"),
    ],
)
def test_the_limit_that_decided_is_named(
    pipeline: VlmPipeline, size: tuple[int, int], limits: ImageTokenLimits, bound_by: str | None
) -> None:
    assert shown(pipeline, photo(*size), limits=limits).pictures[0].bound_by == bound_by


def test_pictures_that_share_the_budget_say_so(pipeline: VlmPipeline) -> None:
    limits = ImageTokenLimits(4, 40, 30)
    pictures = shown(pipeline, photo(560, 560), photo(56, 56), photo(560, 560), limits=limits)
    assert [picture.bound_by for picture in pictures.pictures] == [
        "--max-image-tokens",
        None,
        "--max-image-tokens",
    ]
    assert sum(pictures.new_tokens) <= 40


def test_a_picture_already_seen_is_cached_and_costs_nothing(pipeline: VlmPipeline) -> None:
    old, new = photo(112, 112), photo(140, 112, seed=9)
    assert not shown(pipeline, old).pictures[0].is_cached
    list(pipeline.run(GenerationRequest(question(old), max_new_tokens=1)))
    assert shown(pipeline, old).pictures[0].is_cached
    assert shown(pipeline, old).vision_seconds == 0
    messages = (*question(old), ChatMessage("assistant", "A ramp."), *question(new))
    again = preview(pipeline, PreviewRequest(messages))
    assert [picture.is_cached for picture in again.pictures] == [True, False]
    assert [picture.is_new for picture in again.pictures] == [False, True]
    assert again.new_tokens == (20,)


def test_costs_are_estimated_from_what_was_measured(pipeline: VlmPipeline) -> None:
    first = shown(pipeline, photo(112, 112))
    assert first.vision_seconds is None
    assert first.prefill_seconds is None
    pipeline.vision_pace.note(64, 0.5)
    pipeline.prefill_pace.note(first.num_prompt_tokens, 0.25)
    second = shown(pipeline, photo(112, 112))
    assert second.vision_seconds == pytest.approx(0.5)
    assert second.prefill_seconds == pytest.approx(0.25)


def test_an_answer_is_a_measurement(pipeline: VlmPipeline) -> None:
    list(pipeline.run(GenerationRequest(question(photo(112, 112)), max_new_tokens=1)))
    assert [patches for patches, _ in pipeline.vision_pace.measured] == [64]
    assert len(pipeline.prefill_pace.measured) == 1
    list(pipeline.run(GenerationRequest(question(photo(112, 112)), max_new_tokens=1)))
    assert len(pipeline.vision_pace.measured) == 1, "a cached picture says nothing of the encoder"


def test_room_and_memory(pipeline: VlmPipeline) -> None:
    promised = shown(pipeline, photo(112, 112))
    cache = pipeline.cache
    assert promised.tokens_left == 300 - promised.num_prompt_tokens
    assert promised.kv_bytes == promised.num_prompt_tokens * (cache.keys.nbytes * 2 // 300)
    assert promised.over_input == 0
    long = question(photo(112, 112), text="x" * 250)
    assert preview(pipeline, PreviewRequest(long)).over_input > 50


def test_what_asking_refuses_the_preview_refuses(pipeline: VlmPipeline) -> None:
    limits = ImageTokenLimits(4, 9, 8)
    with pytest.raises(ImageRefused, match="--max-image-tokens") as refused:
        shown(pipeline, photo(112, 112), photo(112, 112), photo(112, 112), limits=limits)
    assert (refused.value.actual, refused.value.limit) == (12, 9)
    with pytest.raises(ImageRefused):
        shown(pipeline, photo(5000, 20))


def test_a_text_only_base_has_no_preview(tmp_path: Path) -> None:
    from tests import tiny

    tiny.write_with_tokenizer("qwen3", tmp_path)
    blind = load_pipeline(Settings(base=str(tmp_path), **SMALL), lambda _: None)
    with pytest.raises(ImagesNotSupported):
        shown(blind, photo(112, 112))


def test_it_is_one_of_the_engines_jobs(pipeline: VlmPipeline) -> None:
    request = PreviewRequest(question(photo(112, 112)))
    events = perform(pipeline, request)
    assert list(events) == [preview(pipeline, request)]


def test_a_pace_is_that_of_the_nearest_measurement() -> None:
    pace = Pace()
    assert pace.estimate(10) is None
    assert pace.estimate(0) == 0
    for amount, seconds in ((10, 1.0), (1000, 20.0), (10, 2.0), (0, 5.0)):
        pace.note(amount, seconds)
    assert pace.estimate(20) == pytest.approx(4.0)
    assert pace.estimate(500) == pytest.approx(10.0)
    for _ in range(100):
        pace.note(7, 1.0)
    assert len(pace.measured) == 16
