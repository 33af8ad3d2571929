"""Which engines there are, which can run here and why, and loading the one that was chosen.

Each engine's module, and with it its vendor's package, is imported only when it is chosen, so that
a missing package never breaks another engine.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from visual_encoder.build import build_cached, export_dtype, open_engine
from visual_encoder.engine_files import EngineOrder, check_limits, read_engine_file, rebuild_command
from visual_encoder.errors import (
    EngineBuildFailed,
    EngineOutdated,
    EngineUnavailable,
    VisualEncoderError,
)
from visual_encoder.export import DTYPES, export_cached, hash_weights
from visual_encoder.machine import cpu_has_bfloat16
from visual_encoder.onnx_graph import Progress
from visual_encoder.tensorrt_builder import INSTALL_HINT
from visual_encoder.tensorrt_builder import PACKAGES as TENSORRT_PACKAGES
from visual_encoder.types import ImageTokenLimits, VisualEncoder
from visual_encoder.vendors import import_vendor

logger = logging.getLogger(__name__)

ENGINES = ("tensorrt", "openvino", "onnxruntime", "torch")
AUTO = "auto"

EXPORT_PACKAGES = ("onnx", "onnxscript")  # every engine but torch starts from an exported graph


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine and number format that will run, and why these."""

    engine: str
    dtype: torch.dtype
    reason: str


def missing_engines(device: torch.device) -> dict[str, str]:
    """Engines that are not to be had on `device`, each with the reason. Imports no vendor."""
    reasons = {engine: _device_obstacle(engine, device) or _absent(engine) for engine in ENGINES}
    return {engine: reason for engine, reason in reasons.items() if reason is not None}


def choose_engines(
    engine: str, dtype: torch.dtype | None, device: torch.device
) -> Iterator[EngineChoice]:
    """Resolve "auto" and a missing `dtype`: what to load, and what to fall back to, in order.

    An engine chosen by name has no fallback. Raises `EngineUnavailable` for what cannot run here.
    A fallback's package is imported only when its turn comes.
    """
    if engine == AUTO:
        yield from _choose_automatically(dtype, device)
        return
    if engine not in ENGINES:
        raise EngineUnavailable(
            f"There is no visual engine {engine!r}; choose {AUTO}, {', '.join(ENGINES[:-1])} or "
            f"{ENGINES[-1]}."
        )
    wanted = dtype or default_dtype(engine, device)
    obstacle = obstacle_of(engine, wanted, device)
    if obstacle is not None:
        raise EngineUnavailable(f"The visual engine {engine} cannot be used: {obstacle}.")
    yield EngineChoice(engine, wanted, "chosen by name")


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
    built for `limits`. What runs and why is reported and stands in the encoder's `info`.
    Raises `VisualEncoderError`.
    """
    device = torch.device(device)
    failures: list[VisualEncoderError] = []
    for choice in choose_engines(engine, dtype, device):
        reason = "; ".join([choice.reason, *(str(failure).rstrip(".") for failure in failures)])
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
            failures.append(error)
            continue
        on_progress(f"Visual engine {choice.engine} in {_name(choice.dtype)}: {reason}.")
        if engine == AUTO:
            for other, missing in missing_engines(device).items():
                on_progress(f"Visual engine {other} is not there: {missing}.")
        return encoder
    raise failures[-1]


def open_built(
    directory: Path,
    model_dir: Path,
    *,
    device: torch.device | str = "cpu",
    threads: int = 0,
    limits: ImageTokenLimits | None = None,
) -> VisualEncoder:
    """Load an engine built by `python -m visual_encoder build` from the tower of `model_dir`.

    `limits` are those of the requests to come. Raises `EngineOutdated` with the command that
    rebuilds it, `InvalidLimits` when it was built for tighter ones, or another
    `VisualEncoderError`.
    """
    built = read_engine_file(directory)
    if limits is not None:
        check_limits(built, limits)
    device = torch.device(device)
    obstacle = obstacle_of(built.engine, DTYPES[built.dtype], device)
    if obstacle is not None:
        raise EngineUnavailable(f"The engine in {directory} cannot be used: {obstacle}.")
    if built.weights_sha256 != hash_weights(model_dir):
        raise EngineOutdated(
            f"The engine in {directory} was built from the vision tower of another model than "
            f"{model_dir}; export this one with python -m visual_encoder export --model "
            f"{model_dir} --out FOLDER, then "
            f"{rebuild_command(replace(built, onnx_directory=Path('FOLDER')), str(device))}"
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
        EngineOrder(
            choice.engine,
            _name(choice.dtype),
            device,
            # Only a TensorRT plan has bounds; the others serve any size.
            limits=(limits or ImageTokenLimits()) if choice.engine == "tensorrt" else None,
        ),
        on_progress=on_progress,
    )
    return open_engine(built, device=device, threads=threads, reason=reason)


def _choose_automatically(
    dtype: torch.dtype | None, device: torch.device
) -> Iterator[EngineChoice]:
    """Every engine that can run here, fastest first; torch always can."""
    obstacles = []
    for engine, wanted in speed_order(dtype, device):
        obstacle = obstacle_of(engine, wanted, device)
        if obstacle is not None:
            obstacles.append(f"{engine} cannot be used: {obstacle}")
            continue
        reason = f"the fastest on {_kind(device)} that is here"
        yield EngineChoice(engine, wanted, "; ".join([reason, *obstacles]))


def speed_order(
    dtype: torch.dtype | None, device: torch.device
) -> tuple[tuple[str, torch.dtype], ...]:
    """Engines with number formats, fastest first, as measured in docs/visual-engine.md."""
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
    return (
        _device_obstacle(engine, device)
        or _dtype_obstacle(engine, dtype)
        or _absent(engine)
        or _does_not_load(engine)
    )


def _device_obstacle(engine: str, device: torch.device) -> str | None:
    if device.type == "cuda" and not torch.cuda.is_available():
        return "torch finds no CUDA device"
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


def _packages(engine: str) -> tuple[str, ...]:
    """Packages of which an engine needs one, in the order of preference."""
    return {"torch": ("torch",), "tensorrt": TENSORRT_PACKAGES}.get(engine, (engine,))


def _absent(engine: str) -> str | None:
    """What has to be installed before `engine` can load; None when nothing has."""
    if not any(map(_is_installed, _packages(engine))):
        if engine == "tensorrt":
            return f"no TensorRT is installed: {INSTALL_HINT}"
        return f"{engine} is not installed: pip install {engine}"
    needed = () if engine == "torch" else EXPORT_PACKAGES
    absent = [name for name in needed if not _is_installed(name)]
    if absent:
        return f"{' and '.join(absent)} not installed: pip install {' '.join(absent)}"
    return None


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _does_not_load(engine: str) -> str | None:
    """Why none of an engine's packages can be imported: a wheel may not fit this machine."""
    reasons = []
    for package in filter(_is_installed, _packages(engine)):
        try:
            import_vendor(package)
            return None
        except (ImportError, OSError) as error:
            reasons.append(f"{package} is installed but does not load: {error}")
    return "; ".join(reasons)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
