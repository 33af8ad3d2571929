"""Exporting a tower: whole or not at all, known by what it depends on, one weight at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.visual_encoder.conftest import TinyCheckpoint, skip_where_missing
from tests.visual_encoder.tiny_tower import (
    VISION,
    edit_tensors,
    random_patches,
    reference_embeddings,
)
from visual_encoder import VisualEncoderError, create_encoder, export, onnx_graph
from visual_encoder.checkpoint import TowerTensors
from visual_encoder.export import (
    CONFIG_FILE,
    ExportedTower,
    cache_key,
    check_unchanged,
    export_cached,
    export_tower,
    read_export,
)
from visual_encoder.onnx_graph import LazyWeights


@pytest.fixture(scope="module")
def exported(tiny: TinyCheckpoint) -> ExportedTower:
    return export_cached(tiny.directory, tiny.cache_dir, dtype=torch.float32)


def write_instead(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Have a few bytes written in place of a graph."""

    def write(tensors: TowerTensors, dtype: torch.dtype, path: Path, **_: object) -> None:
        path.write_bytes(content)

    monkeypatch.setattr(export, "write_onnx", write)


def test_config_json_has_what_an_engine_needs(exported: ExportedTower) -> None:
    content = json.loads((exported.directory / CONFIG_FILE).read_text(encoding="utf-8"))
    assert content["inputs"][0] == "pixel_values"
    assert content["output"] == "embeddings"
    assert content["dtype"] == exported.dtype == "float32"
    assert content["vision_config"]["hidden_size"] == VISION["hidden_size"]
    assert content["onnx_sha256"] == exported.onnx_sha256 == export.hash_onnx(exported.model_path)
    assert content["packages"].keys() == {"torch", "onnx", "onnxscript"}
    check_unchanged(exported)


def test_the_graph_is_one_for_every_size_and_holds_finite_masks(exported: ExportedTower) -> None:
    import onnx

    model = onnx.load(exported.model_path)
    onnx.checker.check_model(model, full_check=True)
    axes = {
        item.name: [d.dim_param or d.dim_value for d in item.type.tensor_type.shape.dim]
        for item in model.graph.input
    }
    assert axes["pixel_values"] == ["4*tokens", 1176]
    assert axes["window_index"] == ["tokens"]
    assert axes["window_gather"] == ["windows", 64]
    kinds = {node.op_type for node in model.graph.node}
    assert not kinds & {"If", "Loop", "Scan", "NonZero", "IsNaN"}
    constants = [onnx.numpy_helper.to_array(item) for item in model.graph.initializer]
    floats = [values for values in constants if values.dtype.kind == "f"]
    assert all(abs(values).max() < 1e5 for values in floats)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_norms_and_rotary_angles_stay_in_float32(tiny: TinyCheckpoint, dtype: torch.dtype) -> None:
    import onnx

    exported = export_cached(tiny.directory, tiny.cache_dir, dtype=dtype)
    model = onnx.shape_inference.infer_shapes(onnx.load(exported.model_path))
    types = {
        value.name: value.type.tensor_type.elem_type
        for value in (*model.graph.value_info, *model.graph.input, *model.graph.output)
    }
    wide = onnx.TensorProto.FLOAT
    assert all(types[name] == wide for name in ("pixel_values", "cos", "sin", "embeddings"))
    roots = [node for node in model.graph.node if node.op_type in ("Sqrt", "ReduceMean")]
    turned = [node for node in model.graph.node if node.op_type == "Sub"]
    assert roots
    assert turned
    assert all(types[node.output[0]] == wide for node in (*roots, *turned))
    halves = [types[n.output[0]] for n in model.graph.node if n.op_type in ("MatMul", "Gemm")]
    narrow = {torch.float16: onnx.TensorProto.FLOAT16, torch.bfloat16: onnx.TensorProto.BFLOAT16}
    assert set(halves) == {narrow[dtype]}


def test_a_second_load_does_not_export_again(
    tiny: TinyCheckpoint, exported: ExportedTower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "write_onnx", pytest.fail)
    messages: list[str] = []
    again = export_cached(
        tiny.directory, tiny.cache_dir, dtype=torch.float32, on_progress=messages.append
    )
    assert again == exported
    assert messages == []


def test_an_interrupted_export_leaves_nothing(
    tiny: TinyCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(tensors: TowerTensors, dtype: torch.dtype, path: Path, **_: object) -> None:
        path.write_bytes(b"half a file")
        raise KeyboardInterrupt

    monkeypatch.setattr(export, "write_onnx", interrupt)
    with pytest.raises(KeyboardInterrupt):
        export_cached(tiny.directory, tmp_path, dtype=torch.float32)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_export_left_is_removed_by_the_next(
    tiny: TinyCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process killed outright cannot tidy up after itself."""
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from visual_encoder.atomic_folder import appearing_whole\n"
        "with appearing_whole(Path(sys.argv[1])) as unfinished:\n"
        "    (unfinished / 'model.onnx').write_bytes(b'half a file')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    wanted = tmp_path / "exported"
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", code, wanted], cwd=root, check=False)
    assert killed.returncode == -9
    assert not wanted.exists()
    assert len(list(tmp_path.iterdir())) == 1
    write_instead(monkeypatch, b"")
    export_tower(tiny.directory, wanted, dtype=torch.float32)
    assert list(tmp_path.iterdir()) == [wanted]


def test_two_exports_at_once_agree(
    tiny: TinyCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process finishes while this one is still writing."""
    content = b"theirs"

    def write_behind_another(
        tensors: TowerTensors, dtype: torch.dtype, path: Path, **_: object
    ) -> None:
        nonlocal content
        path.write_bytes(content)
        if content == b"theirs":
            content = b"ours"
            path.write_bytes(b"theirs")
            export_cached(tiny.directory, tmp_path, dtype=torch.float32)

    monkeypatch.setattr(export, "write_onnx", write_behind_another)
    exported = export_cached(tiny.directory, tmp_path, dtype=torch.float32)
    assert exported.model_path.read_bytes() == b"ours"  # the inner call's, which was first
    assert list(tmp_path.iterdir()) == [exported.directory]
    check_unchanged(exported)


def test_progress_is_told(
    tiny: TinyCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_instead(monkeypatch, b"")
    messages: list[str] = []
    export_cached(tiny.directory, tmp_path, dtype=torch.float32, on_progress=messages.append)
    assert [message.split()[0] for message in messages] == ["Exporting", "Exported"]


def test_weights_are_read_one_at_a_time_and_big_ones_with_progress(
    tiny: TinyCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = TowerTensors(tiny.directory)
    num_values = sum(tensors.read(name).numel() for name in tensors)
    messages: list[str] = []
    weights = LazyWeights(tensors, torch.float32, messages.append)
    monkeypatch.setattr(onnx_graph, "BIG_TOWER_BYTES", 0)
    reads: list[str] = []
    read = tensors.read
    monkeypatch.setattr(tensors, "read", lambda name: reads.append(name) or read(name))
    weights.start(num_values)
    lazy = {name: weights.lazy(f"tower.{name}", traced(read(name))) for name in tensors}
    assert reads == []
    for tensor in lazy.values():
        tensor.tobytes()
    assert sorted(reads) == sorted(tensors)
    assert messages[-1] == f"Writing weights: 100 % of {num_values * 4 / 1e6:.0f} MB"
    assert 2 <= len(messages) <= 10


def traced(tensor: torch.Tensor) -> object:
    """What the exporter knows of a weight: type and shape."""
    from onnx_ir.tensor_adapters import TorchTensor

    return TorchTensor(tensor)


def test_the_key_follows_the_weights(tiny: TinyCheckpoint, checkpoint_copy: Path) -> None:
    before = cache_key(checkpoint_copy, torch.float32)
    assert before == cache_key(tiny.directory, torch.float32)
    assert before != cache_key(tiny.directory, torch.float16)

    def nudge(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        name = next(key for key in tensors if key.endswith("merger.mlp.2.bias"))
        return tensors | {name: tensors[name] + 1e-3}

    edit_tensors(checkpoint_copy, nudge)
    assert cache_key(checkpoint_copy, torch.float32) != before


def test_the_key_ignores_other_parts_of_the_model(checkpoint_copy: Path) -> None:
    before = cache_key(checkpoint_copy, torch.float32)
    edit_tensors(
        checkpoint_copy,
        lambda tensors: {k: t + 1 if "visual" not in k else t for k, t in tensors.items()},
    )
    assert cache_key(checkpoint_copy, torch.float32) == before


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "FileNotFoundError"),
        ("{}", "KeyError: 'export_version'"),
        ("[", "JSONDecodeError"),
        ('{"export_version": 1}', "version 1, and this program reads version 2"),
        ('{"export_version": 2, "vision_config": {"depth": 4}}', "lacks the field"),
    ],
)
def test_a_foreign_folder_is_refused_with_the_command_that_exports(
    tmp_path: Path, content: str | None, complaint: str
) -> None:
    if content is not None:
        (tmp_path / CONFIG_FILE).write_text(content)
    with pytest.raises(VisualEncoderError, match=f"{complaint}.*python -m visual_encoder export"):
        read_export(tmp_path)


def test_a_changed_graph_is_noticed(
    tiny: TinyCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_instead(monkeypatch, b"a graph")
    exported = export_tower(tiny.directory, tmp_path / "exported", dtype=torch.float32)
    exported.model_path.write_bytes(b"another")
    with pytest.raises(VisualEncoderError, match=r"model\.onnx is damaged"):
        check_unchanged(exported)
    exported.model_path.unlink()
    with pytest.raises(VisualEncoderError, match=r"has no model\.onnx: export it again"):
        check_unchanged(exported)


def test_half_precision_and_weights_beside_the_file(
    tiny: TinyCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The road of the 3B to 72B towers on a GPU, with the size threshold lowered."""
    skip_where_missing("onnxruntime", torch.float16)
    monkeypatch.setattr(onnx_graph, "EXTERNAL_DATA_BYTES", 0)
    encoder = create_encoder(
        "onnxruntime", tiny.directory, dtype=torch.float16, threads=1, cache_dir=tmp_path
    )
    files = {path.name for path in tmp_path.glob("*/*")}
    assert files >= {"model.onnx.data", "optimized.onnx.data"}
    patches = random_patches(((1, 16, 16), (1, 10, 14)))
    expected = reference_embeddings(tiny.tower, patches)
    error = (encoder.encode(patches).embeddings - expected).norm() / expected.norm()
    assert encoder.info.dtype == "float16"
    assert 0 < error < 5e-3
