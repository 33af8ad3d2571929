"""From image-token limits to the shapes that a TensorRT plan is optimised for.

Every input has a smallest, a typical and a largest first axis. T tokens are 4 T patches; a window
holds at most `window_tokens` tokens, and at a picture's border as few as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from visual_encoder.onnx_graph import INPUT_NAMES, TOKEN_INPUTS, WINDOW_INPUTS
from visual_encoder.types import PATCH_DIM, PATCHES_PER_TOKEN, ImageTokenLimits, VisionConfig


@dataclass(frozen=True, slots=True)
class InputShapes:
    """The shapes of one input that a plan accepts."""

    name: str
    smallest: tuple[int, ...]
    typical: tuple[int, ...]
    largest: tuple[int, ...]


def input_shapes(limits: ImageTokenLimits, config: VisionConfig) -> tuple[InputShapes, ...]:
    """The profile of all inputs, in the graph's order."""
    fewest, most = limits.min_image_tokens, limits.max_image_tokens
    typical = (fewest + most) // 2
    full = config.window_tokens

    def first_axes(name: str) -> tuple[int, int, int]:
        if name in WINDOW_INPUTS:
            return ceil(fewest / full), ceil(typical / full), most
        scale = 1 if name in TOKEN_INPUTS else PATCHES_PER_TOKEN
        return fewest * scale, typical * scale, most * scale

    def shapes(name: str) -> InputShapes:
        rest = other_axes(name, config)
        smallest, middle, largest = ((first, *rest) for first in first_axes(name))
        return InputShapes(name, smallest, middle, largest)

    return tuple(shapes(name) for name in INPUT_NAMES)


def other_axes(name: str, config: VisionConfig) -> tuple[int, ...]:
    """The axes of an input after the first, which do not vary."""
    fixed = {
        "pixel_values": (PATCH_DIM,),
        "cos": (config.head_dim // 2,),
        "sin": (config.head_dim // 2,),
        "window_gather": (config.window_tokens * PATCHES_PER_TOKEN,),
        "window_valid": (config.window_tokens * PATCHES_PER_TOKEN,),
    }
    return fixed.get(name, ())
