"""Building an engine from an exported tower, and opening a built one.

A built engine is a folder with `engine.json`. It appears whole or not at all; in the cache it is
known by everything it depends on, so a second start builds nothing. Vendor packages are imported
when their engine is wanted.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import torch

from visual_encoder.atomic_folder import appearing_whole
from visual_encoder.engine_files import (
    BUILD_VERSION,
    ENGINE_FILE,
    BuiltEngine,
    EngineIdentity,
    EngineOrder,
    check_identity,
    read_engine_file,
    write_engine_file,
)
from visual_encoder.errors import EngineUnavailable
from visual_encoder.export import ExportedTower
from visual_encoder.exported_encoder import ExportedEncoder, Runner
from visual_encoder.onnx_graph import Progress
from visual_encoder.types import EncoderInfo

BUILT_ENGINES = ("tensorrt", "openvino", "onnxruntime")
TIMING_CACHE_FILE = "tensorrt-timing.cache"


class Backend(Protocol):
    """One vendor's way from an exported tower to something that runs."""

    def identity(self, device: torch.device) -> EngineIdentity:
        """Package, version and device that a build made now would be tied to."""
        ...

    def build(
        self,
        exported: ExportedTower,
        directory: Path,
        order: EngineOrder,
        *,
        timing_cache: Path,
        on_progress: Progress,
    ) -> None:
        """Write the engine's files into `directory`. Raises `VisualEncoderError`."""
        ...

    def open(self, built: BuiltEngine, *, device: torch.device, threads: int) -> Runner:
        """Load what `build` wrote. Raises `VisualEncoderError`."""
        ...


def backend_of(engine: str) -> Backend:
    """The backend of one of `BUILT_ENGINES`; imports its package."""
    if engine == "onnxruntime":
        from visual_encoder.onnxruntime_engine import OnnxRuntimeBackend

        return OnnxRuntimeBackend()
    if engine == "openvino":
        from visual_encoder.openvino_engine import OpenVinoBackend

        return OpenVinoBackend()
    if engine == "tensorrt":
        from visual_encoder.tensorrt_engine import TensorRTBackend

        return TensorRTBackend()
    raise EngineUnavailable(
        f"There is no engine {engine!r} to build; choose {', '.join(BUILT_ENGINES)}."
    )


def export_dtype(engine: str, dtype: torch.dtype) -> torch.dtype:
    """Number format of the graph that an engine computing in `dtype` is built from."""
    return torch.float32 if engine == "openvino" else dtype


def build_engine(
    exported: ExportedTower,
    directory: Path,
    order: EngineOrder,
    *,
    timing_cache: Path,
    replace: bool = False,
    on_progress: Progress,
) -> BuiltEngine:
    """Build into the new folder `directory`, or in the place of the engine that it holds.

    Raises `VisualEncoderError`.
    """
    backend = backend_of(order.engine)
    on_progress(f"Building the visual engine {order.engine} in {order.dtype}.")
    with appearing_whole(directory, replace=replace) as unfinished:
        backend.build(
            exported, unfinished, order, timing_cache=timing_cache, on_progress=on_progress
        )
        write_engine_file(
            BuiltEngine(
                directory=unfinished,
                engine=order.engine,
                onnx_directory=exported.directory.absolute(),
                identity=backend.identity(order.device),
                dtype=order.dtype,
                onnx_sha256=exported.onnx_sha256,
                weights_sha256=exported.weights_sha256,
                limits=order.limits,
                vision_config=exported.vision_config,
            )
        )
    on_progress(f"Built the visual engine {order.engine} in {directory}.")
    return read_engine_file(directory)


def build_cached(
    exported: ExportedTower, cache_dir: Path, order: EngineOrder, *, on_progress: Progress
) -> BuiltEngine:
    """The engine of an exported tower for this machine, built on first use."""
    identity = backend_of(order.engine).identity(order.device)
    facts = {
        "build_version": BUILD_VERSION,
        "onnx_sha256": exported.onnx_sha256,
        "dtype": order.dtype,
        "limits": None if order.limits is None else asdict(order.limits),
        **asdict(identity),
    }
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]
    directory = cache_dir / f"{order.engine}-{key}"
    if (directory / ENGINE_FILE).exists():
        return read_engine_file(directory)
    return build_engine(
        exported,
        directory,
        order,
        timing_cache=cache_dir / TIMING_CACHE_FILE,
        on_progress=on_progress,
    )


def open_engine(
    built: BuiltEngine, *, device: torch.device, threads: int, reason: str
) -> ExportedEncoder:
    """Load a built engine. Raises `EngineOutdated` for one of another version or device."""
    backend = backend_of(built.engine)
    check_identity(built, backend.identity(device), str(device))
    runner = backend.open(built, device=device, threads=threads)
    info = EncoderInfo(
        engine=built.engine,
        device=str(device),
        dtype=built.dtype,
        hidden_size=built.vision_config.out_hidden_size,
        reason=reason,
    )
    return ExportedEncoder(runner, built.vision_config, info, built.limits)
