"""Sizes inside the limits, or a refusal with numbers; pixels equal to transformers' bit for bit."""

from __future__ import annotations

import importlib
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
    Qwen2VLImageProcessorPil,
    smart_resize,
)

from visual_encoder import (
    CheckpointError,
    ImagePreprocessor,
    ImageRefused,
    ImageTokenLimits,
    InvalidLimits,
    plan_resizes,
)
from visual_encoder.preprocess import MAX_DISTORTION, nearest_grid, plan_resize
from visual_encoder.types import TOKEN_PIXELS, TOKEN_SIDE

DEFAULTS = ImageTokenLimits()
PREPROCESSOR_CONFIG = {  # as published with Qwen2.5-VL
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2_5_VLProcessor",
}

# Limits for which transformers' rule alone is known to fail (engines.md section 4), and others.
LIMITS = (
    DEFAULTS,
    ImageTokenLimits(128, 512, 512),
    ImageTokenLimits(64, 64, 64),
    ImageTokenLimits(128, 160, 160),
    ImageTokenLimits(299, 299, 299),
    ImageTokenLimits(4, 64, 64),
    ImageTokenLimits(1, 4, 1),
    ImageTokenLimits(7, 7, 7),
    ImageTokenLimits(512, 512, 512),
    ImageTokenLimits(4, 4096, 1280),
)


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


def transformers_output(images: list[Image.Image], limits: ImageTokenLimits) -> Any:
    size = {
        "shortest_edge": limits.min_image_tokens * TOKEN_PIXELS,
        "longest_edge": limits.max_image_tokens_per_image * TOKEN_PIXELS,
    }
    return Qwen2VLImageProcessorPil(size=size)(images=images, return_tensors="pt")


SIZES = [
    (28, 28),
    (1, 1),
    (5, 900),
    (640, 480),
    (1920, 1080),
    (333, 777),
    (1400, 40),
    (56, 56),
    (100, 100),
    (448, 448),
    (14, 2800),
]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_pixels_equal_those_of_transformers(tmp_path: Path, size: tuple[int, int]) -> None:
    image = noise(*size)
    patches = ImagePreprocessor(tmp_path).prepare([image], DEFAULTS)
    expected = transformers_output([image], DEFAULTS)
    assert torch.equal(patches.pixel_values, expected["pixel_values"])
    assert [list(grid) for grid in patches.grid_thw] == expected["image_grid_thw"].tolist()


def test_several_pictures_equal_those_of_transformers(tmp_path: Path) -> None:
    images = [noise(300, 200, 1), noise(90, 400, 2), noise(64, 64, 3)]
    patches = ImagePreprocessor(tmp_path).prepare(images, DEFAULTS)
    expected = transformers_output(images, DEFAULTS)
    assert torch.equal(patches.pixel_values, expected["pixel_values"])
    assert [list(grid) for grid in patches.grid_thw] == expected["image_grid_thw"].tolist()
    assert sum(patches.num_image_tokens) * 4 == len(patches.pixel_values)
    assert patches.resized_sizes == tuple((14 * h, 14 * w) for _, h, w in patches.grid_thw)


def test_pixels_equal_those_of_qwen_vl_utils(tmp_path: Path) -> None:
    """Only where it can be imported: it needs torchvision, which PyPI has for no CPU-only torch."""
    try:
        utils = importlib.import_module("qwen_vl_utils")
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"qwen_vl_utils cannot be imported here: {error}")
    image = noise(640, 480)
    resized = utils.fetch_image(
        {
            "image": image,
            "min_pixels": DEFAULTS.min_image_tokens * TOKEN_PIXELS,
            "max_pixels": DEFAULTS.max_image_tokens_per_image * TOKEN_PIXELS,
        }
    )
    patches = ImagePreprocessor(tmp_path).prepare([image], DEFAULTS)
    expected = Qwen2VLImageProcessorPil()(images=[resized], do_resize=False, return_tensors="pt")
    assert torch.equal(patches.pixel_values, expected["pixel_values"])


@pytest.mark.parametrize("name", ["preprocessor_config.json", "processor_config.json"])
def test_mean_and_deviation_come_from_the_checkpoint(tmp_path: Path, name: str) -> None:
    config: dict[str, Any] = PREPROCESSOR_CONFIG | {"image_mean": [0.0] * 3, "image_std": [0.5] * 3}
    nested = {"processor_class": "Qwen2_5_VLProcessor", "image_processor": config}
    (tmp_path / name).write_text(json.dumps(config if name.startswith("pre") else nested))
    patches = ImagePreprocessor(tmp_path).prepare([Image.new("RGB", (56, 56), "white")], DEFAULTS)
    assert torch.equal(patches.pixel_values, torch.full_like(patches.pixel_values, 2.0))


@pytest.mark.parametrize("change", [{"patch_size": 16}, {"merge_size": 4}, {"do_normalize": False}])
def test_a_preprocessor_we_do_not_match_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR_CONFIG | change))
    with pytest.raises(CheckpointError, match=next(iter(change))):
        ImagePreprocessor(tmp_path)


def test_a_broken_preprocessor_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text("{")
    with pytest.raises(CheckpointError, match="cannot be read"):
        ImagePreprocessor(tmp_path)


def check_refusal(error: ImageRefused, size: str) -> None:
    assert error.limit is not None
    assert error.actual is not None
    assert error.actual != error.limit
    assert size in str(error)


def check_plan(height: int, width: int, limits: ImageTokenLimits) -> None:
    """The property: inside all limits and of the right shape, or refused with numbers."""
    try:
        plan = plan_resize(height, width, limits)
    except ImageRefused as refused:
        check_refusal(refused, f"{width}x{height}")
        return
    low, high = limits.min_image_tokens, limits.max_image_tokens_per_image
    assert low <= plan.num_image_tokens <= high
    assert plan.height % TOKEN_SIDE == plan.width % TOKEN_SIDE == 0
    plain = smart_resize(
        height, width, TOKEN_SIDE, min_pixels=low * TOKEN_PIXELS, max_pixels=high * TOKEN_PIXELS
    )
    if low * TOKEN_PIXELS <= plain[0] * plain[1] <= high * TOKEN_PIXELS:
        assert (plan.height, plan.width) == plain
    else:
        change = (plan.height / plan.width) / (height / width)
        assert max(change, 1 / change) <= MAX_DISTORTION * 1.0001


@settings(max_examples=1500, deadline=None)
@given(
    st.integers(1, 9000),
    st.integers(1, 9000),
    st.sampled_from(LIMITS)
    | st.tuples(st.integers(1, 600), st.integers(0, 600)).map(
        lambda pair: ImageTokenLimits(pair[0], sum(pair), sum(pair))
    ),
)
def test_limits_hold_or_the_picture_is_refused(
    height: int, width: int, limits: ImageTokenLimits
) -> None:
    check_plan(height, width, limits)


def test_limits_hold_over_a_grid_of_sizes() -> None:
    sides = (1, 3, 14, 27, 28, 29, 42, 100, 399, 640, 1000, 1333, 2800, 5599, 8000)
    for limits in LIMITS:
        for height in sides:
            for width in sides:
                check_plan(height, width, limits)


@pytest.mark.parametrize("limits", LIMITS[:2] + LIMITS[-1:], ids=str)
def test_ordinary_limits_never_refuse_a_possible_shape(limits: ImageTokenLimits) -> None:
    """With a minimum well under the maximum every picture up to 200:1 has a size."""
    for width in (1, 28, 100, 1000, 4000):
        for ratio in (1, 1.5, 10, 50, 199, 200):
            plan_resize(int(width * ratio), width, limits)


@pytest.mark.parametrize(
    ("aspect", "limits", "expected"),
    [
        (1.0, ImageTokenLimits(64, 64, 64), (8, 8)),
        (0.5, ImageTokenLimits(128, 160, 160), (8, 16)),
        (1.0, ImageTokenLimits(120, 160, 160), (12, 12)),
        (1 / 200, ImageTokenLimits(4, 64, 64), (1, 64)),
    ],
)
def test_the_nearest_grid(
    aspect: float, limits: ImageTokenLimits, expected: tuple[int, int]
) -> None:
    assert nearest_grid(aspect, limits) == expected


def test_a_size_that_breaks_the_plain_rule_is_repaired() -> None:
    """min = max = 512 refuses every ordinary photo in Edge-LLM 0.6.1; here it gets 512 tokens."""
    plan = plan_resize(1080, 1920, ImageTokenLimits(512, 512, 512))
    assert (plan.height, plan.width, plan.num_image_tokens) == (16 * 28, 32 * 28, 512)


def refusal(sizes: list[tuple[int, int]], limits: ImageTokenLimits) -> ImageRefused:
    with pytest.raises(ImageRefused) as caught:
        plan_resizes(sizes, limits)
    return caught.value


def test_a_request_over_the_total_names_numbers_and_flag() -> None:
    error = refusal([(1080, 1920)] * 3, DEFAULTS)
    each = plan_resize(1080, 1920, DEFAULTS).num_image_tokens
    assert (error.actual, error.limit, error.flag) == (3 * each, 1024, "--max-image-tokens")
    assert f"{each} + {each} + {each} = {3 * each}" in str(error)
    assert "--max-image-tokens is 1024" in str(error)


def test_a_strip_too_long_names_numbers_and_flag() -> None:
    error = refusal([(100, 100), (28, 5600)], ImageTokenLimits(4, 64, 16))
    assert error.flag == "--max-image-tokens-per-image"
    assert re.search(r"Picture 2 is 5600x28 .* \d+ image tokens.*-per-image is 16", str(error))


def test_a_shape_below_the_minimum_names_numbers_and_flag() -> None:
    error = refusal([(400, 400)], ImageTokenLimits(7, 7, 7))
    assert (error.actual, error.limit, error.flag) == (4, 7, "--min-image-tokens")
    assert "--min-image-tokens is 7" in str(error)


def test_an_extreme_aspect_ratio_names_both_numbers() -> None:
    error = refusal([(4, 1000)], DEFAULTS)
    assert (error.actual, error.limit) == (250, 200)
    assert "250.0 times" in str(error)


def late_exif_png(picture: Image.Image, orientation: int) -> bytes:
    """A PNG whose EXIF data stands behind its pixels, as the format allows."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", exif=exif)
    data = buffer.getvalue()
    start = data.index(b"eXIf") - 4
    end = start + 12 + int.from_bytes(data[start : start + 4])
    return data[:start] + data[end:-12] + data[start:end] + data[-12:]


def test_a_png_with_late_exif_keeps_its_shape(tmp_path: Path) -> None:
    picture = noise(560, 280)
    source = late_exif_png(picture, 6)
    patches = ImagePreprocessor(tmp_path).prepare([source], DEFAULTS)
    turned = picture.transpose(Image.Transpose.ROTATE_270)
    assert patches.resized_sizes == ((560, 280),)
    assert torch.equal(
        patches.pixel_values, transformers_output([turned], DEFAULTS)["pixel_values"]
    )


def test_nothing_is_decoded_before_the_limits_are_judged(tmp_path: Path) -> None:
    class Undecodable(Image.Image):
        def load(self) -> None:
            raise AssertionError("decoded")

    pictures = []
    for _ in range(3):
        picture = Undecodable()
        picture._size, picture._mode = (1920, 1080), "RGB"
        picture.format = "PNG"
        pictures.append(picture)
    with pytest.raises(ImageRefused, match="--max-image-tokens"):
        ImagePreprocessor(tmp_path).prepare(pictures, DEFAULTS)


def test_no_pictures_are_a_programming_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no pictures"):
        ImagePreprocessor(tmp_path).prepare([], DEFAULTS)


@pytest.mark.parametrize("values", [(0, 10, 5), (6, 10, 5), (4, 10, 11), (-1, 1, 1)])
def test_limits_that_contradict_each_other_are_one_sentence(values: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidLimits) as caught:
        ImageTokenLimits(*values)
    assert str(caught.value).count(". ") == 0
    assert all(str(value) in str(caught.value) for value in values)
    assert "--max-image-tokens-per-image" in str(caught.value)
