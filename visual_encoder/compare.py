"""Every engine that runs here beside transformers' tower: how near, and how fast.

All are loaded first and then take turns, round by round, so that whatever else the machine does
meets them alike. The time of an engine is the median over its rounds.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import torch

from visual_encoder.engines import (
    AUTO,
    ENGINES,
    choose_engines,
    create_encoder,
    obstacle_of,
)
from visual_encoder.errors import VisualEncoderError
from visual_encoder.machine import cpu_has_bfloat16, device_name
from visual_encoder.onnx_graph import Progress
from visual_encoder.reference_tower import ReferenceTower
from visual_encoder.resize_plan import nearest_grid
from visual_encoder.types import (
    MERGE_SIZE,
    PATCH_DIM,
    PATCH_SIZE,
    ImagePatches,
    ImageTokenLimits,
    VisualEncoder,
)

REFERENCE = "transformers"
PACKAGES = ("torch", "transformers", "onnxruntime", "openvino", "tensorrt", "tensorrt_rtx")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One engine on one request."""

    engine: str
    dtype: str
    patches: int
    max_abs_error: float
    relative_l2: float
    cosine: float
    median_seconds: float
    speedup: float  # against transformers in float32, on the same request
    auto: bool  # what --visual-engine auto chooses here


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """All figures of one run, and what they depend on."""

    rows: tuple[Comparison, ...]
    missing: dict[str, str]  # engine -> why it is not in the table
    date: str
    device: str
    threads: int
    rounds: int
    load_average: float
    model: str
    versions: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> str:
        """For people: one line an engine and request."""
        header = "| patches | engine | max abs error | relative L2 | cosine | median | speed |"
        lines = [header, "|---|---|---|---|---|---|---|"]
        for row in self.rows:
            name = f"{row.engine} {row.dtype}" + (" (auto)" if row.auto else "")
            lines.append(
                f"| {row.patches} | {name} | {row.max_abs_error:.1e} | {row.relative_l2:.1e} | "
                f"{row.cosine:.6f} | {row.median_seconds * 1000:.1f} ms | {row.speedup:.2f}x |"
            )
        lines += [f"{engine}: {reason}" for engine, reason in self.missing.items()]
        return "\n".join(lines)


def compare(
    model_dir: Path,
    requests: Sequence[ImagePatches],
    *,
    device: torch.device,
    threads: int,
    rounds: int,
    cache_dir: Path,
    limits: ImageTokenLimits,
    on_progress: Progress,
) -> ComparisonReport:
    """Measure every engine and number format that can run on `device`."""
    if rounds < 1:
        raise VisualEncoderError(f"--rounds must be at least 1, got {rounds}.")
    threads = threads or os.cpu_count() or 1
    torch.set_num_threads(threads)
    encoders, missing = {}, _missing(device)
    for engine, dtype in _runnable(device):
        try:
            encoders[engine, _name(dtype)] = create_encoder(
                engine,
                model_dir,
                dtype=dtype,
                device=device,
                threads=threads,
                cache_dir=cache_dir,
                limits=limits,
                on_progress=on_progress,
            )
        except VisualEncoderError as error:
            missing[f"{engine} {_name(dtype)}"] = str(error)
    reference = ReferenceTower(model_dir)
    chosen = next(choose_engines(AUTO, None, device))
    auto = (chosen.engine, _name(chosen.dtype))
    rows: list[Comparison] = []
    for patches in requests:
        on_progress(f"Measuring {len(patches.pixel_values)} patches over {rounds} rounds.")
        rows += _compare_request(reference, encoders, patches, rounds, auto)
    return ComparisonReport(
        rows=tuple(rows),
        missing=missing,
        date=datetime.date.today().isoformat(),
        device=device_name(device),
        threads=threads,
        rounds=rounds,
        load_average=os.getloadavg()[0],
        model=str(model_dir),
        versions=_versions(),
    )


def _compare_request(
    reference: ReferenceTower,
    encoders: dict[tuple[str, str], VisualEncoder],
    patches: ImagePatches,
    rounds: int,
    auto: tuple[str, str],
) -> list[Comparison]:
    expected = reference.encode(patches)  # also the warm-up
    outputs = {key: encoder.encode(patches).embeddings for key, encoder in encoders.items()}
    times: dict[tuple[str, str], list[float]] = {key: [] for key in encoders}
    reference_times = []
    for _ in range(rounds):
        reference_times.append(_seconds(reference.encode, patches))
        for key, encoder in encoders.items():
            times[key].append(_seconds(encoder.encode, patches))
    base = median(reference_times)
    rows = [Comparison(REFERENCE, "float32", len(patches.pixel_values), 0, 0, 1, base, 1, False)]
    for key, output in outputs.items():
        engine, dtype = key
        output = output.cpu().double()
        error = output - expected.double()
        rows.append(
            Comparison(
                engine,
                dtype,
                patches=len(patches.pixel_values),
                max_abs_error=error.abs().max().item(),
                relative_l2=(error.norm() / expected.norm()).item(),
                cosine=cosine(output, expected.double()),
                median_seconds=median(times[key]),
                speedup=base / median(times[key]),
                auto=key == auto,
            )
        )
    return rows


def cosine(first: torch.Tensor, second: torch.Tensor) -> float:
    """Cosine of the angle between all values of one and all of the other."""
    return torch.cosine_similarity(first.flatten(), second.flatten(), 0).item()


def noise_request(num_image_tokens: int) -> ImagePatches:
    """One picture of random pixels, as square as its number of tokens allows."""
    limits = ImageTokenLimits(num_image_tokens, num_image_tokens, num_image_tokens)
    rows, columns = nearest_grid(1.0, limits)
    grid = (1, rows * MERGE_SIZE, columns * MERGE_SIZE)
    generator = torch.Generator().manual_seed(0)
    return ImagePatches(
        pixel_values=torch.randn(grid[1] * grid[2], PATCH_DIM, generator=generator),
        grid_thw=(grid,),
        resized_sizes=((grid[1] * PATCH_SIZE, grid[2] * PATCH_SIZE),),
    )


def _seconds(encode: Callable[[ImagePatches], object], patches: ImagePatches) -> float:
    started = time.perf_counter()
    encode(patches)
    return time.perf_counter() - started


def _runnable(device: torch.device) -> list[tuple[str, torch.dtype]]:
    """Every engine in every number format worth comparing on `device`."""
    native = device.type != "cpu" or cpu_has_bfloat16()
    dtypes = [torch.float32, *([torch.bfloat16] if native else [])]
    if device.type != "cpu":
        dtypes.append(torch.float16)
    return [
        (engine, dtype)
        for engine in ENGINES
        for dtype in dtypes
        if obstacle_of(engine, dtype, device) is None
    ]


def _missing(device: torch.device) -> dict[str, str]:
    """Engines that cannot run here at all, with the reason."""
    reasons = {engine: obstacle_of(engine, torch.float32, device) for engine in ENGINES}
    return {engine: reason for engine, reason in reasons.items() if reason is not None}


def _versions() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
