"""Building a TensorRT plan: parse, profile, build; every complaint of the log in the error.

TensorRT reports failure as None, False or -1 and says why in its logger only, so the logger here
collects. Works with `tensorrt` and `tensorrt_rtx`, which share this part of their interface; the
module is handed in. No GPU is needed for tensorrt_rtx.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from visual_encoder.errors import EngineBuildFailed, EngineUnavailable
from visual_encoder.tensorrt_profile import InputShapes
from visual_encoder.vendors import import_vendor

PACKAGES = ("tensorrt", "tensorrt_rtx")  # in order of preference
INSTALL_HINT = (
    "pip install tensorrt-rtx==1.7.1.116 (RTX GPUs), or tensorrt from NVIDIA's package index "
    "(see requirements-gpu.txt)"
)


def import_tensorrt() -> Any:
    """The first TensorRT package that loads. Raises `EngineUnavailable` with each one's reason."""
    reasons = []
    for name in PACKAGES:
        try:
            return import_vendor(name)
        except (ImportError, OSError) as error:
            reasons.append(f"{name}: {error}")
    raise EngineUnavailable(f"No TensorRT loads ({'; '.join(reasons)}): {INSTALL_HINT}.")


def collecting_logger(trt: Any) -> Any:
    """A logger whose `complaints` are the errors since it was made."""

    class CollectingLogger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.complaints: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity in (trt.ILogger.INTERNAL_ERROR, trt.ILogger.ERROR):
                self.complaints.append(message.strip())

    return CollectingLogger()


class PlanBuilder:
    """One network on its way to a plan; `complaints` is everything its logger heard."""

    def __init__(self, trt: Any) -> None:
        self._trt = trt
        self._logger = collecting_logger(trt)
        self._builder = trt.Builder(self._logger)
        self._network = self._builder.create_network(network_flags(trt))
        self._config = self._builder.create_builder_config()

    def parse(self, path: Path) -> None:
        """Read the ONNX file with the weights beside it. Raises `EngineBuildFailed`."""
        parser = self._trt.OnnxParser(self._network, self._logger)
        if not parser.parse_from_file(str(path)):
            details = [parser.get_error(index).desc() for index in range(parser.num_errors)]
            raise self._failure(f"cannot read {path}", details)

    def input_names(self) -> tuple[str, ...]:
        """Names of the parsed network's inputs."""
        network = self._network
        return tuple(network.get_input(index).name for index in range(network.num_inputs))

    def add_profile(self, shapes: Sequence[InputShapes]) -> None:
        """Say which shapes the plan must accept. Raises `EngineBuildFailed`."""
        names = self.input_names()
        unknown = [item.name for item in shapes if item.name not in names]
        if unknown:
            raise self._failure(f"has no input '{unknown[0]}' but {', '.join(names)}", [])
        profile = self._builder.create_optimization_profile()
        for item in shapes:
            try:
                profile.set_shape(item.name, item.smallest, item.typical, item.largest)
            except (RuntimeError, ValueError) as error:
                raise self._refused_shapes(item) from error
            if not profile:
                raise self._refused_shapes(item)
        if self._config.add_optimization_profile(profile) < 0:
            raise self._failure("refuses the optimization profile", [])

    def use_timing_cache(self, path: Path) -> None:
        """Start from the timings of earlier builds. tensorrt_rtx keeps none and is not asked."""
        if not keeps_timings(self._trt):
            return
        content = path.read_bytes() if path.exists() else b""
        cache = self._config.create_timing_cache(content)
        # Timings of another GPU or version are refused; then this build starts without any.
        if not self._config.set_timing_cache(cache, ignore_mismatch=False):
            empty = self._config.create_timing_cache(b"")
            self._config.set_timing_cache(empty, ignore_mismatch=False)

    def build(self) -> memoryview:
        """The plan's bytes. Raises `EngineBuildFailed` with the builder's own words."""
        plan = self._builder.build_serialized_network(self._network, self._config)
        if plan is None:
            raise self._failure("builds no plan", [])
        return memoryview(plan)

    def save_timing_cache(self, path: Path) -> None:
        """Keep this build's timings for the next; a file that appears whole."""
        if not keeps_timings(self._trt):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.new")
        unfinished.write_bytes(memoryview(self._config.get_timing_cache().serialize()))
        unfinished.replace(path)

    def _refused_shapes(self, item: InputShapes) -> EngineBuildFailed:
        return self._failure(
            f"refuses the shapes {item.smallest} to {item.largest}, typically {item.typical}, of "
            f"the input '{item.name}' (each axis needs smallest <= typical <= largest)",
            [],
        )

    def _failure(self, what: str, details: Sequence[str]) -> EngineBuildFailed:
        words = list(dict.fromkeys([*details, *self._logger.complaints])) or ["it gave no reason"]
        package = f"{self._trt.__name__} {self._trt.__version__}"
        return EngineBuildFailed(f"{package} {what}: {' | '.join(words)}")


def network_flags(trt: Any) -> int:
    """Strongly typed: the number formats are those of the graph. TensorRT 11 knows nothing else."""
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if flag is None else 1 << int(flag)


def keeps_timings(trt: Any) -> bool:
    """tensorrt_rtx deprecates timing caches: it compiles kernels when a plan is loaded."""
    return bool(trt.__name__ == "tensorrt")
