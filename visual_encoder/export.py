"""An exported tower: `model.onnx`, its weights, and a `config.json` with what every engine needs.

`export_tower` writes one where the user asks, `export_cached` once per checkpoint and number format
in a cache folder, known by the weights' hash. A folder appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from visual_encoder.atomic_folder import appearing_whole
from visual_encoder.checkpoint import TowerTensors, iterate_tower_tensors, load_vision_config
from visual_encoder.errors import CheckpointError, VisualEncoderError
from visual_encoder.onnx_graph import INPUT_NAMES, OPSET, OUTPUT_NAME, Progress, write_onnx
from visual_encoder.types import VisionConfig

logger = logging.getLogger(__name__)

EXPORT_VERSION = 2  # raise it when the graph or config.json changes: cached files are made anew
MODEL_FILE = "model.onnx"
CONFIG_FILE = "config.json"
EXPORT_PACKAGES = ("torch", "onnx", "onnxscript")
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
HASH_CHUNK_BYTES = 2**24


@dataclass(frozen=True, slots=True)
class ExportedTower:
    """A folder written by this version, and what its `config.json` says."""

    directory: Path
    vision_config: VisionConfig
    dtype: str  # number format of the weights and of the computation
    onnx_sha256: str  # of model.onnx and its weights
    weights_sha256: str  # of the checkpoint's tower tensors

    @property
    def model_path(self) -> Path:
        return self.directory / MODEL_FILE


def export_tower(
    model_dir: Path, directory: Path, *, dtype: torch.dtype, on_progress: Progress = logger.info
) -> ExportedTower:
    """Export the vision tower of `model_dir` into the new folder `directory`.

    Raises `CheckpointError` when the checkpoint is at fault.
    """
    tensors = TowerTensors(model_dir)
    on_progress(f"Exporting the visual encoder of {model_dir} to ONNX in {_name(dtype)}.")
    with appearing_whole(directory) as unfinished:
        write_onnx(tensors, dtype, unfinished / MODEL_FILE, on_progress=on_progress)
        content = export_facts(tensors.config, dtype) | {
            "onnx_sha256": hash_onnx(unfinished / MODEL_FILE),
            "weights_sha256": hash_weights(model_dir),
        }
        text = json.dumps(content, indent=2) + "\n"
        (unfinished / CONFIG_FILE).write_text(text, encoding="utf-8")
    on_progress(f"Exported the visual encoder to {directory}.")
    return read_export(directory)


def export_cached(
    model_dir: Path, cache_dir: Path, *, dtype: torch.dtype, on_progress: Progress = logger.info
) -> ExportedTower:
    """The exported tower of a checkpoint, made on first use. Raises `CheckpointError`."""
    directory = cache_dir / f"onnx-{cache_key(model_dir, dtype)}"
    if not (directory / CONFIG_FILE).exists():
        return export_tower(model_dir, directory, dtype=dtype, on_progress=on_progress)
    return read_export(directory)


def export_facts(config: VisionConfig, dtype: torch.dtype) -> dict[str, Any]:
    """What the graph is made from, and how it is fed."""
    return {
        "format": "visual-encoder-onnx",
        "export_version": EXPORT_VERSION,
        "vision_config": asdict(config),
        "dtype": _name(dtype),
        "opset": OPSET,
        "inputs": list(INPUT_NAMES),
        "output": OUTPUT_NAME,
        "packages": {name: version(name) for name in EXPORT_PACKAGES},
    }


def read_export(directory: Path) -> ExportedTower:
    """What an exported folder holds. Raises `VisualEncoderError` for any other folder."""
    path = directory / CONFIG_FILE
    remedy = "export it again: python -m visual_encoder export --model MODEL --out FOLDER"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content["export_version"]
        if found != EXPORT_VERSION:
            raise VisualEncoderError(
                f"{directory} was exported in version {found}, and this program reads version "
                f"{EXPORT_VERSION}: {remedy}."
            )
        return ExportedTower(
            directory,
            VisionConfig.from_dict(content["vision_config"]),
            str(content["dtype"]),
            str(content["onnx_sha256"]),
            str(content["weights_sha256"]),
        )
    except (OSError, ValueError, KeyError, TypeError, CheckpointError) as error:
        raise VisualEncoderError(
            f"{directory} is not an exported visual encoder, since its {CONFIG_FILE} cannot be "
            f"used ({type(error).__name__}: {error}): {remedy}."
        ) from error


def check_unchanged(exported: ExportedTower) -> None:
    """Raise `VisualEncoderError` when the file is not the one that its config.json describes."""
    if not exported.model_path.exists():
        raise VisualEncoderError(f"{exported.directory} has no {MODEL_FILE}: export it again.")
    found = hash_onnx(exported.model_path)
    if found != exported.onnx_sha256:
        raise VisualEncoderError(
            f"{exported.model_path} is damaged: its SHA-256 is {found[:12]}…, and "
            f"{CONFIG_FILE} says {exported.onnx_sha256[:12]}…; export it again."
        )


def hash_onnx(path: Path) -> str:
    """SHA-256 of an ONNX file and of the weights beside it."""
    digest = hashlib.sha256()
    for part in (path, path.with_name(path.name + ".data")):
        if part.exists():
            with part.open("rb") as file:
                while chunk := file.read(HASH_CHUNK_BYTES):
                    digest.update(chunk)
    return digest.hexdigest()


def cache_key(model_dir: Path, dtype: torch.dtype) -> str:
    """Hash of everything the exported file depends on: weights, configuration and exporter."""
    facts = export_facts(load_vision_config(model_dir), dtype)
    facts["weights_sha256"] = hash_weights(model_dir)
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


def hash_weights(model_dir: Path) -> str:
    """SHA-256 of the names, types, shapes and bytes of a checkpoint's tower tensors."""
    digest = hashlib.sha256()
    for name, tensor in iterate_tower_tensors(model_dir):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
