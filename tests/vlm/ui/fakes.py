"""A pipeline without models: it plays a script of steps at a chosen pace."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from PIL import Image

from eagle.types import DecodeStep, StepTree
from tests.vlm.ui.measurements import fake_bench, fake_sweep
from vlm.bench import BenchPlan
from vlm.compare import MODES, CompareRequest, Comparison, LegEvent, Side
from vlm.config import Settings
from vlm.environment import Environment
from vlm.events import Event, GenerationFinished, PrefillFinished, PromptReady, StepDecoded
from vlm.identity import Verdict, first_difference
from vlm.jobs import Job
from vlm.metrics import RunStats
from vlm.pipeline import PipelineInfo
from vlm.preview import EncoderPreview, PicturePreview, PreviewRequest
from vlm.requests import GenerationRequest
from vlm.sweep import SweepPlan
from vlm.trace import Mode, TraceImage, TracePhase, TraceRun

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
PARTS_AT = 4  # the step from which the draft's words differ, where they are to


PHASES = (
    TracePhase("pictures", 0.0, 0.0),
    TracePhase("prompt", 0.0, 0.0),
    TracePhase("vision", 0.0, 0.0),
    TracePhase("merge", 0.0, 0.0),
)
ENVIRONMENT = Environment.current(torch.device("cpu"))


def grey_png() -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize((224, 224)).convert("RGB").save(buffer, "PNG")
    return buffer.getvalue()


GREY_PNG = grey_png()


def word_of(token: int) -> str:
    return WORDS[token % len(WORDS)] + " "


def scripted_steps(accepted: Sequence[int], parts_at: int | None = None) -> tuple[DecodeStep, ...]:
    """The prefill's step, then one step an entry with that many draft tokens accepted.

    From step `parts_at` on all tokens are others.
    """
    steps = [DecodeStep(0, (0,), 0, 0, 0.0, 0.05)]
    for index, count in enumerate(accepted, start=1):
        first = 100 * index + (1 if parts_at is not None and index >= parts_at else 0)
        ids = tuple(range(first, first + count + 1))
        finish = "eos" if index == len(accepted) else None
        tree = scripted_tree(steps[-1].token_ids[-1], ids)
        steps.append(DecodeStep(index, ids, 7, count, 0.001, 0.01, finish, tree=tree))
    return tuple(steps)


def scripted_tree(root: int, ids: tuple[int, ...]) -> StepTree:
    """A chain of seven nodes below the root: those that `ids` kept, then refused ones."""
    accepted, target = ids[:-1], ids[-1]
    refused = tuple(range(target + 1, target + 8 - len(accepted)))
    num_nodes = 1 + len(accepted) + len(refused)
    return StepTree(
        token_ids=(root, *accepted, *refused),
        parents=tuple(range(-1, num_nodes - 1)),
        draft_probabilities=(1.0, *(0.8,) * (num_nodes - 1)),
        target_probabilities=(1.0, *(0.9,) * len(accepted), *(0.05,) * len(refused)),
        path=tuple(range(len(ids))),
        target_token=target,
        target_probability=0.7,
        target_rank=2,
    )


def tree_tokens(tree: StepTree) -> tuple[int, ...]:
    """The tokens whose texts go with a tree."""
    return (*tree.token_ids, tree.target_token)


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
    environment: Environment = ENVIRONMENT
    accepted: Sequence[int] = (2, 0, 4, 3)
    step_seconds: float = 0.0
    draft_seconds: float = 0.0  # what a step with the draft takes more
    difference: Verdict | None = None  # how the two ways of a comparison differ
    error: Exception | None = None
    error_at: int = -1  # -1: before the prefill
    before_step: Callable[[int], None] = lambda index: None
    requests: list[GenerationRequest] = field(default_factory=list)
    previews: list[PreviewRequest] = field(default_factory=list)
    sweeps: list[SweepPlan] = field(default_factory=list)
    num_running: int = 0
    most_running: int = 0
    num_closed_early: int = 0

    def perform(self, job: Job) -> Iterator[Any]:
        if isinstance(job, PreviewRequest):
            return iter((self.preview(job),))
        if isinstance(job, CompareRequest):
            return self.compare(job)
        if isinstance(job, BenchPlan):
            return fake_bench(self, job)
        if isinstance(job, SweepPlan):
            self.sweeps.append(job)
            return fake_sweep(job, lambda: time.sleep(self.step_seconds))
        return self.run(job)

    def preview(self, job: PreviewRequest) -> EncoderPreview:
        """Every picture becomes 64 tokens, as in an answer."""
        self.previews.append(job)
        pictures = [(m is job.messages[-1]) for m in job.messages for _ in m.images]
        return EncoderPreview(
            pictures=tuple(
                PicturePreview(
                    GREY_PNG,
                    1920,
                    1080,
                    224,
                    224,
                    (16, 16),
                    64,
                    "--max-image-tokens-per-image",
                    not is_new,
                    is_new,
                )
                for is_new in pictures
            ),
            num_prompt_tokens=30 + 64 * len(pictures),
            tokens_left=4096 - 30 - 64 * len(pictures),
            over_input=0,
            vision_seconds=0.02,
            prefill_seconds=0.4,
            kv_bytes=3 * 2**20,
        )

    def compare(self, job: CompareRequest) -> Iterator[LegEvent | Comparison]:
        """Every leg as `run`, then the result; `difference` is the verdict on other words."""
        legs: dict[Mode, list[RunStats]] = {"base": [], "eagle": []}
        for leg, letter in enumerate(job.order):
            mode = MODES[letter]
            for event in self.run(replace(job.request, use_eagle=mode == "eagle")):
                if isinstance(event, GenerationFinished):
                    legs[mode].append(event.stats)
                yield LegEvent(leg, mode, event)
        base_ids, eagle_ids = (legs[mode][0].token_ids for mode in ("base", "eagle"))
        same = first_difference(base_ids, eagle_ids)
        verdict = Verdict("identical", same, same)
        if self.difference is not None:
            verdict = replace(self.difference, num_same=same, num_tokens=len(base_ids))
        yield Comparison(
            order=job.order,
            verdict=verdict,
            base=Side.of(legs["base"]),
            eagle=Side.of(legs["eagle"]),
            acceptance=legs["eagle"][0].acceptance,
        )

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
        speculative = request.use_eagle and self.info.draft_name is not None
        if speculative:
            steps = scripted_steps(self.accepted, None if self.difference is None else PARTS_AT)
        else:
            steps = plain_steps(scripted_steps(self.accepted))
        pictures = [picture for message in request.messages for picture in message.images]
        images = tuple(
            TraceImage(
                index,
                *(1920, 1080),
                *(224, 224),
                (1, 16, 16),
                64,
                4,
                256,
                is_cached=index + 1 < len(pictures),
            )
            for index in range(len(pictures))
        )
        yield PromptReady(
            self._trace_run(request, speculative, 30 + 64 * len(images)), images, PHASES
        )
        image_tokens = tuple(image.num_tokens for image in images)
        text, times = "", []
        for step in steps:
            if self.error is not None and self.error_at == step.index:
                raise self.error
            self.before_step(step.index)
            time.sleep(self.step_seconds + (self.draft_seconds if speculative else 0))
            times.append(time.perf_counter() - started)
            if step.index == 0:
                yield PrefillFinished(30 + sum(image_tokens), image_tokens, 0.02, 0.0, speculative)
            pieces = tuple(word_of(token) for token in step.token_ids)
            text += "".join(pieces)
            texts = () if step.tree is None else tuple(map(word_of, tree_tokens(step.tree)))
            yield StepDecoded(step, "".join(pieces), times[-1], pieces, texts)
        yield GenerationFinished(
            RunStats(
                text=text,
                token_ids=tuple(token for step in steps for token in step.token_ids),
                num_prompt_tokens=30 + sum(image_tokens),
                image_tokens=image_tokens,
                steps=steps,
                time_to_first_token_seconds=times[0],
                decode_seconds=times[-1] - times[0],
                total_seconds=times[-1],
                finish_reason="eos",
            )
        )

    def _trace_run(
        self, request: GenerationRequest, speculative: bool, num_tokens: int
    ) -> TraceRun:
        reason = None if speculative else "The draft is switched off for this answer."
        return TraceRun(
            id="scripted",
            started="2026-01-01T00:00:00+00:00",
            mode="eagle" if speculative else "base",
            speculation_off_reason=reason,
            base=self.info.base_name,
            draft=self.info.draft_name,
            device=self.info.device,
            dtype=self.info.dtype,
            visual_engine=self.info.visual_engine,
            tree=self.settings.tree if speculative else None,
            sampling=request.sampling,
            max_new_tokens=request.max_new_tokens,
            question=request.messages[-1].text,
            num_prompt_tokens=num_tokens,
            prompt_sha256="0" * 64,
            environment=ENVIRONMENT,
        )
