"""The tower as one ONNX file that serves every image size and any number of images per call.

Everything that depends on the grids alone (`GridTensors`) is an input computed on the host, so
the graph holds no data-dependent control flow. Window blocks gather their windows into one padded
batch; full-attention blocks compare frame numbers. Norms and rotary angles stay in float32.
Exported files are cached by the weights' hash and written whole or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor, nn

from visual_encoder.checkpoint import iterate_tower_tensors, load_tower, load_vision_config
from visual_encoder.tower import (
    VisionTower,
    additive_bias,
    attend_to_all,
    attend_within_windows,
)
from visual_encoder.types import PATCH_DIM, PATCHES_PER_TOKEN, GridTHW
from visual_encoder.windows import GridTensors, grid_tensors

logger = logging.getLogger(__name__)

Progress = Callable[[str], None]

EXPORT_VERSION = 1  # raise it when the graph changes, so that cached files are made anew
OPSET = 20  # the first with a Gelu of its own
MODEL_FILE = "model.onnx"
EXTERNAL_DATA_BYTES = 1_500_000_000  # protobuf ends at 2 GB

# Inputs in order, with the names they have in the file. The example holds two images of different
# sizes and clipped windows, so that the exporter takes no size for a constant.
INPUT_NAMES = (
    "pixel_values",
    "cos",
    "sin",
    "window_index",
    "reverse_index",
    "frame_ids",
    "window_gather",
    "window_valid",
    "window_slot",
)
OUTPUT_NAME = "embeddings"
EXAMPLE_GRIDS: GridTHW = ((1, 16, 16), (1, 10, 14))


class ExportableTower(nn.Module):
    """The tower with tensors for arguments and masks instead of loops over frames."""

    def __init__(self, tower: VisionTower) -> None:
        super().__init__()
        self.tower = tower

    def forward(  # noqa: PLR0913 (the exporter wants one parameter per input of the file)
        self,
        pixel_values: Tensor,
        cos: Tensor,
        sin: Tensor,
        window_index: Tensor,
        reverse_index: Tensor,
        frame_ids: Tensor,
        window_gather: Tensor,
        window_valid: Tensor,
        window_slot: Tensor,
    ) -> Tensor:
        same_frame = frame_ids[:, None] == frame_ids[None, :]
        embeddings = self.tower.encode(
            pixel_values,
            cos,
            sin,
            window_index,
            reverse_index,
            within_frames=partial(attend_to_all, bias=additive_bias(same_frame)[None, None]),
            within_windows=partial(
                attend_within_windows,
                gather=window_gather,
                slot=window_slot,
                bias=additive_bias(window_valid)[:, None, None, :],
            ),
        )
        return embeddings.float()


def model_inputs(pixel_values: Tensor, grid: GridTensors) -> dict[str, Tensor]:
    """The file's inputs for one request, by name."""
    return {"pixel_values": pixel_values} | {
        name: getattr(grid, name) for name in INPUT_NAMES if name != "pixel_values"
    }


def export_cached(
    model_dir: Path, cache_dir: Path, *, dtype: torch.dtype, on_progress: Progress = logger.info
) -> Path:
    """The ONNX file of a checkpoint's tower, exported on first use.

    The file stands in a directory of its own that appears only when complete. Raises
    `CheckpointError` when the checkpoint is at fault.
    """
    directory = cache_dir / f"onnx-{cache_key(model_dir, dtype)}"
    if (directory / MODEL_FILE).exists():
        return directory / MODEL_FILE
    on_progress(f"Exporting the visual encoder of {model_dir} to ONNX; this happens once.")
    tower = load_tower(model_dir, dtype=dtype, device=torch.device("cpu"))
    with _appearing_whole(directory) as unfinished:
        export_tower(tower, unfinished / MODEL_FILE)
    on_progress(f"Exported the visual encoder to {directory}.")
    return directory / MODEL_FILE


def export_tower(tower: VisionTower, path: Path) -> None:
    """Write `tower` as ONNX to `path`, with the weights beside it when they are large."""
    grid = grid_tensors(EXAMPLE_GRIDS, tower.config)
    pixel_values = torch.zeros(len(grid.cos), PATCH_DIM)
    with torch.no_grad(), _quiet_exporter():
        program = torch.onnx.export(
            ExportableTower(tower).eval(),
            kwargs=model_inputs(pixel_values, grid),
            input_names=list(INPUT_NAMES),
            output_names=[OUTPUT_NAME],
            dynamic_shapes=_dynamic_shapes(),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned no program")
    weight_bytes = sum(p.numel() * p.element_size() for p in tower.parameters())
    program.save(path, external_data=weight_bytes > EXTERNAL_DATA_BYTES)


def cache_key(model_dir: Path, dtype: torch.dtype) -> str:
    """Hash of everything the exported file depends on: weights, configuration and exporter."""
    digest = hashlib.sha256()
    facts = {
        "config": asdict(load_vision_config(model_dir)),
        "dtype": str(dtype),
        "export_version": EXPORT_VERSION,
        "packages": {name: version(name) for name in ("torch", "onnx", "onnxscript")},
    }
    digest.update(json.dumps(facts, sort_keys=True).encode())
    for name, tensor in iterate_tower_tensors(model_dir):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:24]


def _dynamic_shapes() -> dict[str, dict[int, object]]:
    tokens = torch.export.Dim("tokens", min=1, max=65536)
    patches = PATCHES_PER_TOKEN * tokens
    windows = torch.export.Dim("windows", min=1, max=65536)
    first_axis = {
        "window_index": tokens,
        "reverse_index": tokens,
        "window_gather": windows,
        "window_valid": windows,
    }
    return {name: {0: first_axis.get(name, patches)} for name in INPUT_NAMES}


@contextlib.contextmanager
def _appearing_whole(directory: Path) -> Iterator[Path]:
    """A scratch directory that becomes `directory` on success and vanishes on failure."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        yield scratch
        with contextlib.suppress(OSError):  # another process finished first: its copy is as good
            scratch.replace(directory)
        if not directory.is_dir():
            raise OSError(f"could not create {directory}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Silence the exporter's talk of its own internals, which no user can act on."""
    torch_logger = logging.getLogger("torch.onnx")
    level = torch_logger.level
    torch_logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch_logger.setLevel(level)
