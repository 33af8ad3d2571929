"""Sizes inside the limits, or a refusal with numbers; pixels equal to transformers' bit for bit."""

from __future__ import annotations

import importlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
    Qwen2VLImageProcessorPil,
)

from visual_encoder import (
    CheckpointError,
    ImagePreprocessor,
    ImageRefused,
    ImageTokenLimits,
)
from visual_encoder.types import TOKEN_PIXELS

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
    for _ in range(300):
        picture = Undecodable()
        picture._size, picture._mode = (1920, 1080), "RGB"
        picture.format = "PNG"
        pictures.append(picture)
    with pytest.raises(ImageRefused, match="--max-image-tokens"):
        ImagePreprocessor(tmp_path).prepare(pictures, DEFAULTS)


def test_no_pictures_are_a_programming_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no pictures"):
        ImagePreprocessor(tmp_path).prepare([], DEFAULTS)
