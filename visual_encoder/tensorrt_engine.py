"""The TensorRT engine: a plan built from the exported graph, run on an NVIDIA GPU.

Building with tensorrt_rtx needs no GPU and its plan serves every GPU generation of that version;
a plan of tensorrt is tied to the GPU that it was built on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from visual_encoder.engine_files import BuiltEngine, EngineIdentity, EngineOrder
from visual_encoder.errors import EngineUnavailable, InvalidLimits, VisualEncoderError
from visual_encoder.export import ExportedTower
from visual_encoder.exported_encoder import Runner
from visual_encoder.machine import device_name
from visual_encoder.onnx_graph import INPUT_NAMES, OUTPUT_NAME, Progress
from visual_encoder.tensorrt_builder import PlanBuilder, collecting_logger, import_tensorrt
from visual_encoder.tensorrt_profile import input_shapes

PLAN_FILE = "engine.plan"
ANY_RTX_GPU = "any GPU that this tensorrt_rtx supports"


class TensorRTBackend:
    """Builds and opens plans; see `Backend`."""

    def __init__(self) -> None:
        self._trt = import_tensorrt()

    def identity(self, device: torch.device) -> EngineIdentity:
        name = self._trt.__name__
        if name == "tensorrt_rtx":
            return EngineIdentity(name, self._trt.__version__, ANY_RTX_GPU)
        if not torch.cuda.is_available():
            raise EngineUnavailable(
                "tensorrt builds a plan for the GPU it finds, and this machine has none; "
                "tensorrt-rtx builds without one."
            )
        gpu = device if device.type == "cuda" else torch.device("cuda")
        return EngineIdentity(name, self._trt.__version__, device_name(gpu))

    def build(
        self,
        exported: ExportedTower,
        directory: Path,
        order: EngineOrder,
        *,
        timing_cache: Path,
        on_progress: Progress,
    ) -> None:
        """Parse, profile for `limits`, build, write the plan. Raises `EngineBuildFailed`."""
        if order.limits is None:
            raise InvalidLimits("A TensorRT plan is built for image-token limits: name them.")
        builder = PlanBuilder(self._trt)
        builder.parse(exported.model_path)
        builder.add_profile(input_shapes(order.limits, exported.vision_config))
        builder.use_timing_cache(timing_cache)
        on_progress("TensorRT is choosing kernels; a big tower takes minutes.")
        plan = builder.build()
        (directory / PLAN_FILE).write_bytes(plan)
        builder.save_timing_cache(timing_cache)

    def open(self, built: BuiltEngine, *, device: torch.device, threads: int) -> Runner:
        """The plan in an execution context on `device`."""
        if device.type != "cuda":
            raise EngineUnavailable(
                f"A TensorRT plan runs on an NVIDIA GPU, not on device '{device}': choose cuda or "
                "another visual engine."
            )
        return PlanRunner(self._trt, built.directory / PLAN_FILE, device)


class PlanRunner:
    """A plan in an execution context, with a stream of its own."""

    def __init__(self, trt: Any, path: Path, device: torch.device) -> None:
        """Raises `EngineUnavailable` when this GPU cannot run the plan."""
        self._logger = collecting_logger(trt)
        self._runtime = trt.Runtime(self._logger)
        self._engine = self._runtime.deserialize_cuda_engine(path.read_bytes())
        if self._engine is None:
            raise EngineUnavailable(self._complaint(f"cannot load {path}"))
        self._context = self._engine.create_execution_context()
        if self._context is None:
            raise EngineUnavailable(self._complaint(f"has no memory for {path}"))
        self._dtypes = torch_dtypes(trt)
        self._device = device
        self._stream = new_stream(device)

    def __call__(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Run once, and wait for the result."""
        # The buffers must live until the stream is done, hence the local names.
        buffers = {name: inputs[name].to(self._device) for name in INPUT_NAMES}
        for name, buffer in buffers.items():
            if not self._context.set_input_shape(name, tuple(buffer.shape)):
                raise self._failure(f"refuses the shape {tuple(buffer.shape)} of '{name}'")
            if buffer.dtype != self._dtypes[self._engine.get_tensor_dtype(name)]:
                raise VisualEncoderError(f"The plan's input '{name}' is not {buffer.dtype}.")
            self._set_address(name, buffer)
        unknown = self._context.infer_shapes()
        if unknown:
            raise self._failure(f"does not know the shape of {', '.join(unknown)}")
        output = torch.empty(
            tuple(self._context.get_tensor_shape(OUTPUT_NAME)),
            dtype=self._dtypes[self._engine.get_tensor_dtype(OUTPUT_NAME)],
            device=self._device,
        )
        self._set_address(OUTPUT_NAME, output)
        self._stream.wait_stream(current_stream(self._device))
        if not self._context.execute_async_v3(self._stream.cuda_stream):
            raise self._failure("did not run the plan")
        self._stream.synchronize()
        return output.float()

    def _set_address(self, name: str, buffer: torch.Tensor) -> None:
        if not self._context.set_tensor_address(name, buffer.data_ptr()):
            raise self._failure(f"refuses the memory of '{name}'")

    def _failure(self, what: str) -> VisualEncoderError:
        return VisualEncoderError(self._complaint(what))

    def _complaint(self, what: str) -> str:
        words = self._logger.complaints or ["it gave no reason"]
        return f"TensorRT {what}: {' | '.join(dict.fromkeys(words))}"


def new_stream(device: torch.device) -> Any:
    """A stream of its own: TensorRT synchronises more on the default one."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def current_stream(device: torch.device) -> Any:
    """The stream on which torch made the inputs."""
    return torch.cuda.current_stream(device)


def torch_dtypes(trt: Any) -> dict[Any, torch.dtype]:
    """TensorRT's number formats of the graph's inputs and output."""
    return {
        trt.DataType.FLOAT: torch.float32,
        trt.DataType.INT32: torch.int32,
        trt.DataType.INT64: torch.int64,
        trt.DataType.BOOL: torch.bool,
    }
