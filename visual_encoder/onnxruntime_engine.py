"""The ONNX Runtime engine: a graph optimised once for this machine, in an inference session."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import torch

from visual_encoder.engine_files import BuiltEngine, EngineIdentity, EngineOrder
from visual_encoder.errors import EngineUnavailable, VisualEncoderError
from visual_encoder.export import ExportedTower
from visual_encoder.exported_encoder import Runner
from visual_encoder.machine import device_name
from visual_encoder.onnx_graph import INPUT_NAMES, OUTPUT_NAME, Progress

OPTIMIZED_FILE = "optimized.onnx"
ERRORS_ONLY = 3  # ONNX Runtime's log severity


class OnnxRuntimeBackend:
    """Builds and opens sessions; see `Backend`."""

    def identity(self, device: torch.device) -> EngineIdentity:
        return EngineIdentity("onnxruntime", onnxruntime.__version__, device_name(device))

    def build(
        self,
        exported: ExportedTower,
        directory: Path,
        order: EngineOrder,
        *,
        timing_cache: Path,
        on_progress: Progress,
    ) -> None:
        """Have the graph optimised, and write it. It serves any size, so limits change nothing."""
        options = session_options(threads=0)
        options.optimized_model_filepath = str(directory / OPTIMIZED_FILE)
        if exported.model_path.with_name(exported.model_path.name + ".data").exists():
            options.add_session_config_entry(
                "session.optimized_model_external_initializers_file_name", f"{OPTIMIZED_FILE}.data"
            )
        open_session(exported.model_path, options, order.device)

    def open(self, built: BuiltEngine, *, device: torch.device, threads: int) -> Runner:
        """A session of the optimised graph with `threads` CPU threads (0: torch's number)."""
        options = session_options(threads)
        disabled = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = disabled  # they are in the file already
        session = open_session(built.directory / OPTIMIZED_FILE, options, device)

        def run(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
            feed = {name: tensor.numpy() for name, tensor in inputs.items()}
            (embeddings,) = session.run([OUTPUT_NAME], feed)
            return torch.from_numpy(embeddings)

        return run


def session_options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = ERRORS_ONLY
    return options


def open_session(
    path: Path, options: onnxruntime.SessionOptions, device: torch.device
) -> onnxruntime.InferenceSession:
    """Open a file and check its names. Raises `VisualEncoderError` for a foreign one."""
    remedy = f"delete {path.parent} to have it made again"
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=_providers(device))
    except EngineUnavailable:
        raise
    except Exception as error:  # its exception types share no other base
        raise VisualEncoderError(f"ONNX Runtime cannot load {path}; {remedy}: {error}") from error
    found = ({item.name for item in session.get_inputs()}, [o.name for o in session.get_outputs()])
    if found != (set(INPUT_NAMES), [OUTPUT_NAME]):
        raise VisualEncoderError(
            f"{path} has the inputs {sorted(found[0])} and outputs {found[1]}, which are not those "
            f"of this version's export; {remedy}."
        )
    return session


def _providers(device: torch.device) -> list[str]:
    on_cpu = "CPUExecutionProvider"
    wanted = {"cpu": on_cpu, "cuda": "CUDAExecutionProvider"}.get(device.type)
    if wanted is None or wanted not in onnxruntime.get_available_providers():
        raise EngineUnavailable(
            f"This ONNX Runtime cannot use device '{device}'; install onnxruntime-gpu in place of "
            "onnxruntime, or choose the engine torch."
        )
    return [wanted] if wanted == on_cpu else [wanted, on_cpu]
