"""Running a plan: against a fake of TensorRT's interface, and for real where there is a GPU."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.visual_encoder import fake_tensorrt
from tests.visual_encoder.conftest import CPU, TinyCheckpoint
from tests.visual_encoder.fake_tensorrt import FakeTensorRT, fake_stream
from tests.visual_encoder.tiny_tower import REQUESTS, random_patches, reference_embeddings
from visual_encoder import (
    EngineUnavailable,
    ImageRefused,
    ImageTokenLimits,
    VisualEncoderError,
    create_encoder,
    load_tower,
    tensorrt_builder,
    tensorrt_engine,
)
from visual_encoder.engines import obstacle_of
from visual_encoder.exported_encoder import ExportedEncoder
from visual_encoder.onnx_graph import INPUT_NAMES, ExportableTower
from visual_encoder.tensorrt_builder import PlanBuilder, import_tensorrt
from visual_encoder.tensorrt_engine import PLAN_FILE, PlanRunner, TensorRTBackend
from visual_encoder.types import EncoderInfo

LIMITS = ImageTokenLimits(1, 1024, 1024)
CUDA = torch.device("cuda")


class Plan:
    """A plan file, the fake that runs it, and the encoder over both."""

    def __init__(self, tiny: TinyCheckpoint, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tower = load_tower(tiny.directory, dtype=torch.float32, device=CPU)
        self.path = folder / PLAN_FILE
        self.path.write_bytes(b"a plan")
        self.trt = FakeTensorRT(ExportableTower(self.tower))
        monkeypatch.setattr(tensorrt_engine, "new_stream", lambda _: fake_stream(self.trt.calls))
        monkeypatch.setattr(tensorrt_engine, "current_stream", lambda _: None)

    def encoder(self) -> ExportedEncoder:
        info = EncoderInfo("tensorrt", "cuda", "float32", 48, "a test")
        runner = PlanRunner(self.trt, self.path, CPU)
        return ExportedEncoder(runner, self.tower.config, info, LIMITS)


@pytest.fixture
def plan(tiny: TinyCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    return Plan(tiny, tmp_path, monkeypatch)


def test_the_plans_output_reaches_the_caller(plan: Plan, tiny: TinyCheckpoint) -> None:
    encoder = plan.encoder()
    for grids in REQUESTS[::5]:
        patches = random_patches(grids)
        expected = reference_embeddings(tiny.tower, patches)
        assert (encoder.encode(patches).embeddings - expected).abs().max() < 1e-4


def test_calls_come_in_the_order_that_the_interface_asks_for(plan: Plan) -> None:
    encoder = plan.encoder()
    assert plan.trt.calls == ["deserialize_cuda_engine", "create_execution_context"]
    plan.trt.calls.clear()
    encoder.encode(random_patches(((1, 4, 6), (1, 8, 8))))
    inputs = ["set_input_shape", "set_tensor_address"] * len(INPUT_NAMES)
    output = ["infer_shapes", "set_tensor_address"]
    run = ["wait_stream", "execute_async_v3", "synchronize"]
    assert plan.trt.calls == [*inputs, *output, *run]


def test_a_later_request_does_not_touch_an_earlier_answer(plan: Plan) -> None:
    encoder = plan.encoder()
    first = encoder.encode(random_patches(((1, 4, 6),))).embeddings
    before = first.clone()
    encoder.encode(random_patches(((1, 4, 6),), seed=1))
    assert torch.equal(first, before)


@pytest.mark.parametrize("call", ["deserialize_cuda_engine", "create_execution_context"])
def test_a_plan_that_does_not_load_makes_the_engine_unavailable(plan: Plan, call: str) -> None:
    """`auto` then goes on to the next engine."""
    plan.trt.fail = call
    with pytest.raises(EngineUnavailable, match=rf"TensorRT .*engine\.plan: {call}: out of luck$"):
        plan.encoder()


@pytest.mark.parametrize(
    "call", ["set_input_shape", "set_tensor_address", "infer_shapes", "execute_async_v3"]
)
def test_a_call_that_fails_is_one_error_with_the_loggers_words(plan: Plan, call: str) -> None:
    encoder = plan.encoder()
    plan.trt.fail = call
    with pytest.raises(VisualEncoderError, match=f"TensorRT .*: {call}: out of luck$"):
        encoder.encode(random_patches(((1, 4, 6),)))


def test_a_failure_without_a_reason_says_so(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = plan.encoder()
    monkeypatch.setattr(fake_tensorrt.Context, "infer_shapes", lambda _: ["x"])
    with pytest.raises(VisualEncoderError, match="shape of x: it gave no reason"):
        encoder.encode(random_patches(((1, 4, 6),)))


def test_an_input_of_another_type_is_refused(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fake_tensorrt.INPUT_TYPES, "window_index", FakeTensorRT.DataType.INT32)
    with pytest.raises(VisualEncoderError, match=r"'window_index' is not torch\.int64"):
        plan.encoder().encode(random_patches(((1, 4, 6),)))


def test_the_budget_is_judged_before_the_plan_runs(plan: Plan) -> None:
    encoder = plan.encoder()
    plan.trt.calls.clear()
    with pytest.raises(ImageRefused, match=r"1056 image tokens.*at most 1024"):
        encoder.encode(random_patches(((1, 64, 66),)))
    assert plan.trt.calls == []


class TestPackage:
    def test_tensorrt_is_preferred_to_rtx(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[str] = []
        monkeypatch.setattr("importlib.import_module", lambda name: asked.append(name) or name)
        assert import_tensorrt() == "tensorrt"
        assert asked == ["tensorrt"]

    def test_rtx_steps_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def load(name: str) -> str:
            if name == "tensorrt":
                raise ImportError("libnvinfer.so.11: cannot open shared object file")
            return name

        monkeypatch.setattr("importlib.import_module", load)
        assert import_tensorrt() == "tensorrt_rtx"

    def test_neither_is_a_sentence_with_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def load(name: str) -> None:
            raise ImportError(f"No module named {name!r}")

        monkeypatch.setattr("importlib.import_module", load)
        with pytest.raises(EngineUnavailable) as refused:
            TensorRTBackend()
        assert "tensorrt: No module named 'tensorrt'; tensorrt_rtx: No" in str(refused.value)
        assert str(refused.value).endswith(f"{tensorrt_builder.INSTALL_HINT}.")

    @pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
    def test_full_tensorrt_builds_for_the_gpu_it_finds(
        self, plan: Plan, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tensorrt_engine, "import_tensorrt", lambda: plan.trt)
        with pytest.raises(EngineUnavailable, match="this machine has none; tensorrt-rtx builds"):
            TensorRTBackend().identity(CPU)

    def test_a_plan_of_full_tensorrt_is_tied_to_the_gpu(
        self, plan: Plan, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tensorrt_engine, "import_tensorrt", lambda: plan.trt)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA A100")
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
        identity = TensorRTBackend().identity(CPU)
        assert identity.package == "tensorrt"
        assert identity.device == "NVIDIA A100 (compute capability 8.0)"


class FakeConfig:
    """A builder's configuration, as far as timing caches go."""

    def __init__(self, accepts: bytes | None = None) -> None:
        self.accepts = accepts
        self.cache: bytes | None = None

    def create_timing_cache(self, content: bytes) -> bytes:
        return content

    def set_timing_cache(self, cache: bytes, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        if cache and cache != self.accepts:
            return False
        self.cache = cache
        return True

    def get_timing_cache(self) -> Any:
        return self

    def serialize(self) -> bytes:
        return b"new timings"


class TestTimingCache:
    def builder(self, name: str, config: FakeConfig) -> PlanBuilder:
        builder = object.__new__(PlanBuilder)
        builder._trt = type("trt", (), {"__name__": name})()
        builder._config = config
        return builder

    def test_timings_are_kept_for_the_next_build(self, tmp_path: Path) -> None:
        path = tmp_path / "cache" / "timings"
        first = self.builder("tensorrt", FakeConfig())
        first.use_timing_cache(path)
        assert first._config.cache == b""
        first.save_timing_cache(path)
        assert [entry.name for entry in path.parent.iterdir()] == ["timings"]
        second = self.builder("tensorrt", FakeConfig(accepts=b"new timings"))
        second.use_timing_cache(path)
        assert second._config.cache == b"new timings"

    def test_timings_of_another_gpu_are_not_used(self, tmp_path: Path) -> None:
        path = tmp_path / "timings"
        path.write_bytes(b"of another GPU")
        builder = self.builder("tensorrt", FakeConfig())
        builder.use_timing_cache(path)
        assert builder._config.cache == b""

    def test_rtx_is_not_asked(self, tmp_path: Path) -> None:
        builder = self.builder("tensorrt_rtx", FakeConfig())
        builder.use_timing_cache(tmp_path / "timings")
        builder.save_timing_cache(tmp_path / "timings")
        assert builder._config.cache is None
        assert list(tmp_path.iterdir()) == []


@pytest.mark.tensorrt
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_real_plan_equals_transformers(
    tiny: TinyCheckpoint, dtype: torch.dtype, caplog: pytest.LogCaptureFixture
) -> None:
    """On a machine with an NVIDIA GPU and TensorRT; elsewhere it says what is missing."""
    obstacle = obstacle_of("tensorrt", dtype, CUDA)
    if obstacle is not None:
        pytest.skip(obstacle)
    caplog.set_level(logging.INFO)
    try:
        encoder = create_encoder(
            "tensorrt",
            tiny.directory,
            dtype=dtype,
            device=CUDA,
            cache_dir=tiny.cache_dir,
            limits=LIMITS,
        )
    except EngineUnavailable as error:
        pytest.skip(f"this GPU cannot run the plan: {error}")
    for grids in REQUESTS:
        patches = random_patches(grids)
        if sum(patches.num_image_tokens) > LIMITS.max_image_tokens:
            continue
        expected = reference_embeddings(tiny.tower, patches)
        error = (encoder.encode(patches).embeddings.cpu() - expected).norm() / expected.norm()
        assert error < {torch.float32: 1e-3, torch.float16: 5e-3, torch.bfloat16: 2e-2}[dtype]
