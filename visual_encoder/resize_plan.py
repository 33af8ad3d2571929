"""Which size each picture of a request is given, from sizes and limits alone.

Comes in: (height, width) of every picture and `ImageTokenLimits`. Goes out: one `ResizePlan` a
picture, inside all limits, or `ImageRefused` with the actual number, the limit and its flag. No
pixel is seen here, so a request that breaks a limit costs nothing.

A picture first gets the size that transformers' `smart_resize` gives it. That rule can leave the
limits: no side falls below 28 pixels, and both sides are rounded apart. Then the grid inside the
limits whose shape comes nearest is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from visual_encoder.errors import ImageRefused, InvalidLimits
from visual_encoder.types import PATCH_SIZE, TOKEN_PIXELS, TOKEN_SIDE, ImageTokenLimits

MAX_ASPECT_RATIO = 200  # of transformers' smart_resize
MAX_DISTORTION = 4.0  # a repaired size may stretch one side against the other by at most this

PER_IMAGE_FLAG = "--max-image-tokens-per-image"
TOTAL_FLAG = "--max-image-tokens"
MIN_FLAG = "--min-image-tokens"

SHARE = "share"  # pictures that are too many together become smaller
STRICT = "strict"  # they are refused, as TensorRT-Edge-LLM does
IMAGE_BUDGETS = (SHARE, STRICT)


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

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.height // PATCH_SIZE, self.width // PATCH_SIZE


def plan_resizes(
    sizes: Sequence[tuple[int, int]], limits: ImageTokenLimits, image_budget: str = SHARE
) -> tuple[ResizePlan, ...]:
    """Choose a size for every picture of a request from their (height, width), oldest first.

    Pictures that together exceed `limits.max_image_tokens` share it ("share") or are refused
    ("strict"). Raises `ImageRefused` with the numbers and the flag when a picture does not fit.
    """
    if image_budget not in IMAGE_BUDGETS:
        raise InvalidLimits(
            f"There is no image budget {image_budget!r}; choose {' or '.join(IMAGE_BUDGETS)}."
        )
    plans = tuple(
        plan_resize(height, width, limits, position=position)
        for position, (height, width) in enumerate(sizes, start=1)
    )
    if sum(plan.num_image_tokens for plan in plans) <= limits.max_image_tokens:
        return plans
    if image_budget == STRICT:
        raise _over_budget(plans, limits)
    return _share(plans, limits)


def binding_limit(plan: ResizePlan, limits: ImageTokenLimits) -> str | None:
    """The option that made a picture smaller or larger; None when it was only rounded to tokens."""
    sides = (plan.source_height, plan.source_width)
    rows, columns = (max(1, round(side / TOKEN_SIDE)) for side in sides)
    if plan.num_image_tokens > rows * columns:
        return MIN_FLAG
    if plan.num_image_tokens == rows * columns:
        return None
    alone = plan_resize(*sides, limits)
    return TOTAL_FLAG if plan.num_image_tokens < alone.num_image_tokens else PER_IMAGE_FLAG


def fair_share(wanted: Sequence[int], budget: int) -> int:
    """The largest cap under which the sum of all numbers, each cut to the cap, is in the budget.

    Those that want less than the cap keep what they want; the others get the same.
    """
    left = budget
    for index, number in enumerate(sorted(wanted)):
        cap = left // (len(wanted) - index)
        if number > cap:
            return cap
        left -= number
    return max(wanted, default=0)


def _share(plans: Sequence[ResizePlan], limits: ImageTokenLimits) -> tuple[ResizePlan, ...]:
    """Plan again with the fair share as the limit of those pictures that want more."""
    cap = fair_share([plan.num_image_tokens for plan in plans], limits.max_image_tokens)
    if cap < limits.min_image_tokens:
        least = len(plans) * limits.min_image_tokens
        raise ImageRefused(
            f"The request's {len(plans)} pictures take at least {least} image tokens, "
            f"{limits.min_image_tokens} each ({MIN_FLAG}), but {TOTAL_FLAG} is "
            f"{limits.max_image_tokens}: send fewer pictures, raise {TOTAL_FLAG} or lower "
            f"{MIN_FLAG}.",
            actual=least,
            limit=limits.max_image_tokens,
            flag=TOTAL_FLAG,
        )
    shared = replace(limits, max_image_tokens_per_image=cap)
    return tuple(
        plan if plan.num_image_tokens <= cap else _plan_share(plan, shared, position, len(plans))
        for position, plan in enumerate(plans, start=1)
    )


def _plan_share(
    plan: ResizePlan, shared: ImageTokenLimits, position: int, num_pictures: int
) -> ResizePlan:
    try:
        return plan_resize(plan.source_height, plan.source_width, shared, position=position)
    except ImageRefused as refused:
        cap = shared.max_image_tokens_per_image
        raise ImageRefused(
            f"Picture {position} is {plan.source_width}x{plan.source_height} pixels, and no size "
            f"of {shared.min_image_tokens} to {cap} image tokens keeps its shape; {cap} is its "
            f"share of {TOTAL_FLAG} {shared.max_image_tokens} among {num_pictures} pictures: send "
            f"fewer pictures or raise {TOTAL_FLAG}.",
            actual=plan.num_image_tokens,
            limit=cap,
            flag=TOTAL_FLAG,
        ) from refused


def _over_budget(plans: Sequence[ResizePlan], limits: ImageTokenLimits) -> ImageRefused:
    total = sum(plan.num_image_tokens for plan in plans)
    parts = " + ".join(str(plan.num_image_tokens) for plan in plans)
    return ImageRefused(
        f"The request's pictures take {parts} = {total} image tokens, and {TOTAL_FLAG} is "
        f"{limits.max_image_tokens}: send fewer pictures, raise {TOTAL_FLAG}, lower "
        f"{PER_IMAGE_FLAG} (now {limits.max_image_tokens_per_image}) or choose --image-budget "
        f"{SHARE}.",
        actual=total,
        limit=limits.max_image_tokens,
        flag=TOTAL_FLAG,
    )


def plan_resize(
    height: int, width: int, limits: ImageTokenLimits, *, position: int = 1
) -> ResizePlan:
    """Choose the size of one picture, the `position`-th of its request: the plain rule, repaired
    where it leaves the limits. Raises `ImageRefused`."""
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
    if distortion(rows / columns, height / width) > MAX_DISTORTION:
        raise _no_grid(plan, limits, position)
    return ResizePlan(rows * TOKEN_SIDE, columns * TOKEN_SIDE, height, width)


def distortion(new_aspect: float, aspect: float) -> float:
    """How much one side is stretched against the other; 1 is not at all."""
    return max(new_aspect / aspect, aspect / new_aspect)


def nearest_grid(aspect: float, limits: ImageTokenLimits) -> tuple[int, int]:
    """The (rows, columns) of tokens inside the per-image limits nearest to `aspect` (height/width).

    Of equally near shapes the largest wins. There is always one: a single row of tokens.
    """
    rows, fewest, most = _column_ranges(limits.min_image_tokens, limits.max_image_tokens_per_image)
    wanted = rows / aspect
    below = np.clip(np.floor(wanted), fewest, most)
    above = np.clip(np.ceil(wanted), fewest, most)
    all_rows, all_columns = np.concatenate((rows, rows)), np.concatenate((below, above))
    distance = np.abs(np.log(all_rows / all_columns / aspect)).round(12)
    best = np.lexsort((-all_rows * all_columns, distance))[0]
    return int(all_rows[best]), int(all_columns[best])


@lru_cache(maxsize=64)
def _column_ranges(low: int, high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every number of rows with the fewest and most columns that keep low <= tokens <= high."""
    rows = np.arange(1, high + 1)
    fewest, most = -(-low // rows), high // rows
    possible = fewest <= most
    return rows[possible], fewest[possible], most[possible]


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
