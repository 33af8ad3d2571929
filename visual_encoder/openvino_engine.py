"""The OpenVINO engine: the exported graph compiled for this CPU, kept as a blob.

In bfloat16 the float32 graph is compiled with a precision hint, so norms stay in float32.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from visual_encoder.engine_files import BuiltEngine, EngineIdentity, EngineOrder
from visual_encoder.errors import VisualEncoderError
from visual_encoder.export import ExportedTower
from visual_encoder.exported_encoder import Runner
from visual_encoder.machine import device_name
from visual_encoder.onnx_graph import INPUT_NAMES, Progress
from visual_encoder.vendors import import_vendor

openvino = import_vendor("openvino")

BLOB_FILE = "compiled.blob"
PRECISIONS = {"float32": openvino.Type.f32, "bfloat16": openvino.Type.bf16}


class OpenVinoBackend:
    """Compiles and opens blobs; see `Backend`."""

    def identity(self, device: torch.device) -> EngineIdentity:
        return EngineIdentity("openvino", openvino.__version__, device_name(device))

    def build(
        self,
        exported: ExportedTower,
        directory: Path,
        order: EngineOrder,
        *,
        timing_cache: Path,
        on_progress: Progress,
    ) -> None:
        """Compile and write the blob. It serves any size, so limits change nothing."""
        try:
            model = openvino.Core().read_model(exported.model_path)
            compiled = openvino.Core().compile_model(
                model, "CPU", properties(order.dtype, threads=0)
            )
        except RuntimeError as error:
            raise VisualEncoderError(
                f"OpenVINO cannot compile {exported.model_path}: {error}"
            ) from error
        (directory / BLOB_FILE).write_bytes(compiled.export_model().getbuffer())

    def open(self, built: BuiltEngine, *, device: torch.device, threads: int) -> Runner:
        """The blob with `threads` CPU threads (0: torch's number)."""
        path = built.directory / BLOB_FILE
        try:
            compiled = openvino.Core().import_model(
                path.read_bytes(), "CPU", properties(built.dtype, threads)
            )
        except (RuntimeError, OSError) as error:
            raise VisualEncoderError(
                f"OpenVINO cannot load {path}; delete {built.directory} to have it made again: "
                f"{error}"
            ) from error
        ports = {name: port(compiled, name) for name in INPUT_NAMES}
        request = compiled.create_infer_request()

        def run(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
            feed = {ports[name]: tensor.numpy() for name, tensor in inputs.items()}
            results = request.infer(feed, share_inputs=True)
            return torch.from_numpy(results[0].copy())  # the next request overwrites its memory

        return run


def properties(dtype: str, threads: int) -> dict[str, Any]:
    return {
        "INFERENCE_PRECISION_HINT": PRECISIONS[dtype],
        "INFERENCE_NUM_THREADS": threads or torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
    }


def port(compiled: Any, name: str) -> Any:
    """The input that has `name` among its names (compiling may add others)."""
    for candidate in compiled.inputs:
        if name in candidate.get_names():
            return candidate
    raise VisualEncoderError(
        f"The compiled graph has no input '{name}': it is not of this version's export."
    )
