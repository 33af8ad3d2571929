"""Choosing an engine, saying why, and importing without side effects."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.visual_encoder.conftest import CPU, TinyCheckpoint, skip_where_missing
from tests.visual_encoder.tiny_tower import random_patches, reference_embeddings
from visual_encoder import (
    EngineBuildFailed,
    EngineUnavailable,
    choose_engines,
    create_encoder,
    engines,
    missing_engines,
)
from visual_encoder.engines import speed_order

PACKAGES = ("onnx", "onnxscript", "onnxruntime", "openvino", "tensorrt", "tensorrt_rtx")


class Installation:
    """Which packages there are, as far as choosing an engine can tell."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.installed = {"onnx", "onnxscript", "onnxruntime", "openvino"}
        self.broken: set[str] = set()
        self.imported: list[str] = []
        find_spec, import_module = importlib.util.find_spec, importlib.import_module

        def find(name: str, package: str | None = None) -> object:
            return name in self.installed or None if name in PACKAGES else find_spec(name, package)

        def load(name: str, package: str | None = None) -> object:
            if name in PACKAGES:
                self.imported.append(name)
                if name in self.broken:
                    raise ImportError("wrong CPU")
                return None
            return import_module(name, package)

        monkeypatch.setattr(importlib.util, "find_spec", find)
        monkeypatch.setattr(importlib, "import_module", load)

    def bfloat16(self, monkeypatch: pytest.MonkeyPatch, native: bool) -> None:
        monkeypatch.setattr(engines, "cpu_has_bfloat16", lambda: native)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Installation:
    installation = Installation(monkeypatch)
    installation.bfloat16(monkeypatch, native=True)
    return installation


def names(engine: str = "auto", dtype: torch.dtype | None = None) -> list[str]:
    return [choice.engine for choice in choose_engines(engine, dtype, CPU)]


@pytest.mark.usefixtures("here")
class TestChoice:
    def test_openvino_in_bfloat16_is_fastest_on_a_cpu_that_has_it(self) -> None:
        choice = next(choose_engines("auto", None, CPU))
        assert (choice.engine, choice.dtype) == ("openvino", torch.bfloat16)
        assert choice.reason == "the fastest on a CPU that is here"

    def test_float32_where_the_cpu_has_no_bfloat16(
        self, here: Installation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here.bfloat16(monkeypatch, native=False)
        choices = list(choose_engines("auto", None, CPU))
        assert {choice.dtype for choice in choices} == {torch.float32}
        assert names() == ["openvino", "onnxruntime", "torch"]

    def test_what_is_slower_is_not_even_imported(self, here: Installation) -> None:
        next(choose_engines("auto", None, CPU))
        assert here.imported == ["openvino"]

    def test_a_missing_engine_is_passed_over_and_named(self, here: Installation) -> None:
        here.installed.remove("openvino")
        choice = next(choose_engines("auto", None, CPU))
        assert (choice.engine, choice.dtype) == ("torch", torch.bfloat16)
        assert choice.reason == (
            "the fastest on a CPU that is here; openvino cannot be used: openvino is not "
            "installed: pip install openvino"
        )

    def test_an_engine_that_does_not_load_is_passed_over(self, here: Installation) -> None:
        here.broken.add("openvino")
        choice = next(choose_engines("auto", None, CPU))
        assert choice.engine == "torch"
        assert choice.reason.endswith("openvino is installed but does not load: wrong CPU")

    def test_without_the_exporter_only_torch_is_left(self, here: Installation) -> None:
        here.installed.remove("onnxscript")
        assert names() == ["torch"]
        with pytest.raises(EngineUnavailable, match="onnxscript not installed: pip install"):
            names("onnxruntime")

    @pytest.mark.parametrize(
        ("engine", "dtype", "complaint"),
        [
            ("onnxruntime", torch.bfloat16, "cannot compute in bfloat16, choose float32"),
            ("openvino", torch.float16, "cannot compute in float16 on a CPU, choose float32"),
            ("tensorrt", torch.float32, "it needs an NVIDIA GPU"),
            ("tpu", None, "'tpu'; choose auto, tensorrt, openvino, onnxruntime or torch"),
        ],
    )
    def test_by_name_what_cannot_run_is_refused(
        self, engine: str, dtype: torch.dtype | None, complaint: str
    ) -> None:
        with pytest.raises(EngineUnavailable, match=complaint):
            names(engine, dtype)

    def test_emulated_bfloat16_is_refused_for_openvino(
        self, here: Installation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here.bfloat16(monkeypatch, native=False)
        with pytest.raises(EngineUnavailable, match="does not multiply bfloat16 natively"):
            names("openvino", torch.bfloat16)
        assert names("auto", torch.bfloat16) == ["torch"]

    def test_missing_engines_are_listed_with_what_to_install(self, here: Installation) -> None:
        assert missing_engines(CPU) == {"tensorrt": "it needs an NVIDIA GPU"}
        here.installed.clear()
        missing = missing_engines(CPU)
        assert missing["openvino"] == "openvino is not installed: pip install openvino"
        assert missing.keys() == {"tensorrt", "openvino", "onnxruntime"}
        assert here.imported == []

    def test_a_gpu_prefers_tensorrt(
        self, here: Installation, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        cuda = torch.device("cuda")
        assert missing_engines(cuda)["tensorrt"].startswith("no TensorRT is installed: pip install")
        here.installed.add("tensorrt_rtx")
        assert [choice.engine for choice in choose_engines("auto", None, cuda)] == [
            "tensorrt",
            "torch",
        ]


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("device", [CPU, torch.device("cuda")], ids=str)
def test_torch_is_in_every_order_and_a_wanted_format_is_kept(
    dtype: torch.dtype | None, device: torch.device
) -> None:
    order = speed_order(dtype, device)
    assert "torch" in [engine for engine, _ in order]
    if dtype is not None:
        assert {wanted for _, wanted in order} == {dtype}


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(EngineUnavailable, match="no CUDA device"):
        next(choose_engines("torch", None, torch.device("cuda")))


def test_what_runs_and_why_and_what_is_missing_is_told(tiny: TinyCheckpoint) -> None:
    messages: list[str] = []
    encoder = create_encoder(
        "auto", tiny.directory, cache_dir=tiny.cache_dir, on_progress=messages.append
    )
    info = encoder.info
    assert f"Visual engine {info.engine} in {info.dtype}: {info.reason}." in messages
    assert "Visual engine tensorrt is not there: it needs an NVIDIA GPU." in messages
    assert info.reason.startswith("the fastest on a CPU that is here")


@pytest.mark.parametrize("error", [EngineUnavailable, EngineBuildFailed])
def test_auto_falls_back_when_an_engine_fails_to_load(
    tiny: TinyCheckpoint,
    monkeypatch: pytest.MonkeyPatch,
    error: type[Exception],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error("The plan is for another planet.")

    monkeypatch.setattr(engines, "build_cached", fail)
    monkeypatch.setattr(
        engines,
        "speed_order",
        lambda *_: (("onnxruntime", torch.float32), ("torch", torch.float32)),
    )
    encoder = create_encoder("auto", tiny.directory, cache_dir=tiny.cache_dir)
    assert encoder.name == "torch"
    assert encoder.info.reason.endswith("; The plan is for another planet")
    with pytest.raises(error, match="another planet"):
        create_encoder("onnxruntime", tiny.directory, cache_dir=tiny.cache_dir)


def test_importing_loads_no_engine_and_no_other_package() -> None:
    code = (
        "import sys, visual_encoder\n"
        "names = ('onnxruntime', 'openvino', 'onnx', 'onnxscript', 'tensorrt', 'tensorrt_rtx',\n"
        "         'gradio', 'vlm', 'eagle')\n"
        "print([name for name in names if name in sys.modules])"
    )
    root = Path(__file__).parents[2]
    output = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
    )
    assert output.stdout.strip() == "[]"


def test_openvino_is_kept_from_reporting_itself(tiny: TinyCheckpoint) -> None:
    """`import openvino` alone sends an event to Google Analytics; this program sends nothing."""
    skip_where_missing("openvino")
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from visual_encoder import create_encoder\n"
        "create_encoder('openvino', Path(sys.argv[1]), cache_dir=Path(sys.argv[2]))\n"
        "assert 'openvino' in sys.modules\n"
        "assert not [name for name in sys.modules if name.startswith('openvino_telemetry.')]\n"
    )
    root = Path(__file__).parents[2]
    words = [sys.executable, "-c", code, tiny.directory, tiny.cache_dir]
    subprocess.run(words, check=True, cwd=root)


def test_float16_stays_near(tiny: TinyCheckpoint) -> None:
    encoder = create_encoder(
        "torch", tiny.directory, dtype=torch.float16, threads=1, cache_dir=tiny.cache_dir
    )
    patches = random_patches(((1, 16, 16), (1, 10, 14)))
    expected = reference_embeddings(tiny.tower, patches)
    error = (encoder.encode(patches).embeddings - expected).norm() / expected.norm()
    assert 0 < error < 5e-3
