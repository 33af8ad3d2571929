"""What the settings drawer holds, and the request made of it.

The drawer gives loose values: a cleared number field is None. Here they become a
`GenerationRequest`, or one sentence that says what does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, fields
from typing import Any

from eagle.types import SamplingParams
from visual_encoder.types import ImageTokenLimits
from vlm.config import Settings
from vlm.errors import ConfigError
from vlm.requests import ChatMessage, GenerationRequest


@dataclass(frozen=True, slots=True)
class Controls:
    """The values of the drawer, in the order in which it shows them."""

    use_eagle: bool
    temperature: float
    top_p: float
    top_k: int
    max_new_tokens: int
    seed: int
    min_image_tokens: int
    max_image_tokens: int
    max_image_tokens_per_image: int

    @classmethod
    def from_settings(cls, settings: Settings, *, has_draft: bool) -> Controls:
        """What the drawer shows first: what the program was started with."""
        limits = asdict(settings.limits)
        names = [item.name for item in fields(cls) if item.name not in {"use_eagle", *limits}]
        return cls(has_draft, **{name: getattr(settings, name) for name in names}, **limits)

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> Controls:
        """Raises `ConfigError` naming a field that was left empty."""
        for item, value in zip(fields(cls), values, strict=True):
            if value is None:
                label = item.name.replace("_", " ")
                raise ConfigError(f"The setting “{label}” is empty: give it a number.")
        use_eagle, temperature, top_p, *whole = values
        return cls(bool(use_eagle), float(temperature), float(top_p), *map(int, whole))

    @property
    def limits(self) -> ImageTokenLimits:
        """Raises `InvalidLimits` when they contradict each other."""
        return ImageTokenLimits(
            self.min_image_tokens, self.max_image_tokens, self.max_image_tokens_per_image
        )

    def values(self) -> tuple[Any, ...]:
        return astuple(self)

    def request(self, messages: tuple[ChatMessage, ...], settings: Settings) -> GenerationRequest:
        """Raises `VlmError`, `EagleError` or `VisualEncoderError` for values that do not fit."""
        if self.max_new_tokens < 1:
            raise ConfigError(f"The longest answer must be at least 1, got {self.max_new_tokens}.")
        return GenerationRequest(
            messages=messages,
            sampling=SamplingParams(self.temperature, self.top_p, self.top_k, self.seed),
            max_new_tokens=self.max_new_tokens,
            use_eagle=self.use_eagle,
            ignore_eos=settings.ignore_eos,
            limits=self.limits,
        )
