"""The life of a request on one screen: pictures, prompt, prefill, decode, events.

Comes in: a `GenerationRequest`. Goes out: the events of `vlm.events`. It knows neither the page nor
how models are loaded.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from eagle.decode import autoregressive_decode, speculative_decode
from eagle.drafting import Eagle3Draft
from eagle.kv_cache import KVCache
from eagle.sampling import Sampler
from eagle.stopping import StopRule
from eagle.stopwatch import device_clock
from eagle.types import DecodeStep, MergedPrompt
from visual_encoder import VisualEncoder
from visual_encoder.preprocess import ImagePreprocessor, PreparedPictures
from visual_encoder.types import ImagePatches, VisionFeatures
from vlm.config import Settings
from vlm.detokenize import TextStream, TokenTexts, contains_stop_string
from vlm.environment import Environment
from vlm.errors import ImagesNotSupported, PromptTooLong
from vlm.events import Event, GenerationFinished, PrefillFinished, PromptReady, StepDecoded
from vlm.language_model import LanguageModel
from vlm.merge import merge, text_prompt
from vlm.metrics import RunStats
from vlm.pace import Pace
from vlm.prepared import PhaseClock, PreparedPrompt, trace_images
from vlm.prompt import PromptBuilder, TokenizedPrompt
from vlm.requests import GenerationRequest
from vlm.trace import TraceRun


@dataclass(frozen=True, slots=True)
class PipelineInfo:
    """What runs, and why: shown on the page and in the log."""

    base_name: str
    draft_name: str | None
    device: str
    dtype: str
    dtype_reason: str
    visual_engine: str | None
    visual_engine_reason: str
    no_images_reason: str | None  # None: the base takes pictures
    draft_problem: str | None = None  # why the draft that was named takes no part

    @property
    def misfit_sentence(self) -> str | None:
        """For a visitor who would have the draft; None unless one was named and does not fit."""
        return None if self.draft_problem is None else f"EAGLE-3 is off: {self.draft_problem}"


@dataclass(frozen=True, slots=True)
class Vision:
    """Everything that a base with eyes has and a text-only base lacks."""

    preprocessor: ImagePreprocessor
    encoder: VisualEncoder  # remembers pictures
    engine: VisualEncoder  # the same without memory
    image_token_id: int


class VlmPipeline:
    """Loaded models and the caches they decode in: one request at a time, in order."""

    def __init__(
        self,
        *,
        info: PipelineInfo,
        settings: Settings,
        language_model: LanguageModel,
        prompt_builder: PromptBuilder,
        eos_token_ids: frozenset[int],
        draft: Eagle3Draft | None,
        vision: Vision | None,
    ) -> None:
        self.info = info
        self.settings = settings
        self.language_model = language_model
        self.prompt_builder = prompt_builder
        self.eos_token_ids = eos_token_ids
        self.draft = draft
        self.vision = vision
        self.cache: KVCache = language_model.new_cache(settings.max_kv_cache_capacity)
        self.vision_pace, self.prefill_pace = Pace(), Pace()  # by patches, by prompt tokens
        self.lock = threading.Lock()
        self.environment = Environment.current(language_model.device)
        self._token_texts = TokenTexts(prompt_builder.tokenizer.backend_tokenizer)

    def run(self, request: GenerationRequest) -> Iterator[Event]:
        """Answer `request`. Closing the iterator stops decoding within one step.

        Raises `VlmError`, `EagleError` or `VisualEncoderError`, before anything expensive where
        the request itself is at fault. A second request waits for the first one's end.
        """
        with self.lock:
            yield from self.answer(request, self.prepare(request))

    def answer(self, request: GenerationRequest, prepared: PreparedPrompt) -> Iterator[Event]:
        """Decode from a prompt that is ready, as though it had been prepared just now: its time
        counts. For callers that hold `lock`."""
        accepted = time.perf_counter() - prepared.seconds
        yield PromptReady(self._trace_run(request, prepared), prepared.images, prepared.phases)
        merged = prepared.prompt
        text = TextStream(self.prompt_builder.tokenizer.backend_tokenizer, request.stop)
        steps: list[DecodeStep] = []
        times: list[float] = []
        for step in self._decode(request, merged):
            steps.append(replace(step, tree=None))
            times.append(time.perf_counter() - accepted)
            if step.index == 0:
                self.prefill_pace.note(len(merged), step.verify_seconds)
                yield PrefillFinished(
                    num_prompt_tokens=len(merged),
                    image_tokens=prepared.image_tokens,
                    vision_seconds=prepared.vision_seconds,
                    prefill_seconds=step.verify_seconds,
                    speculative=self.speculation_off_reason(request) is None,
                    num_cached_images=prepared.num_cached_images,
                )
            delta = text.push(step.token_ids)
            if step.finish_reason is not None:
                delta += text.finish()
            pieces = tuple(text.pieces[-len(step.token_ids) :])
            yield StepDecoded(step, delta, times[-1], pieces, self._tree_texts(step))
        yield GenerationFinished(
            RunStats(
                text=text.shown,
                token_ids=tuple(token for step in steps for token in step.token_ids),
                num_prompt_tokens=len(merged),
                image_tokens=prepared.image_tokens,
                steps=tuple(steps),
                time_to_first_token_seconds=times[0],
                decode_seconds=times[-1] - times[0],
                total_seconds=time.perf_counter() - accepted,
                finish_reason=steps[-1].finish_reason or "length",
                num_cached_images=prepared.num_cached_images,
            )
        )

    def prepare(self, request: GenerationRequest) -> PreparedPrompt:
        """Pictures and text to a prompt; what the request gets wrong is refused here."""
        phases = PhaseClock(device_clock(self.language_model.device))
        pictures = self._prepare_images(request)
        patches = None if pictures is None else pictures.patches
        phases.end("pictures")
        prompt = self._prepare_prompt(request, patches)
        phases.end("prompt")
        features = self._encode(patches, anew=request.encode_anew)
        phases.end("vision")
        merged = self._merge(prompt, features)
        phases.end("merge")
        limits = request.limits or self.settings.limits
        images = trace_images(pictures, features, limits)
        return PreparedPrompt(merged, images, tuple(phases.phases))

    def speculation_off_reason(self, request: GenerationRequest) -> str | None:
        """Why no draft takes part in the answer; None when one does."""
        if self.draft is None:
            return self.info.misfit_sentence or "No draft is loaded, so the base decodes alone."
        return None if request.use_eagle else "The draft is switched off for this answer."

    def _trace_run(self, request: GenerationRequest, prepared: PreparedPrompt) -> TraceRun:
        off = self.speculation_off_reason(request)
        token_ids = prepared.prompt.input_ids.cpu().numpy().tobytes()
        questions = [message.text for message in request.messages if message.role == "user"]
        return TraceRun(
            id=uuid.uuid4().hex,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            mode="base" if off else "eagle",
            speculation_off_reason=off,
            base=self.info.base_name,
            draft=self.info.draft_name,
            device=self.info.device,
            dtype=self.info.dtype,
            visual_engine=self.info.visual_engine,
            tree=None if off else request.tree or self.settings.tree,
            sampling=request.sampling,
            max_new_tokens=request.max_new_tokens,
            question=questions[-1] if questions else "",
            num_prompt_tokens=len(prepared.prompt),
            prompt_sha256=hashlib.sha256(token_ids).hexdigest(),
            environment=self.environment,
        )

    def _tree_texts(self, step: DecodeStep) -> tuple[str, ...]:
        if step.tree is None:
            return ()
        return self._token_texts((*step.tree.token_ids, step.tree.target_token))

    def _prepare_images(self, request: GenerationRequest) -> PreparedPictures | None:
        """Resize within the limits and cut into patches; None without pictures."""
        sources = [image for message in request.messages for image in message.images]
        if not sources:
            return None
        if self.vision is None:
            raise ImagesNotSupported(str(self.info.no_images_reason))
        limits = request.limits or self.settings.limits
        preprocessor = self.vision.preprocessor
        return preprocessor.prepare_planned(sources, limits, self.settings.image_budget)

    def _prepare_prompt(
        self, request: GenerationRequest, patches: ImagePatches | None
    ) -> TokenizedPrompt:
        counts = () if patches is None else patches.num_image_tokens
        prompt = self.prompt_builder.build(request.messages, counts)
        num_tokens, limit = len(prompt.token_ids), self.settings.max_input_len
        if num_tokens > limit:
            raise PromptTooLong(
                f"The prompt has {num_tokens} tokens ({sum(counts)} of them for pictures), but at "
                f"most {limit} fit: shorten the conversation, lower the image tokens or raise "
                f"--max-input-len."
            )
        return prompt

    def _encode(self, patches: ImagePatches | None, *, anew: bool) -> VisionFeatures | None:
        if patches is None or self.vision is None:
            return None
        encoder = self.vision.engine if anew else self.vision.encoder
        features = encoder.encode(patches)
        if features.num_cached_images == 0:
            self.vision_pace.note(len(patches.pixel_values), features.seconds)
        return features

    def _merge(self, prompt: TokenizedPrompt, features: VisionFeatures | None) -> MergedPrompt:
        if features is None or self.vision is None:
            return text_prompt(prompt, self.language_model)
        return merge(
            prompt,
            features,
            self.language_model,
            image_token_id=self.vision.image_token_id,
            merged_draft_embeddings=self.settings.draft_image_embeddings == "merged",
        )

    def _decode(self, request: GenerationRequest, prompt: MergedPrompt) -> Iterator[DecodeStep]:
        """The base alone, or the base with its draft: everything else is the same."""
        sampler = Sampler(request.sampling, self.language_model.device)
        stop = self._stop_rule(request)
        draft = self._draft_for(request)
        if draft is None:
            return autoregressive_decode(
                self.language_model,
                prompt,
                self.cache,
                sampler,
                stop,
                clock=device_clock(self.language_model.device),
            )
        return speculative_decode(
            self.language_model,
            draft,
            prompt,
            self.cache,
            sampler,
            stop,
            record_trees=request.record_trees,
            clock=device_clock(self.language_model.device),
        )

    def _draft_for(self, request: GenerationRequest) -> Eagle3Draft | None:
        """The draft, with a tree of the request's shape; None when the base decodes alone."""
        if self.draft is None or not request.use_eagle:
            return None
        if request.tree is None or request.tree == self.draft.shape:
            return self.draft
        return Eagle3Draft.fitting(self.draft.head, request.tree, self.cache.capacity)

    def _stop_rule(self, request: GenerationRequest) -> StopRule:
        tokenizer = self.prompt_builder.tokenizer.backend_tokenizer
        return StopRule(
            max_new_tokens=request.max_new_tokens,
            eos_token_ids=frozenset() if request.ignore_eos else self.eos_token_ids,
            completes_stop_string=(
                contains_stop_string(tokenizer, request.stop) if request.stop else None
            ),
        )
