"""Choosing an engine, importing without side effects, and the cache of exported files."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.visual_encoder.conftest import TinyCheckpoint
from tests.visual_encoder.tiny_tower import edit_tensors, random_patches, reference_embeddings
from visual_encoder import (
    EngineUnavailable,
    VisualEncoderError,
    available_engines,
    choose_engine,
    create_encoder,
    export,
)
from visual_encoder.export import MODEL_FILE, cache_key, export_cached

CPU = torch.device("cpu")


@pytest.fixture
def without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> object:
        return None if name == "onnxruntime" else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find)


@pytest.fixture
def with_broken_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, package: str | None = None) -> object:
        raise ImportError(f"{name}: wrong CPU")

    monkeypatch.setattr(importlib, "import_module", refuse)


@pytest.fixture
def with_onnxruntime() -> None:
    pytest.importorskip("onnxruntime")


@pytest.mark.usefixtures("with_onnxruntime")
class TestChoice:
    def test_onnxruntime_is_the_default_on_a_cpu(self) -> None:
        choice = choose_engine("auto", None, CPU)
        assert (choice.engine, choice.dtype) == ("onnxruntime", torch.float32)
        assert choice.reason == "the default on a CPU"

    def test_torch_steps_in_for_bfloat16(self) -> None:
        choice = choose_engine("auto", torch.bfloat16, CPU)
        assert (choice.engine, choice.dtype) == ("torch", torch.bfloat16)
        assert "bfloat16" in choice.reason

    def test_onnxruntime_by_name_refuses_bfloat16(self) -> None:
        with pytest.raises(EngineUnavailable, match="cannot compute in bfloat16, choose"):
            choose_engine("onnxruntime", torch.bfloat16, CPU)


@pytest.mark.usefixtures("without_onnxruntime")
def test_a_missing_engine_is_listed_and_replaced_with_the_reason() -> None:
    missing = {status.name: status.missing for status in available_engines()}
    assert missing["torch"] is None
    assert missing["onnxruntime"] == "onnxruntime not installed: pip install onnxruntime"
    choice = choose_engine("auto", None, CPU)
    assert choice.engine == "torch"
    assert "pip install onnxruntime" in choice.reason
    with pytest.raises(EngineUnavailable, match="pip install onnxruntime"):
        choose_engine("onnxruntime", None, CPU)


@pytest.mark.usefixtures("with_onnxruntime", "with_broken_onnxruntime")
def test_an_engine_that_does_not_load_is_replaced_with_the_reason() -> None:
    choice = choose_engine("auto", None, CPU)
    assert choice.engine == "torch"
    assert choice.reason.endswith("does not load: onnxruntime: wrong CPU")


def test_torch_is_the_default_elsewhere() -> None:
    choice = choose_engine("auto", None, torch.device("cuda"))
    assert (choice.engine, choice.dtype) == ("torch", torch.bfloat16)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(EngineUnavailable, match="no CUDA device"):
        choose_engine("torch", None, torch.device("cuda"))


def test_an_unknown_engine_is_refused_with_the_known() -> None:
    with pytest.raises(EngineUnavailable, match="'tpu'; choose auto, onnxruntime or torch"):
        choose_engine("tpu", None, CPU)


def test_what_runs_and_why_is_logged(
    tiny: TinyCheckpoint, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "visual_encoder"):
        encoder = create_encoder("torch", tiny.directory, threads=1, cache_dir=tiny.cache_dir)
    assert "Visual engine torch on cpu in torch.float32: chosen by name." in caplog.messages
    assert encoder.info.reason == "chosen by name"


def test_importing_loads_no_engine_and_no_other_package() -> None:
    code = (
        "import sys, visual_encoder\n"
        "names = ('onnxruntime', 'onnx', 'onnxscript', 'tensorrt', 'gradio', 'vlm', 'eagle')\n"
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


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 2e-2), (torch.float16, 5e-3)])
def test_half_precision_stays_near(
    tiny: TinyCheckpoint, dtype: torch.dtype, tolerance: float
) -> None:
    encoder = create_encoder(
        "torch", tiny.directory, dtype=dtype, threads=1, cache_dir=tiny.cache_dir
    )
    patches = random_patches(((1, 16, 16), (1, 10, 14)))
    expected = reference_embeddings(tiny.tower, patches)
    error = (encoder.encode(patches).embeddings - expected).norm() / expected.norm()
    assert 0 < error < tolerance


@pytest.mark.usefixtures("with_onnxruntime")
class TestExportCache:
    def test_a_second_load_does_not_export_again(
        self, tiny: TinyCheckpoint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = export_cached(tiny.directory, tiny.cache_dir, dtype=torch.float32)
        monkeypatch.setattr(export, "export_tower", pytest.fail)
        messages: list[str] = []
        again = export_cached(
            tiny.directory, tiny.cache_dir, dtype=torch.float32, on_progress=messages.append
        )
        assert again == first
        assert messages == []

    def test_an_interrupted_export_leaves_nothing(
        self, tiny: TinyCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(tower: object, path: Path) -> None:
            path.write_bytes(b"half a file")
            raise KeyboardInterrupt

        monkeypatch.setattr(export, "export_tower", interrupt)
        with pytest.raises(KeyboardInterrupt):
            export_cached(tiny.directory, tmp_path, dtype=torch.float32)
        assert list(tmp_path.iterdir()) == []

    def test_two_exports_at_once_agree(
        self, tiny: TinyCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The other process finishes while this one is still writing."""

        def export_behind_another(tower: object, path: Path) -> None:
            winner = tmp_path / path.parent.name.removeprefix(".").rpartition("-")[0]
            winner.mkdir()
            (winner / MODEL_FILE).write_bytes(b"theirs")
            path.write_bytes(b"ours")

        monkeypatch.setattr(export, "export_tower", export_behind_another)
        path = export_cached(tiny.directory, tmp_path, dtype=torch.float32)
        assert path.read_bytes() == b"theirs"
        assert [entry.name for entry in tmp_path.iterdir()] == [path.parent.name]

    def test_progress_is_told(
        self, tiny: TinyCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(export, "export_tower", lambda tower, path: path.write_bytes(b""))
        messages: list[str] = []
        export_cached(tiny.directory, tmp_path, dtype=torch.float32, on_progress=messages.append)
        assert [message.split()[0] for message in messages] == ["Exporting", "Exported"]

    def test_the_key_follows_the_weights(self, tiny: TinyCheckpoint, checkpoint_copy: Path) -> None:
        before = cache_key(checkpoint_copy, torch.float32)
        assert before == cache_key(tiny.directory, torch.float32)
        assert before != cache_key(tiny.directory, torch.float16)

        def nudge(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            name = next(key for key in tensors if key.endswith("merger.mlp.2.bias"))
            return tensors | {name: tensors[name] + 1e-3}

        edit_tensors(checkpoint_copy, nudge)
        assert cache_key(checkpoint_copy, torch.float32) != before

    def test_the_key_ignores_other_parts_of_the_model(self, checkpoint_copy: Path) -> None:
        before = cache_key(checkpoint_copy, torch.float32)
        edit_tensors(
            checkpoint_copy,
            lambda tensors: {k: t + 1 if "visual" not in k else t for k, t in tensors.items()},
        )
        assert cache_key(checkpoint_copy, torch.float32) == before

    def test_a_damaged_file_says_what_to_delete(
        self, tiny: TinyCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(export, "export_tower", lambda tower, path: path.write_bytes(b"junk"))
        with pytest.raises(VisualEncoderError, match=f"delete {tmp_path}/onnx-"):
            create_encoder("onnxruntime", tiny.directory, threads=1, cache_dir=tmp_path)

    def test_a_foreign_file_says_what_to_delete(
        self, tiny: TinyCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from onnx import TensorProto, helper, save

        tensor = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
        node = helper.make_node("Identity", ["x"], ["y"])
        graph = helper.make_graph([node], "foreign", [tensor], [result])
        model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
        monkeypatch.setattr(export, "export_tower", lambda tower, path: save(model, path))
        with pytest.raises(VisualEncoderError, match=r"inputs \['x'\] .* delete"):
            create_encoder("onnxruntime", tiny.directory, threads=1, cache_dir=tmp_path)

    def test_half_precision_and_weights_beside_the_file(
        self, tiny: TinyCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The road of the 3B to 72B towers on a GPU, with the size threshold lowered."""
        monkeypatch.setattr(export, "EXTERNAL_DATA_BYTES", 0)
        encoder = create_encoder(
            "onnxruntime", tiny.directory, dtype=torch.float16, threads=1, cache_dir=tmp_path
        )
        (directory,) = tmp_path.iterdir()
        assert len(list(directory.iterdir())) == 2
        patches = random_patches(((1, 16, 16), (1, 10, 14)))
        expected = reference_embeddings(tiny.tower, patches)
        error = (encoder.encode(patches).embeddings - expected).norm() / expected.norm()
        assert encoder.info.dtype == "float16"
        assert 0 < error < 5e-3
