"""Every limit holds, or the request is refused with actual number, limit and flag."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from visual_encoder import ImageRefused, ImageTokenLimits, InvalidLimits, plan_resizes
from visual_encoder.resize_plan import (
    MAX_ASPECT_RATIO,
    MAX_DISTORTION,
    STRICT,
    distortion,
    fair_share,
    nearest_grid,
    plan_resize,
)
from visual_encoder.types import TOKEN_PIXELS, TOKEN_SIDE

DEFAULTS = ImageTokenLimits()

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


def refusal(
    sizes: list[tuple[int, int]], limits: ImageTokenLimits, image_budget: str = "share"
) -> ImageRefused:
    with pytest.raises(ImageRefused) as caught:
        plan_resizes(sizes, limits, image_budget)
    return caught.value


def test_a_request_over_the_total_names_numbers_and_flag() -> None:
    error = refusal([(1080, 1920)] * 3, DEFAULTS, STRICT)
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


@pytest.mark.parametrize("values", [(0, 10, 5), (6, 10, 5), (4, 10, 11), (-1, 1, 1)])
def test_limits_that_contradict_each_other_are_one_sentence(values: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidLimits) as caught:
        ImageTokenLimits(*values)
    assert str(caught.value).count(". ") == 0
    assert all(str(value) in str(caught.value) for value in values)
    assert "--max-image-tokens-per-image" in str(caught.value)


def brute_force_sizes() -> np.ndarray:
    """50,000 (height, width) up to 200:1: every small size, strips of every length, and sizes
    spread evenly over the logarithm of area and aspect ratio."""
    small = np.stack(np.meshgrid(np.arange(1, 121), np.arange(1, 121)), -1).reshape(-1, 2)
    lengths = np.arange(28, 5601, 2)
    strips = np.stack((np.full_like(lengths, 28), lengths), -1)
    rng = np.random.default_rng(5)
    count = 50_000 - len(small) - 2 * len(strips)
    area, aspect = np.exp(rng.uniform((0, -5.29), (18, 5.29), (count, 2))).T
    spread = np.stack(((area * aspect) ** 0.5, (area / aspect) ** 0.5), -1)
    sizes = np.concatenate((small, strips, strips[:, ::-1], np.maximum(1, spread.astype(int))))
    possible = sizes.max(1) <= MAX_ASPECT_RATIO * sizes.min(1)
    sizes[~possible] = 100
    return sizes


SIZES = brute_force_sizes()


def plain_tokens(sizes: np.ndarray, low: int, high: int) -> np.ndarray:
    """Tokens under transformers' rule, for many (height, width) at once."""
    low_pixels, high_pixels = low * TOKEN_PIXELS, high * TOKEN_PIXELS
    plain = np.round(sizes / TOKEN_SIDE) * TOKEN_SIDE
    area, source = plain.prod(1), sizes.prod(1)
    down = np.sqrt(source / high_pixels)[:, None]
    up = np.sqrt(low_pixels / source)[:, None]
    smaller = np.maximum(TOKEN_SIDE, np.floor(sizes / down / TOKEN_SIDE) * TOKEN_SIDE)
    larger = np.ceil(sizes * up / TOKEN_SIDE) * TOKEN_SIDE
    plain = np.where((area > high_pixels)[:, None], smaller, plain)
    plain = np.where((area < low_pixels)[:, None], larger, plain)
    return (plain.prod(1) / TOKEN_PIXELS).astype(int)


def test_the_brute_force_knows_the_plain_rule() -> None:
    for low, high in ((4, 512), (128, 160), (64, 64), (1, 1)):
        sizes = SIZES[::97]
        expected = [
            smart_resize(*map(int, size), TOKEN_SIDE, low * TOKEN_PIXELS, high * TOKEN_PIXELS)
            for size in sizes
        ]
        tokens = [height * width // TOKEN_PIXELS for height, width in expected]
        assert plain_tokens(sizes, low, high).tolist() == tokens


LOWS = (1, 2, 3, 4, 8, 16, 32, 64, 100, 128, 200, 256, 299, 512)
HIGHS = (1, 2, 4, 7, 16, 64, 96, 128, 160, 192, 200, 202, 256, 258, 299, 400, 402, 512, 1024)
PAIRS = [(low, high) for low in LOWS for high in HIGHS if low <= high]


def broken(low: int, high: int) -> np.ndarray:
    """The sizes for which transformers' rule leaves the limits."""
    tokens = plain_tokens(SIZES, low, high)
    return SIZES[(tokens < low) | (tokens > high)]


def test_limits_that_the_plain_rule_can_break() -> None:
    """Every pair that breaks has a maximum below 200 (one row of 28 pixels can be 200 long) or
    below 2 * minimum + 2 (rounding a strip of two rows to one halves it). Twice the minimum is not
    enough: 19x1900 pixels with 100 to 200 tokens become 2 x 101."""
    assert len(SIZES) == 50_000
    unsafe = {pair for pair in PAIRS if len(broken(*pair))}
    assert unsafe >= {(64, 64), (128, 160), (299, 299), (4, 64), (4, 128), (4, 192), (512, 512)}
    assert (100, 200) in unsafe
    assert not [(low, high) for low, high in unsafe if high >= max(200, 2 * low + 2)]


@pytest.mark.parametrize(("low", "high"), PAIRS)
def test_every_size_that_breaks_a_limit_is_repaired_or_refused(low: int, high: int) -> None:
    """The sizes that keep the limits under the plain rule keep its size, so only the others are
    planned one by one; every limit holds, or no grid inside the limits has the shape."""
    limits = ImageTokenLimits(low, high, high)
    sizes = broken(low, high)
    for height, width in sizes[:: 1 + len(sizes) // 2000].tolist():
        rows, columns = nearest_grid(height / width, limits)
        possible = distortion(rows / columns, height / width) <= MAX_DISTORTION
        try:
            tokens = plan_resize(height, width, limits).num_image_tokens
        except ImageRefused as refused:
            assert not possible
            check_refusal(refused, f"{width}x{height}")
        else:
            assert possible
            assert low <= tokens <= high


def nearest_by_search(aspect: float, low: int, high: int) -> float:
    """The least distortion that any grid of `low` to `high` tokens has, by trying every grid."""
    return min(
        distortion(rows / columns, aspect)
        for rows in range(1, high + 1)
        for columns in range(-(-low // rows), high // rows + 1)
    )


@settings(max_examples=300, deadline=None)
@given(st.floats(1 / 200, 200), st.integers(1, 90), st.integers(0, 60))
def test_no_grid_is_nearer(aspect: float, low: int, more: int) -> None:
    rows, columns = nearest_grid(aspect, ImageTokenLimits(low, low + more, low + more))
    assert low <= rows * columns <= low + more
    best = nearest_by_search(aspect, low, low + more)
    assert distortion(rows / columns, aspect) == pytest.approx(best)


def test_two_pictures_over_the_budget_share_it() -> None:
    """Two 1080p pictures in Edge-LLM's 128/512/512 are 960 tokens and fail; here both shrink."""
    plans = plan_resizes([(1080, 1920)] * 2, ImageTokenLimits(128, 512, 512))
    tokens = [plan.num_image_tokens for plan in plans]
    assert tokens[0] == tokens[1]
    assert 400 < sum(tokens) <= 512


def test_a_small_picture_keeps_its_size_beside_a_large_one() -> None:
    limits = ImageTokenLimits(4, 512, 512)
    small, large = plan_resizes([(280, 280), (2000, 2000)], limits)
    assert small.num_image_tokens == 100
    assert 350 < large.num_image_tokens <= 412


@pytest.mark.parametrize(
    ("wanted", "budget", "cap"),
    [([10, 10], 20, 10), ([500, 500], 512, 256), ([100, 500], 512, 412), ([5, 9, 9], 20, 7)],
)
def test_the_fair_share(wanted: list[int], budget: int, cap: int) -> None:
    assert fair_share(wanted, budget) == cap
    assert sum(min(number, cap) for number in wanted) <= budget


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 3000)), min_size=1, max_size=9),
    st.integers(1, 40),
    st.integers(0, 500),
    st.integers(0, 500),
)
def test_a_shared_budget_holds_or_the_request_is_refused(
    sizes: list[tuple[int, int]], low: int, more: int, total: int
) -> None:
    limits = ImageTokenLimits(low, low + more + total, low + more)
    try:
        plans = plan_resizes(sizes, limits)
    except ImageRefused as refused:
        check_refusal(refused, "icture")
        return
    tokens = [plan.num_image_tokens for plan in plans]
    assert sum(tokens) <= limits.max_image_tokens
    assert all(low <= number <= low + more for number in tokens)


def test_more_pictures_than_the_minimum_allows_are_refused() -> None:
    error = refusal([(500, 500)] * 5, ImageTokenLimits(128, 512, 512))
    assert (error.actual, error.limit, error.flag) == (640, 512, "--max-image-tokens")
    assert "at least 640 image tokens, 128 each" in str(error)


def test_a_picture_whose_share_has_no_shape_is_refused() -> None:
    error = refusal([(28, 2800)] * 9, ImageTokenLimits(4, 100, 100))
    assert (error.actual, error.limit, error.flag) == (100, 11, "--max-image-tokens")
    assert "among 9 pictures" in str(error)


def test_an_unknown_budget_is_refused() -> None:
    with pytest.raises(InvalidLimits, match="'fair'; choose share or strict"):
        plan_resizes([(28, 28)], DEFAULTS, "fair")
