"""A stand-in for the part of TensorRT that runs plans: it checks the order of calls and computes.

The names, arguments and return values are those of the TensorRT 11 and tensorrt_rtx 1.7 bindings:
failure is None, False or a list of names, and the reason goes to the logger. The "plan" is computed
by our own tower on the memory at the addresses that were set, so a wrong address or shape shows.
"""

from __future__ import annotations

import ctypes
from enum import Enum
from math import prod
from types import SimpleNamespace
from typing import Any

import torch

from visual_encoder.onnx_graph import INPUT_NAMES, OUTPUT_NAME, ExportableTower


class DataType(Enum):
    FLOAT = 0
    INT32 = 1
    INT64 = 2
    BOOL = 3


TORCH = {
    DataType.FLOAT: torch.float32,
    DataType.INT32: torch.int32,
    DataType.INT64: torch.int64,
    DataType.BOOL: torch.bool,
}
INPUT_TYPES = {
    "window_index": DataType.INT64,
    "reverse_index": DataType.INT64,
    "frame_ids": DataType.INT32,
    "window_gather": DataType.INT64,
    "window_valid": DataType.BOOL,
    "window_slot": DataType.INT64,
}


class ILogger:
    INTERNAL_ERROR, ERROR, WARNING, INFO = range(4)


class FakeTensorRT:
    """The module `tensorrt`, for plans of one tower. `fail` names the call that goes wrong."""

    __name__ = "tensorrt"
    __version__ = "11.4.0.106"
    ILogger = ILogger
    DataType = DataType

    def __init__(self, tower: ExportableTower, fail: str = "") -> None:
        self.tower = tower
        self.fail = fail
        self.calls: list[str] = []

    def Runtime(self, logger: Any) -> Runtime:
        return Runtime(self, logger)


class Runtime:
    def __init__(self, trt: FakeTensorRT, logger: Any) -> None:
        self.trt, self.logger = trt, logger

    def ok(self, call: str) -> bool:
        """Note a call; on the one that fails, complain to the logger as TensorRT does."""
        self.trt.calls.append(call)
        if self.trt.fail == call:
            self.logger.log(ILogger.WARNING, "nothing to worry about")
            self.logger.log(ILogger.ERROR, f"{call}: out of luck\n")
        return self.trt.fail != call

    def deserialize_cuda_engine(self, plan: bytes) -> Engine | None:
        assert plan == b"a plan"
        return Engine(self) if self.ok("deserialize_cuda_engine") else None


class Engine:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def create_execution_context(self) -> Context | None:
        return Context(self.runtime) if self.runtime.ok("create_execution_context") else None

    def get_tensor_dtype(self, name: str) -> DataType:
        return INPUT_TYPES.get(name, DataType.FLOAT)


class Context:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        assert name in INPUT_NAMES
        self.shapes[name] = shape
        return self.runtime.ok("set_input_shape")

    def set_tensor_address(self, name: str, address: int) -> bool:
        self.addresses[name] = address
        return self.runtime.ok("set_tensor_address")

    def infer_shapes(self) -> list[str]:
        missing = [name for name in INPUT_NAMES if name not in self.shapes]
        return missing if self.runtime.ok("infer_shapes") else [OUTPUT_NAME]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        assert name == OUTPUT_NAME
        width = self.runtime.trt.tower.tower.config.out_hidden_size
        return (self.shapes["window_index"][0], width)

    def execute_async_v3(self, stream: int) -> bool:
        assert stream == 42, "the plan must not run on torch's own stream"
        if not self.runtime.ok("execute_async_v3"):
            return False
        inputs = {name: self.memory(name, self.shapes[name]) for name in INPUT_NAMES}
        with torch.no_grad():
            output = self.runtime.trt.tower(**inputs)
        self.memory(OUTPUT_NAME, tuple(output.shape)).copy_(output)
        return True

    def memory(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """The tensor at an address that was set."""
        dtype = TORCH[INPUT_TYPES.get(name, DataType.FLOAT)]
        num_bytes = prod(shape) * dtype.itemsize
        buffer = (ctypes.c_char * num_bytes).from_address(self.addresses[name])
        return torch.frombuffer(buffer, dtype=dtype).reshape(shape)


def fake_stream(calls: list[str]) -> SimpleNamespace:
    """What PlanRunner needs of a CUDA stream."""
    return SimpleNamespace(
        cuda_stream=42,
        wait_stream=lambda other: calls.append("wait_stream"),
        synchronize=lambda: calls.append("synchronize"),
    )
