"""A pipeline without models: it plays a script of steps at a chosen pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from eagle.types import DecodeStep
from vlm.config import Settings
from vlm.events import Event, GenerationFinished, PrefillFinished, StepDecoded
from vlm.metrics import RunStats
from vlm.pipeline import PipelineInfo
from vlm.requests import GenerationRequest

INFO = PipelineInfo(
    base_name="tiny-base",
    draft_name="tiny-draft",
    device="cpu",
    dtype="float32",
    dtype_reason="float32, as asked",
    visual_engine="torch",
    visual_engine_reason="the only one here",
    no_images_reason=None,
)
WORDS = ("The", "picture", "shows", "a", "**red**", "apple", "beside", "a", "blue", "cup")


def scripted_steps(accepted: Sequence[int]) -> tuple[DecodeStep, ...]:
    """The prefill's step, then one step an entry with that many draft tokens accepted."""
    steps = [DecodeStep(0, (0,), 0, 0, 0.0, 0.05)]
    for index, count in enumerate(accepted, start=1):
        ids = tuple(range(100 * index, 100 * index + count + 1))
        finish = "eos" if index == len(accepted) else None
        steps.append(DecodeStep(index, ids, 7, count, 0.001, 0.01, finish))
    return tuple(steps)


def plain_steps(steps: Sequence[DecodeStep]) -> tuple[DecodeStep, ...]:
    """The same tokens by the base alone."""
    ids = [token for step in steps for token in step.token_ids]
    last = len(ids) - 1
    return tuple(
        DecodeStep(index, (token,), 0, 0, 0.0, 0.01, "eos" if index == last else None)
        for index, token in enumerate(ids)
    )


@dataclass
class FakePipeline:
    """Answers every request with the same script. `error_at` raises before that step."""

    info: PipelineInfo = INFO
    settings: Settings = field(default_factory=Settings)
    accepted: Sequence[int] = (2, 0, 4, 3)
    step_seconds: float = 0.0
    error: Exception | None = None
    error_at: int = -1  # -1: before the prefill
    before_step: Callable[[int], None] = lambda index: None
    requests: list[GenerationRequest] = field(default_factory=list)
    num_running: int = 0
    most_running: int = 0
    num_closed_early: int = 0

    def run(self, request: GenerationRequest) -> Iterator[Event]:
        self.requests.append(request)
        self.num_running += 1
        self.most_running = max(self.most_running, self.num_running)
        try:
            yield from self._events(request)
        except GeneratorExit:
            self.num_closed_early += 1
            raise
        finally:
            self.num_running -= 1

    def _events(self, request: GenerationRequest) -> Iterator[Event]:
        if self.error is not None and self.error_at < 0:
            raise self.error
        started = time.perf_counter()
        steps = scripted_steps(self.accepted)
        speculative = request.use_eagle and self.info.draft_name is not None
        steps = steps if speculative else plain_steps(steps)
        images = tuple(64 for message in request.messages for _ in message.images)
        text, times = "", []
        for step in steps:
            if self.error is not None and self.error_at == step.index:
                raise self.error
            self.before_step(step.index)
            time.sleep(self.step_seconds)
            times.append(time.perf_counter() - started)
            if step.index == 0:
                yield PrefillFinished(30 + sum(images), images, 0.02, 0.05, speculative)
            delta = "".join(f"{WORDS[token % len(WORDS)]} " for token in step.token_ids)
            text += delta
            yield StepDecoded(step, delta, times[-1])
        yield GenerationFinished(
            RunStats(
                text=text,
                token_ids=tuple(token for step in steps for token in step.token_ids),
                num_prompt_tokens=30 + sum(images),
                image_tokens=images,
                steps=steps,
                time_to_first_token_seconds=times[0],
                decode_seconds=times[-1] - times[0],
                total_seconds=times[-1],
                finish_reason="eos",
            )
        )
