"""Which engines there are, which can run here and why, and loading the one that was chosen.

Each engine's module, and with it its vendor's package, is imported only when it is chosen, so that
a missing package never breaks another engine.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from dataclasses import dataclass
from pathlib import Path

import torch

from visual_encoder.errors import EngineUnavailable
from visual_encoder.export import Progress
from visual_encoder.types import VisualEncoder

logger = logging.getLogger(__name__)

ENGINES = ("onnxruntime", "torch")
AUTO = "auto"

ONNX_PACKAGES = ("onnxruntime", "onnx", "onnxscript")  # the last two export


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """One engine; `missing` says why it cannot run here and what to install, None that it can."""

    name: str
    missing: str | None


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine and number format that will run, and why these."""

    engine: str
    dtype: torch.dtype
    reason: str


def available_engines() -> tuple[EngineStatus, ...]:
    """Every engine, those that cannot run here with the reason."""
    return (EngineStatus("onnxruntime", _missing_for_onnxruntime()), EngineStatus("torch", None))


def choose_engine(engine: str, dtype: torch.dtype | None, device: torch.device) -> EngineChoice:
    """Resolve "auto" and a missing `dtype`. Raises `EngineUnavailable` for what cannot run here."""
    if engine == AUTO:
        return _choose_automatically(dtype, device)
    if engine not in ENGINES:
        raise EngineUnavailable(
            f"There is no visual engine {engine!r}; choose {AUTO}, {' or '.join(ENGINES)}."
        )
    obstacle = _obstacle(engine, dtype, device)
    if obstacle is not None:
        raise EngineUnavailable(f"The visual engine {engine} cannot be used: {obstacle}.")
    return EngineChoice(engine, dtype or _default_dtype(engine, device), "chosen by name")


def create_encoder(
    engine: str,
    model_dir: Path,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    threads: int = 0,
    cache_dir: Path,
    on_progress: Progress = logger.info,
) -> VisualEncoder:
    """Load the vision tower of `model_dir` into an engine, ready to encode.

    `engine` is "auto", "onnxruntime" or "torch"; `dtype` None leaves the number format to the
    engine; `threads` 0 is torch's number; exported files go to `cache_dir`. What runs and why is
    logged and stands in the encoder's `info`. Raises `EngineUnavailable` or `CheckpointError`.
    """
    device = torch.device(device)
    choice = choose_engine(engine, dtype, device)
    logger.info(
        "Visual engine %s on %s in %s: %s.", choice.engine, device, choice.dtype, choice.reason
    )
    if choice.engine == "torch":
        from visual_encoder.torch_engine import TorchEncoder

        return TorchEncoder.load(model_dir, dtype=choice.dtype, device=device, reason=choice.reason)
    from visual_encoder.onnx_engine import OnnxEncoder

    return OnnxEncoder.load(
        model_dir,
        dtype=choice.dtype,
        device=device,
        threads=threads,
        cache_dir=cache_dir,
        reason=choice.reason,
        on_progress=on_progress,
    )


def _choose_automatically(dtype: torch.dtype | None, device: torch.device) -> EngineChoice:
    """ONNX Runtime on a CPU wherever it can compute what is asked, else torch."""
    if device.type != "cpu":
        return EngineChoice(
            "torch",
            dtype or _default_dtype("torch", device),
            f"torch needs no further package on {device.type}",
        )
    obstacle = _obstacle("onnxruntime", dtype, device)
    if obstacle is not None:
        chosen = dtype or _default_dtype("torch", device)
        return EngineChoice("torch", chosen, f"onnxruntime cannot be used: {obstacle}")
    chosen = dtype or _default_dtype("onnxruntime", device)
    return EngineChoice("onnxruntime", chosen, "the default on a CPU")


def _missing_for_onnxruntime() -> str | None:
    absent = [name for name in ONNX_PACKAGES if importlib.util.find_spec(name) is None]
    if absent:
        return f"{' and '.join(absent)} not installed: pip install {' '.join(absent)}"
    try:
        importlib.import_module("onnxruntime")  # its wheel may not fit this machine
    except ImportError as error:
        return f"onnxruntime is installed but does not load: {error}"
    return None


def _obstacle(engine: str, dtype: torch.dtype | None, device: torch.device) -> str | None:
    """Why `engine` cannot run with these settings; None when it can."""
    status = next(item for item in available_engines() if item.name == engine)
    if status.missing is not None:
        return status.missing
    if engine == "onnxruntime" and dtype is torch.bfloat16:
        return "it cannot compute in bfloat16, choose float32 or the engine torch"
    if device.type == "cuda" and not torch.cuda.is_available():
        return "torch finds no CUDA device"
    return None


def _default_dtype(engine: str, device: torch.device) -> torch.dtype:
    """float32 on a CPU; on a GPU what the published weights are stored in."""
    if device.type == "cpu":
        return torch.float32
    return torch.bfloat16 if engine == "torch" else torch.float16
