"""A built engine: its files and `engine.json`, the facts that decide whether it may be used here.

Plain data and comparisons. Nothing here imports an engine's package.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from visual_encoder.errors import CheckpointError, EngineOutdated, InvalidLimits, VisualEncoderError
from visual_encoder.export import DTYPES
from visual_encoder.types import ImageTokenLimits, VisionConfig

ENGINE_FILE = "engine.json"
BUILD_VERSION = 1  # raise it when what is built changes: cached engines are made anew


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """What a built engine is tied to: a package's version and a device."""

    package: str
    package_version: str
    device: str


@dataclass(frozen=True, slots=True)
class EngineOrder:
    """What to build."""

    engine: str
    dtype: str  # number format that the engine is to compute in
    device: torch.device  # where it is to run
    limits: ImageTokenLimits | None  # None: any size


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    """A folder written by `build`, and what its `engine.json` says."""

    directory: Path
    engine: str
    onnx_directory: Path  # the exported tower that it was built from
    identity: EngineIdentity
    dtype: str  # number format that the engine computes in
    onnx_sha256: str
    weights_sha256: str  # of the checkpoint's tower tensors
    limits: ImageTokenLimits | None  # None: any size
    vision_config: VisionConfig


def write_engine_file(built: BuiltEngine) -> None:
    """Write `engine.json`, the last file of a build."""
    content = {
        "format": "visual-encoder-engine",
        "build_version": BUILD_VERSION,
        "engine": built.engine,
        "onnx_directory": str(built.onnx_directory),
        **asdict(built.identity),
        "dtype": built.dtype,
        "onnx_sha256": built.onnx_sha256,
        "weights_sha256": built.weights_sha256,
        "limits": None if built.limits is None else asdict(built.limits),
        "vision_config": asdict(built.vision_config),
    }
    text = json.dumps(content, indent=2) + "\n"
    (built.directory / ENGINE_FILE).write_text(text, encoding="utf-8")


def read_engine_file(directory: Path) -> BuiltEngine:
    """What a built folder holds. Raises `VisualEncoderError` for any other folder."""
    try:
        content = json.loads((directory / ENGINE_FILE).read_text(encoding="utf-8"))
        return _parse(directory, content)
    except (OSError, ValueError, KeyError, TypeError, CheckpointError, InvalidLimits) as error:
        raise VisualEncoderError(
            f"{directory} is not a built visual engine, since its {ENGINE_FILE} cannot be used "
            f"({type(error).__name__}: {error}): build one with python -m visual_encoder build; "
            "one that the program made for itself may be deleted, and is then made again."
        ) from error


def _parse(directory: Path, content: dict[str, Any]) -> BuiltEngine:
    if content["build_version"] != BUILD_VERSION:
        raise ValueError(f"build_version is {content['build_version']}, not {BUILD_VERSION}")
    limits = content["limits"]
    if content["dtype"] not in DTYPES:
        raise ValueError(f"dtype is {content['dtype']!r}")
    return BuiltEngine(
        directory=directory,
        engine=str(content["engine"]),
        onnx_directory=Path(content["onnx_directory"]),
        identity=EngineIdentity(
            str(content["package"]), str(content["package_version"]), str(content["device"])
        ),
        dtype=str(content["dtype"]),
        onnx_sha256=str(content["onnx_sha256"]),
        weights_sha256=str(content["weights_sha256"]),
        limits=None if limits is None else ImageTokenLimits(**limits),
        vision_config=VisionConfig.from_dict(content["vision_config"]),
    )


def check_identity(built: BuiltEngine, here: EngineIdentity, device: str) -> None:
    """Raise `EngineOutdated` when an engine was built by another version or for another device."""
    for what, found, wanted in (
        ("package", built.identity.package, here.package),
        (f"{here.package} version", built.identity.package_version, here.package_version),
        ("device", built.identity.device, here.device),
    ):
        if found != wanted:
            raise EngineOutdated(
                f"The engine in {built.directory} was built for {what} {found}, and here it is "
                f"{wanted}; build it again: {rebuild_command(built, device)}"
            )


def check_limits(built: BuiltEngine, wanted: ImageTokenLimits) -> None:
    """Raise `InvalidLimits` when requests may hold pictures that the engine was not built for."""
    if built.limits is None:
        return
    for item in fields(ImageTokenLimits):
        asked, has = getattr(wanted, item.name), getattr(built.limits, item.name)
        bound = "at least" if item.name == "min_image_tokens" else "at most"
        if (asked < has) if bound == "at least" else (asked > has):
            flag = "--" + item.name.replace("_", "-")
            raise InvalidLimits(
                f"{flag} is {asked}, and the visual engine in {built.directory} was built for "
                f"{bound} {has}: choose limits within the engine's, or build it for these."
            )


def rebuild_command(built: BuiltEngine, device: str) -> str:
    """The command that makes the same engine here, in the place of the old one."""
    command = (
        f"python -m visual_encoder build --onnx {shlex.quote(str(built.onnx_directory))} "
        f"--out {shlex.quote(str(built.directory))} --replace --engine {built.engine}"
    )
    if built.engine != "tensorrt" and device != "cpu":
        command += f" --device {device}"
    if built.limits is not None:
        command += (
            f" --min-image-tokens {built.limits.min_image_tokens}"
            f" --max-image-tokens {built.limits.max_image_tokens}"
            f" --max-image-tokens-per-image {built.limits.max_image_tokens_per_image}"
        )
    return command
