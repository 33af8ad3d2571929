"""From `Settings` to a `VlmPipeline`: which files, which device, which number format, and why."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from eagle.checkpoint import checkpoint_bytes, resolve_checkpoint
from eagle.drafting import Eagle3Draft
from eagle.errors import DraftMismatch
from eagle.loading import DraftCheckpoint, TargetFacts, bind_draft, check_fit, read_draft
from visual_encoder import (
    CachingEncoder,
    FeatureCache,
    VisualEncoder,
    create_encoder,
    open_built,
)
from visual_encoder.machine import cpu_has_bfloat16
from visual_encoder.preprocess import ImagePreprocessor
from vlm.cache_folder import cache_folder
from vlm.checkpoint import base_config, load_language_model, sees_images
from vlm.config import Settings
from vlm.demo_model.compose import bundled_pair
from vlm.errors import CheckpointError, ConfigError
from vlm.language_model import LanguageModel
from vlm.pipeline import PipelineInfo, Vision, VlmPipeline
from vlm.prompt import PromptBuilder

Progress = Callable[[str], None]
Misfit = Literal["raise", "base-only"]
T = TypeVar("T")
SLOW_TO_READ_BYTES = 10**9


@dataclass(frozen=True, slots=True)
class Choice(Generic[T]):
    """A resolved "auto" option and the reason for it."""

    value: T
    reason: str


class BytesRead:
    """Reports what is being read and how large it is, and every tenth of what takes a while."""

    def __init__(self, what: str, num_bytes: int, note: str, on_progress: Progress) -> None:
        self._line = f"{what}, {in_units(num_bytes)} ({note})"
        self._num_bytes = num_bytes
        self._read = 0
        self._on_progress = on_progress
        on_progress(self._line)

    def __call__(self, num_bytes: int) -> None:
        tenths_before = 10 * self._read // self._num_bytes
        self._read += num_bytes
        tenths = 10 * self._read // self._num_bytes
        if self._num_bytes >= SLOW_TO_READ_BYTES and tenths_before < tenths < 10:
            self._on_progress(f"{self._line}: {10 * tenths} %")


def in_units(num_bytes: int) -> str:
    """As downloads are announced: 271 MB, 16.6 GB."""
    if num_bytes >= 10**9:
        return f"{num_bytes / 10**9:.1f} GB"
    return f"{num_bytes / 10**6:.0f} MB"


@dataclass(frozen=True, slots=True)
class FoundDraft:
    """What became of the draft that was named: its files and the layers it reads, or its problem;
    none of them where no draft was named."""

    checkpoint: DraftCheckpoint | None = None
    aux_layers: tuple[int, ...] = ()
    problem: str | None = None


def load_pipeline(
    settings: Settings, on_progress: Progress, *, misfit: Misfit = "raise"
) -> VlmPipeline:
    """Load everything that `settings` names; `misfit` is for a draft that does not fit the base.

    Raises `VlmError`, `EagleError` or `VisualEncoderError`, each in one sentence.
    """
    per_image = settings.limits.max_image_tokens_per_image
    settings = replace(settings, max_image_tokens_per_image=per_image)
    device = choose_device(settings.device)
    dtype = choose_dtype(settings.dtype, device)
    torch.set_num_threads(settings.threads or os.cpu_count() or 1)
    base_dir, draft_dir = find_checkpoints(settings, on_progress)
    config = base_config(base_dir)
    if draft_dir is not None:
        size = in_units(checkpoint_bytes(draft_dir))
        on_progress(f"Loading {draft_name(settings)}, {size}")
    draft = find_draft(draft_dir, config, misfit)
    model = load_language_model(
        base_dir,
        config,
        aux_layers=draft.aux_layers,
        dtype=dtype.value,
        device=device,
        on_bytes=BytesRead(
            f"Loading {base_name(settings)}", checkpoint_bytes(base_dir), dtype.reason, on_progress
        ),
    )
    vision = load_vision(base_dir, config, settings, device, on_progress)
    tokenizer = load_tokenizer(base_dir)
    return VlmPipeline(
        info=PipelineInfo(
            base_name=base_name(settings),
            draft_name=None if draft.problem else draft_name(settings),
            device=str(device),
            dtype=str(dtype.value).removeprefix("torch."),
            dtype_reason=dtype.reason,
            visual_engine=None if vision is None else vision.encoder.name,
            visual_engine_reason="" if vision is None else vision.encoder.info.reason,
            no_images_reason=None if vision else text_only_reason(config),
            draft_problem=draft.problem,
        ),
        settings=settings,
        language_model=model,
        prompt_builder=PromptBuilder(tokenizer, vision.image_token_id if vision else None),
        eos_token_ids=eos_token_ids(base_dir, config),
        draft=bind(draft.checkpoint, model, settings),
        vision=vision,
    )


def find_checkpoints(settings: Settings, on_progress: Progress) -> tuple[Path, Path | None]:
    """Directories of the base and of its draft; the bundled pair when no base is named."""
    if settings.base is None:
        return bundled_pair(settings.base_weights, on_progress)
    draft = None if settings.draft is None else resolve_checkpoint(settings.draft)
    return resolve_checkpoint(settings.base), draft


def find_draft(draft_dir: Path | None, config: dict[str, Any], misfit: Misfit) -> FoundDraft:
    """Look at the draft before the base is read, which takes longer. Raises `DraftMismatch`."""
    if draft_dir is None:
        return FoundDraft()
    try:
        checkpoint = read_draft(draft_dir)
        return FoundDraft(checkpoint, check_fit(checkpoint, TargetFacts.from_json(config)))
    except DraftMismatch as error:
        if misfit == "raise":
            raise
        return FoundDraft(problem=str(error))


def choose_device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(
            f"--device '{name}' is unknown: use auto, cpu, cuda or cuda:N."
        ) from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"--device '{name}' is not supported: use auto, cpu, cuda or cuda:N.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"--device {name}: this machine has no usable NVIDIA GPU; use cpu.")
    return device


def choose_dtype(name: str, device: torch.device) -> Choice[torch.dtype]:
    if name == "float16" and device.type == "cpu":
        raise ConfigError("--dtype float16 needs a GPU; on a CPU use auto, bfloat16 or float32.")
    if name != "auto":
        return Choice(getattr(torch, name), f"{name}, as asked")
    if device.type == "cuda":
        return Choice(torch.bfloat16, "bfloat16, the native format of GPUs")
    # bfloat16 without hardware support is emulated, slower than float32.
    if cpu_has_bfloat16():
        return Choice(torch.bfloat16, "bfloat16, which this CPU multiplies natively")
    return Choice(torch.float32, "float32, since this CPU does not multiply bfloat16 natively")


def load_vision(
    base_dir: Path,
    config: dict[str, Any],
    settings: Settings,
    device: torch.device,
    on_progress: Progress,
) -> Vision | None:
    """The eyes of a base that has them."""
    if not sees_images(config):
        return None
    encoder = load_encoder(base_dir, settings, device, on_progress)
    caching = CachingEncoder(encoder, FeatureCache(settings.feature_cache_mib * 2**20))
    return Vision(ImagePreprocessor(base_dir), caching, encoder, int(config["image_token_id"]))


def load_encoder(
    base_dir: Path, settings: Settings, device: torch.device, on_progress: Progress
) -> VisualEncoder:
    """The engine that was built, or the one that was asked for."""
    threads = torch.get_num_threads()
    if settings.visual_engine_dir is not None:
        directory = Path(settings.visual_engine_dir)
        return open_built(
            directory, base_dir, device=device, threads=threads, limits=settings.limits
        )
    return create_encoder(
        settings.visual_engine,
        base_dir,
        # Who asks for float32 wants it everywhere; the engines know their own best format else.
        dtype=torch.float32 if settings.dtype == "float32" else None,
        device=device,
        threads=threads,
        cache_dir=cache_folder() / "engines",
        limits=settings.limits,
        on_progress=on_progress,
    )


def load_tokenizer(base_dir: Path) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(base_dir)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{base_dir} holds no usable tokenizer: {error}") from error
    return tokenizer


def eos_token_ids(base_dir: Path, config: dict[str, Any]) -> frozenset[int]:
    """End-of-sequence tokens of generation_config.json, else of config.json."""
    path = base_dir / "generation_config.json"
    generation = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    text = config.get("text_config") or config
    found = generation.get("eos_token_id", text.get("eos_token_id"))
    if found is None:
        raise CheckpointError(f"{base_dir} names no eos_token_id, so answers would not end.")
    return frozenset(found if isinstance(found, list) else [found])


def bind(
    checkpoint: DraftCheckpoint | None, model: LanguageModel, settings: Settings
) -> Eagle3Draft | None:
    if checkpoint is None:
        return None
    head = bind_draft(checkpoint, model.embedding, dtype=model.dtype, device=model.device)
    return Eagle3Draft.fitting(head, settings.tree, settings.max_kv_cache_capacity)


def base_name(settings: Settings) -> str:
    return "the bundled model" if settings.base is None else Path(settings.base).name


def draft_name(settings: Settings) -> str | None:
    if settings.base is None:
        return "the bundled draft"
    return None if settings.draft is None else Path(settings.draft).name


def text_only_reason(config: dict[str, Any]) -> str:
    return f"The base is a text-only model ({config['model_type']}), so it takes no pictures."
