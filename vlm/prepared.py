"""A prompt that is ready for prefill, with what its pictures became and what each part took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagle.stopwatch import Clock
from eagle.types import MergedPrompt
from visual_encoder.types import ImageTokenLimits, VisionFeatures
from vlm.trace import PhaseName, TraceImage, TracePhase

if TYPE_CHECKING:
    from visual_encoder.preprocess import PreparedPictures


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A prompt ready for prefill, and what it cost. Several answers may start from it."""

    prompt: MergedPrompt
    images: tuple[TraceImage, ...]
    phases: tuple[TracePhase, ...]

    @property
    def image_tokens(self) -> tuple[int, ...]:
        return tuple(image.num_tokens for image in self.images)

    @property
    def num_cached_images(self) -> int:
        """Pictures that the visual encoder had encoded before."""
        return sum(image.is_cached for image in self.images)

    @property
    def seconds(self) -> float:
        return sum(phase.seconds for phase in self.phases)

    @property
    def vision_seconds(self) -> float:
        """Time in the visual encoder."""
        return sum(phase.seconds for phase in self.phases if phase.name == "vision")


class PhaseClock:
    """The phases of a prompt, one after another without a gap."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin = self._last = clock()
        self.phases: list[TracePhase] = []

    def end(self, name: PhaseName) -> None:
        now = self._clock()
        self.phases.append(TracePhase(name, self._last - self._begin, now - self._last))
        self._last = now


def trace_images(
    pictures: PreparedPictures | None, features: VisionFeatures | None, limits: ImageTokenLimits
) -> tuple[TraceImage, ...]:
    """What the visual encoder got, picture by picture."""
    if pictures is None or features is None:
        return ()
    patches = pictures.patches
    is_cached = features.is_cached or (False,) * len(patches.grid_thw)
    return tuple(
        TraceImage(
            index=index,
            source_width=plan.source_width,
            source_height=plan.source_height,
            width=plan.width,
            height=plan.height,
            grid_thw=grid,
            num_tokens=num_tokens,
            min_tokens=limits.min_image_tokens,
            max_tokens=limits.max_image_tokens_per_image,
            is_cached=is_cached[index],
        )
        for index, (plan, grid, num_tokens) in enumerate(
            zip(pictures.plans, patches.grid_thw, patches.num_image_tokens, strict=True)
        )
    )
