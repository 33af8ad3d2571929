"""The ONNX Runtime engine: the exported tower in an inference session.

Patches in, features out. Loading exports the checkpoint on first use and checks that the file has
exactly the inputs this version feeds.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from visual_encoder.checkpoint import load_vision_config
from visual_encoder.errors import EngineUnavailable, VisualEncoderError
from visual_encoder.export import (
    INPUT_NAMES,
    OUTPUT_NAME,
    Progress,
    export_cached,
    model_inputs,
)
from visual_encoder.types import (
    EncoderInfo,
    ImagePatches,
    VisionConfig,
    VisionFeatures,
    check_patches,
)
from visual_encoder.windows import grid_tensors

NAME = "onnxruntime"
ERRORS_ONLY = 3  # ONNX Runtime's log severity


class OnnxEncoder:
    """An inference session and the facts its inputs are computed from."""

    name = NAME

    def __init__(
        self, session: onnxruntime.InferenceSession, config: VisionConfig, info: EncoderInfo
    ) -> None:
        self._session = session
        self._config = config
        self.info = info

    @classmethod
    def load(
        cls,
        model_dir: Path,
        *,
        dtype: torch.dtype,
        device: torch.device,
        threads: int,
        cache_dir: Path,
        reason: str,
        on_progress: Progress,
    ) -> OnnxEncoder:
        """Export where needed, and open a session with `threads` CPU threads (0: torch's number).

        Raises `CheckpointError`, or `EngineUnavailable` for a device or format without support.
        """
        config = load_vision_config(model_dir)
        providers = _providers(device)
        path = export_cached(model_dir, cache_dir, dtype=dtype, on_progress=on_progress)
        session = open_session(path, providers, threads or torch.get_num_threads())
        info = EncoderInfo(
            engine=NAME,
            device=str(device),
            dtype=str(dtype).removeprefix("torch."),
            hidden_size=config.out_hidden_size,
            reason=reason,
        )
        return cls(session, config, info)

    @torch.inference_mode()
    def encode(self, patches: ImagePatches) -> VisionFeatures:
        """See `VisualEncoder.encode`."""
        check_patches(patches)
        started = time.perf_counter()
        inputs = model_inputs(patches.pixel_values, grid_tensors(patches.grid_thw, self._config))
        feed = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in inputs.items()}
        (embeddings,) = self._session.run([OUTPUT_NAME], feed)
        return VisionFeatures(
            embeddings=torch.from_numpy(embeddings),
            grid_thw=patches.grid_thw,
            engine=NAME,
            seconds=time.perf_counter() - started,
        )


def open_session(path: Path, providers: list[str], threads: int) -> onnxruntime.InferenceSession:
    """Open an exported file and check its names. Raises `VisualEncoderError` for a foreign one."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = ERRORS_ONLY
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # its exception types share no other base
        raise VisualEncoderError(
            f"ONNX Runtime cannot load {path}; delete {path.parent} to have it exported again: "
            f"{error}"
        ) from error
    found = ({item.name for item in session.get_inputs()}, [o.name for o in session.get_outputs()])
    if found != (set(INPUT_NAMES), [OUTPUT_NAME]):
        raise VisualEncoderError(
            f"{path} has the inputs {sorted(found[0])} and outputs {found[1]}, which are not those "
            f"of this version's export; delete {path.parent} to have it exported again."
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
