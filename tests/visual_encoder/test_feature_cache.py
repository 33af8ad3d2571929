"""The same picture is encoded once, within a bound on bytes, and gives the same bits."""

from __future__ import annotations

import pytest
import torch

from tests.visual_encoder.tiny_tower import random_patches
from visual_encoder import CachingEncoder, FeatureCache, ImagePatches, VisionFeatures
from visual_encoder.feature_cache import split_images
from visual_encoder.types import EncoderInfo

WIDTH = 8
TOKEN_BYTES = WIDTH * 4


class CountingEncoder:
    """Embeds a token as the sums of its patches, and remembers what it was asked."""

    name = "counting"

    def __init__(self, dtype: str = "float32") -> None:
        self.info = EncoderInfo("counting", "cpu", dtype, WIDTH, "a test")
        self.calls: list[tuple[tuple[int, int, int], ...]] = []

    def encode(self, patches: ImagePatches) -> VisionFeatures:
        self.calls.append(patches.grid_thw)
        sums = patches.pixel_values.reshape(-1, 4 * 1176).sum(1, keepdim=True)
        return VisionFeatures(sums.expand(-1, WIDTH).contiguous(), patches.grid_thw, "counting", 1)


def pictures(*grids: tuple[int, int, int], seed: int = 0) -> ImagePatches:
    return random_patches(grids, seed)


def test_the_same_picture_is_encoded_once_and_gives_the_same_bits() -> None:
    engine = CountingEncoder()
    encoder = CachingEncoder(engine, FeatureCache(2**20))
    patches = pictures((1, 4, 6))
    first, second = encoder.encode(patches), encoder.encode(patches)
    assert len(engine.calls) == 1
    assert torch.equal(first.embeddings, second.embeddings)
    assert (first.num_cached_images, second.num_cached_images) == (0, 1)
    assert torch.equal(first.embeddings, engine.encode(patches).embeddings)
    assert second.engine == encoder.name == "counting"


def test_only_new_pictures_reach_the_engine_and_rows_keep_their_order() -> None:
    engine = CountingEncoder()
    encoder = CachingEncoder(engine, FeatureCache(2**20))
    patches = pictures((1, 4, 6), (1, 2, 2), (1, 8, 4))
    _, middle, _ = split_images(patches)
    encoder.encode(middle)
    features = encoder.encode(patches)
    assert engine.calls == [((1, 2, 2),), ((1, 4, 6), (1, 8, 4))]
    assert features.num_cached_images == 1
    assert torch.equal(features.embeddings, engine.encode(patches).embeddings)


def test_a_picture_twice_in_one_request_is_encoded_once() -> None:
    engine = CountingEncoder()
    one = pictures((1, 4, 4))
    twice = ImagePatches(one.pixel_values.repeat(2, 1), one.grid_thw * 2, one.resized_sizes * 2)
    features = CachingEncoder(engine, FeatureCache(2**20)).encode(twice)
    assert engine.calls == [((1, 4, 4),)]
    assert torch.equal(features.embeddings, engine.encode(twice).embeddings)


def test_other_pixels_grid_or_engine_are_another_picture() -> None:
    cache = FeatureCache(2**20)
    engine, other = CountingEncoder(), CountingEncoder("bfloat16")
    patches = pictures((1, 4, 6))
    turned = ImagePatches(patches.pixel_values, ((1, 6, 4),), ((84, 56),))
    for encoder, request in (
        (engine, patches),
        (engine, pictures((1, 4, 6), seed=1)),
        (engine, turned),
        (other, patches),
    ):
        assert CachingEncoder(encoder, cache).encode(request).num_cached_images == 0
    assert len(cache) == 4


def test_the_bytes_kept_stay_within_the_bound_and_the_oldest_go_first() -> None:
    engine = CountingEncoder()
    cache = FeatureCache(10 * TOKEN_BYTES)
    encoder = CachingEncoder(engine, cache)
    first, second, third = (pictures((1, 4, 4), seed=seed) for seed in range(3))
    for patches in (first, second, first, third):  # 4 tokens each: the second must go
        encoder.encode(patches)
        assert cache.num_bytes <= cache.max_bytes
    assert encoder.encode(first).num_cached_images == 1
    assert encoder.encode(third).num_cached_images == 1
    assert encoder.encode(second).num_cached_images == 0


@pytest.mark.parametrize("max_bytes", [0, 4 * TOKEN_BYTES - 1])
def test_what_does_not_fit_is_encoded_every_time(max_bytes: int) -> None:
    engine = CountingEncoder()
    cache = FeatureCache(max_bytes)
    encoder = CachingEncoder(engine, cache)
    for _ in range(2):
        assert encoder.encode(pictures((1, 4, 4))).num_cached_images == 0
    assert len(engine.calls) == 2
    assert (len(cache), cache.num_bytes) == (0, 0)


def test_changing_an_answer_leaves_the_cache_alone() -> None:
    encoder = CachingEncoder(CountingEncoder(), FeatureCache(2**20))
    patches = pictures((1, 4, 4))
    kept = encoder.encode(patches).embeddings.clone()
    encoder.encode(patches).embeddings.zero_()
    assert torch.equal(encoder.encode(patches).embeddings, kept)
