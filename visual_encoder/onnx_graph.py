"""The tower as an ONNX graph that serves every image size and any number of images per call.

Everything that depends on the grids alone (`GridTensors`) is an input computed on the host, so
the graph holds no data-dependent control flow. Window blocks gather their windows into one padded
batch; full-attention blocks compare frame numbers. Norms and rotary angles stay in float32.

The graph is traced over weights that have a shape and no data; each weight is read from the
checkpoint at the moment it is written, so memory holds one weight at a time, not the tower.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from visual_encoder.checkpoint import TowerTensors
from visual_encoder.tower import VisionTower, additive_bias, attend_to_all, attend_within_windows
from visual_encoder.types import PATCH_DIM, PATCHES_PER_TOKEN, GridTHW
from visual_encoder.windows import GridTensors, grid_tensors

Progress = Callable[[str], None]

OPSET = 20  # the first with a Gelu of its own
EXTERNAL_DATA_BYTES = 200_000_000  # one file is put together in memory, and protobuf ends at 2 GB
BIG_TOWER_BYTES = 100_000_000  # from here on writing takes long enough to be reported
PROGRESS_PARTS = 10  # messages over the weights of a big tower

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
TOKEN_INPUTS = frozenset({"window_index", "reverse_index"})  # first axis counts image tokens
WINDOW_INPUTS = frozenset({"window_gather", "window_valid"})  # windows; all others: patches
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


def write_onnx(
    tensors: TowerTensors, dtype: torch.dtype, path: Path, *, on_progress: Progress
) -> None:
    """Write the tower whose weights are `tensors` as ONNX to `path`, with the weights beside it
    (`path` + ".data") when they are large."""
    import onnx_ir

    program = trace(tensors, dtype)
    weights = LazyWeights(tensors, dtype, on_progress)
    for name, value in program.model.graph.initializers.items():
        if name.startswith(WEIGHT_PREFIX):
            value.const_value = weights.lazy(name, value.const_value)
    program.optimize()
    values = [value.const_value for value in program.model.graph.initializers.values()]
    weights.start(sum(value.size for value in values if isinstance(value, onnx_ir.LazyTensor)))
    large = tensors.num_values * dtype.itemsize > EXTERNAL_DATA_BYTES
    onnx_ir.save(program.model, path, external_data=f"{path.name}.data" if large else None)


WEIGHT_PREFIX = "tower."


def trace(tensors: TowerTensors, dtype: torch.dtype) -> Any:
    """The exporter's program of the tower, its weights without data."""
    grid = grid_tensors(EXAMPLE_GRIDS, tensors.config)
    example = model_inputs(torch.zeros(len(grid.cos), PATCH_DIM), grid)
    mode = FakeTensorMode()
    inputs = {name: mode.from_tensor(tensor) for name, tensor in example.items()}
    with mode, torch.no_grad(), _quiet_exporter():
        with _default_dtype(dtype):  # weights without data cannot be converted afterwards
            tower = VisionTower(tensors.config).requires_grad_(False).eval()
        program = torch.onnx.export(
            ExportableTower(tower).eval(),
            kwargs=inputs,
            input_names=list(INPUT_NAMES),
            output_names=[OUTPUT_NAME],
            dynamic_shapes=_dynamic_shapes(),
            opset_version=OPSET,
            dynamo=True,
            optimize=False,  # after the weights have been given their lazy data
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned no program")
    return program


class LazyWeights:
    """Weights that are read when they are written, with progress from `start` on."""

    def __init__(self, tensors: TowerTensors, dtype: torch.dtype, on_progress: Progress) -> None:
        self._tensors = tensors
        self._dtype = dtype
        self._on_progress = on_progress
        self._total: int | None = None  # values to write; None: not writing yet
        self._written = 0

    def start(self, num_values: int) -> None:
        """From now on every read is a weight being written."""
        self._total = num_values

    def lazy(self, name: str, traced: Any) -> Any:
        """The data of the weight `name`, in the type and shape of its traced stand-in."""
        import onnx_ir

        return onnx_ir.LazyTensor(
            partial(self._read, name.removeprefix(WEIGHT_PREFIX)),
            dtype=traced.dtype,
            shape=traced.shape,
            name=name,
        )

    def _read(self, name: str) -> Any:
        from onnx_ir.tensor_adapters import TorchTensor

        tensor = self._tensors.read(name).to(self._dtype)
        if self._total is not None:
            self._report(tensor.numel(), self._total)
        return TorchTensor(tensor)

    def _report(self, num_values: int, total: int) -> None:
        part_before = self._written * PROGRESS_PARTS // total
        self._written += num_values
        part = self._written * PROGRESS_PARTS // total
        num_bytes = total * self._dtype.itemsize
        if part > part_before and num_bytes > BIG_TOWER_BYTES:
            percent = part * 100 // PROGRESS_PARTS
            self._on_progress(f"Writing weights: {percent} % of {num_bytes / 1e6:.0f} MB")


def _dynamic_shapes() -> dict[str, dict[int, object]]:
    tokens = torch.export.Dim("tokens", min=1, max=65536)
    windows = torch.export.Dim("windows", min=1, max=65536)

    def first_axis(name: str) -> object:
        if name in TOKEN_INPUTS:
            return tokens
        return windows if name in WINDOW_INPUTS else PATCHES_PER_TOKEN * tokens

    return {name: {0: first_axis(name)} for name in INPUT_NAMES}


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


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
