"""What a user asks: chat messages with pictures, and how the answer is to be decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from PIL import Image

from eagle.types import SamplingParams, TreeShape
from visual_encoder.types import ImageTokenLimits

ImageSource = Path | bytes | Image.Image


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn. Pictures stand before the text, in order."""

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[ImageSource, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One answer to produce. `limits` and `tree` None are those the pipeline was started with."""

    messages: tuple[ChatMessage, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_new_tokens: int = 256
    use_eagle: bool = True
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    limits: ImageTokenLimits | None = None
    tree: TreeShape | None = None
    encode_anew: bool = False  # where time is measured: pictures seen before cost nothing otherwise
    record_trees: bool = True  # every step carries its draft tree; docs/trace.md has the cost
