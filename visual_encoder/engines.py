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

from visual_encoder.build import build_cached, export_dtype, open_engine
from visual_encoder.engine_files import read_engine_file, rebuild_command
from visual_encoder.errors import EngineBuildFailed, EngineOutdated, EngineUnavailable
from visual_encoder.export import DTYPES, export_cached, hash_weights
from visual_encoder.machine import cpu_has_bfloat16
from visual_encoder.onnx_graph import Progress
from visual_encoder.types import ImageTokenLimits, VisualEncoder

logger = logging.getLogger(__name__)

ENGINES = ("tensorrt", "openvino", "onnxruntime", "torch")
AUTO = "auto"

EXPORT_PACKAGES = ("onnx", "onnxscript")  # every engine but torch starts from an exported graph
TENSORRT_PACKAGES = ("tensorrt", "tensorrt_rtx")


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
    return tuple(EngineStatus(engine, _missing(engine)) for engine in ENGINES)


def choose_engines(
    engine: str, dtype: torch.dtype | None, device: torch.device
) -> tuple[EngineChoice, ...]:
    """Resolve "auto" and a missing `dtype`: what to load, and what to fall back to, in order.

    An engine chosen by name has no fallback. Raises `EngineUnavailable` for what cannot run here.
    """
    if engine == AUTO:
        return _choose_automatically(dtype, device)
    if engine not in ENGINES:
        raise EngineUnavailable(
            f"There is no visual engine {engine!r}; choose {AUTO}, {', '.join(ENGINES[:-1])} or "
            f"{ENGINES[-1]}."
        )
    wanted = dtype or default_dtype(engine, device)
    obstacle = obstacle_of(engine, wanted, device)
    if obstacle is not None:
        raise EngineUnavailable(f"The visual engine {engine} cannot be used: {obstacle}.")
    return (EngineChoice(engine, wanted, "chosen by name"),)


def create_encoder(
    engine: str,
    model_dir: Path,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    threads: int = 0,
    cache_dir: Path,
    limits: ImageTokenLimits | None = None,
    on_progress: Progress = logger.info,
) -> VisualEncoder:
    """Load the vision tower of `model_dir` into an engine, ready to encode.

    `engine` is "auto" or one of `ENGINES`; `dtype` None leaves the number format to the engine;
    `threads` 0 is torch's number; exported and built files go to `cache_dir`; a TensorRT plan is
    built for `limits`. What runs and why is logged and stands in the encoder's `info`.
    Raises `VisualEncoderError`.
    """
    device = torch.device(device)
    choices = choose_engines(engine, dtype, device)
    failures: list[str] = []
    for choice in choices:
        reason = "; ".join([choice.reason, *failures])
        try:
            encoder = _load(
                choice,
                model_dir,
                device=device,
                threads=threads,
                cache_dir=cache_dir,
                limits=limits,
                reason=reason,
                on_progress=on_progress,
            )
        except (EngineUnavailable, EngineBuildFailed) as error:
            if choice is choices[-1]:
                raise
            failures.append(f"{choice.engine} failed: {error}")
            continue
        logger.info(
            "Visual engine %s on %s in %s: %s.", choice.engine, device, choice.dtype, reason
        )
        return encoder
    raise AssertionError("choose_engines returned nothing")


def open_built(
    directory: Path,
    model_dir: Path,
    *,
    device: torch.device | str = "cpu",
    threads: int = 0,
) -> VisualEncoder:
    """Load an engine built by `python -m visual_encoder build` from the tower of `model_dir`.

    Raises `EngineOutdated` with the command that rebuilds it, or another `VisualEncoderError`.
    """
    built = read_engine_file(directory)
    device = torch.device(device)
    obstacle = obstacle_of(built.engine, DTYPES[built.dtype], device)
    if obstacle is not None:
        raise EngineUnavailable(f"The engine in {directory} cannot be used: {obstacle}.")
    if built.weights_sha256 != hash_weights(model_dir):
        raise EngineOutdated(
            f"The engine in {directory} was built from the vision tower of another model than "
            f"{model_dir}; export this model, then: {rebuild_command(built)}"
        )
    return open_engine(built, device=device, threads=threads, reason=f"built in {directory}")


def _load(
    choice: EngineChoice,
    model_dir: Path,
    *,
    device: torch.device,
    threads: int,
    cache_dir: Path,
    limits: ImageTokenLimits | None,
    reason: str,
    on_progress: Progress,
) -> VisualEncoder:
    if choice.engine == "torch":
        from visual_encoder.torch_engine import TorchEncoder

        return TorchEncoder.load(model_dir, dtype=choice.dtype, device=device, reason=reason)
    exported = export_cached(
        model_dir,
        cache_dir,
        dtype=export_dtype(choice.engine, choice.dtype),
        on_progress=on_progress,
    )
    built = build_cached(
        exported,
        cache_dir,
        choice.engine,
        dtype=str(choice.dtype).removeprefix("torch."),
        device=device,
        # Only a TensorRT plan has bounds; the others serve any size.
        limits=(limits or ImageTokenLimits()) if choice.engine == "tensorrt" else None,
        on_progress=on_progress,
    )
    return open_engine(built, device=device, threads=threads, reason=reason)


def _choose_automatically(
    dtype: torch.dtype | None, device: torch.device
) -> tuple[EngineChoice, ...]:
    """Every engine that can run here, fastest first; torch always can."""
    choices, obstacles = [], []
    for engine, wanted in speed_order(dtype, device):
        obstacle = obstacle_of(engine, wanted, device)
        if obstacle is not None:
            obstacles.append(f"{engine} cannot be used: {obstacle}")
            continue
        name = str(wanted).removeprefix("torch.")
        reason = f"the fastest on {_kind(device)} that is here, in {name}"
        choices.append(EngineChoice(engine, wanted, "; ".join([reason, *obstacles])))
    return tuple(choices)


def speed_order(
    dtype: torch.dtype | None, device: torch.device
) -> tuple[tuple[str, torch.dtype], ...]:
    """Engines with number formats, fastest first, as measured in docs/visual-engines.md."""
    if device.type != "cpu":
        wanted = dtype or torch.bfloat16
        return (("tensorrt", wanted), ("torch", wanted))
    if dtype is torch.bfloat16 or (dtype is None and cpu_has_bfloat16()):
        half = (("openvino", torch.bfloat16), ("torch", torch.bfloat16))
        return half if dtype is not None else (*half, ("onnxruntime", torch.float32))
    wanted = dtype or torch.float32
    return tuple((engine, wanted) for engine in ("openvino", "onnxruntime", "torch"))


def obstacle_of(engine: str, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why `engine` cannot compute in `dtype` on `device`; None when it can."""
    missing = _missing(engine)
    if missing is not None:
        return missing
    if device.type == "cuda" and not torch.cuda.is_available():
        return "torch finds no CUDA device"
    return _device_obstacle(engine, device) or _dtype_obstacle(engine, dtype)


def _device_obstacle(engine: str, device: torch.device) -> str | None:
    if engine == "tensorrt" and device.type != "cuda":
        return "it needs an NVIDIA GPU"
    if engine == "openvino" and device.type != "cpu":
        return "it runs on the CPU here"
    return None


def _dtype_obstacle(engine: str, dtype: torch.dtype) -> str | None:
    if engine == "onnxruntime" and dtype is torch.bfloat16:
        return "it cannot compute in bfloat16, choose float32 or the engine torch"
    if engine == "openvino" and dtype is torch.float16:
        return "it cannot compute in float16 on a CPU, choose float32 or bfloat16"
    if engine == "openvino" and dtype is torch.bfloat16 and not cpu_has_bfloat16():
        return "this CPU does not multiply bfloat16 natively, choose float32"
    return None


def default_dtype(engine: str, device: torch.device) -> torch.dtype:
    """bfloat16, what the published weights are stored in, wherever it is native; else float32.

    ONNX Runtime has no bfloat16: on a GPU float16, on a CPU float32.
    """
    if engine == "onnxruntime":
        return torch.float32 if device.type == "cpu" else torch.float16
    native = device.type != "cpu" or cpu_has_bfloat16()
    return torch.bfloat16 if native else torch.float32


def _kind(device: torch.device) -> str:
    return "a CPU" if device.type == "cpu" else "a GPU"


def _missing(engine: str) -> str | None:
    """What has to be installed before `engine` can load; None when nothing has."""
    if engine == "torch":
        return None
    if engine == "tensorrt":
        return _missing_tensorrt() or _not_found(EXPORT_PACKAGES)
    return _not_found((engine, *EXPORT_PACKAGES)) or _does_not_load(engine)


def _missing_tensorrt() -> str | None:
    found = [name for name in TENSORRT_PACKAGES if importlib.util.find_spec(name) is not None]
    if not found:
        from visual_encoder.tensorrt_builder import INSTALL_HINT

        return f"no TensorRT is installed: {INSTALL_HINT}"
    reasons = [_does_not_load(name) for name in found]
    return None if None in reasons else "; ".join(filter(None, reasons))


def _not_found(packages: tuple[str, ...]) -> str | None:
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    if not absent:
        return None
    return f"{' and '.join(absent)} not installed: pip install {' '.join(absent)}"


def _does_not_load(package: str) -> str | None:
    try:
        importlib.import_module(package)  # its wheel may not fit this machine
    except (ImportError, OSError) as error:
        return f"{package} is installed but does not load: {error}"
    return None
