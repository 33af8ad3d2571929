"""Built engines: found again by what they depend on, whole or absent, refused when outdated."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.visual_encoder.conftest import CPU, TinyCheckpoint, skip_where_missing
from tests.visual_encoder.tiny_tower import edit_tensors, random_patches
from visual_encoder import (
    EngineOutdated,
    EngineUnavailable,
    ImageRefused,
    ImageTokenLimits,
    InvalidLimits,
    VisualEncoderError,
    build,
    create_encoder,
    open_built,
)
from visual_encoder.__main__ import main
from visual_encoder.build import backend_of, build_cached, build_engine, open_engine
from visual_encoder.engine_files import (
    ENGINE_FILE,
    BuiltEngine,
    EngineOrder,
    read_engine_file,
    rebuild_command,
)
from visual_encoder.export import ExportedTower, export_cached

LIMITS = ImageTokenLimits(4, 64, 32)


def silent(message: str) -> None:
    pass


@pytest.fixture(params=["onnxruntime", "openvino"])
def engine(request: pytest.FixtureRequest) -> str:
    skip_where_missing(request.param)
    name: str = request.param
    return name


@pytest.fixture
def exported(tiny: TinyCheckpoint) -> ExportedTower:
    return export_cached(tiny.directory, tiny.cache_dir, dtype=torch.float32)


def order_for(engine: str, limits: ImageTokenLimits | None = None) -> EngineOrder:
    return EngineOrder(engine, "float32", CPU, limits)


def build_in(directory: Path, exported: ExportedTower, order: EngineOrder) -> BuiltEngine:
    return build_engine(
        exported, directory, order, timing_cache=directory / "timings", on_progress=silent
    )


def change_engine_file(directory: Path, **values: object) -> None:
    path = directory / ENGINE_FILE
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values))


class TestCache:
    def test_a_second_start_builds_nothing(
        self, exported: ExportedTower, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = build_cached(exported, tmp_path, order_for(engine), on_progress=silent)
        monkeypatch.setattr(build, "build_engine", pytest.fail)
        assert build_cached(exported, tmp_path, order_for(engine), on_progress=silent) == first

    def test_whatever_an_engine_depends_on_is_in_its_key(
        self, exported: ExportedTower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        skip_where_missing("onnxruntime")
        order = order_for("onnxruntime")
        asked: list[Path] = []

        def note(_: object, directory: Path, *__: object, **___: object) -> None:
            asked.append(directory)

        monkeypatch.setattr(build, "build_engine", note)
        here = backend_of("onnxruntime").identity(CPU)
        variants = [
            (exported, order, here),
            (replace(exported, onnx_sha256="other"), order, here),
            (exported, replace(order, dtype="float16"), here),
            (exported, replace(order, limits=LIMITS), here),
            (exported, replace(order, limits=ImageTokenLimits()), here),
            (exported, order, replace(here, package_version="0.1")),
            (exported, order, replace(here, device="another CPU")),
        ]
        for tower, wanted, identity in variants:
            monkeypatch.setattr(
                "visual_encoder.onnxruntime_engine.OnnxRuntimeBackend.identity",
                lambda *_, identity=identity: identity,
            )
            build_cached(tower, tmp_path, wanted, on_progress=silent)
        assert len(set(asked)) == len(variants)

    def test_an_interrupted_build_leaves_nothing(
        self, exported: ExportedTower, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(_: object, __: object, directory: Path, *___: object, **____: object) -> None:
            (directory / "half").write_bytes(b"half a file")
            raise KeyboardInterrupt

        monkeypatch.setattr(type(backend_of(engine)), "build", interrupt)
        with pytest.raises(KeyboardInterrupt):
            build_cached(exported, tmp_path, order_for(engine), on_progress=silent)
        assert list(tmp_path.iterdir()) == []


def test_a_warm_start_of_the_bundled_tower_takes_less_than_a_second(
    bundled_tower: Path, engine_cache: Path
) -> None:
    def start() -> float:
        messages: list[str] = []
        started = time.perf_counter()
        create_encoder("auto", bundled_tower, cache_dir=engine_cache, on_progress=messages.append)
        assert not [text for text in messages if text.startswith(("Export", "Build"))]
        return time.perf_counter() - started

    create_encoder("auto", bundled_tower, cache_dir=engine_cache, on_progress=silent)
    assert min(start() for _ in range(3)) < 1


def test_a_built_engine_is_opened_and_holds_its_budget(
    tiny: TinyCheckpoint, exported: ExportedTower, tmp_path: Path, engine: str
) -> None:
    build_in(tmp_path / "built", exported, order_for(engine, LIMITS))
    encoder = open_built(tmp_path / "built", tiny.directory, threads=1)
    assert encoder.info.reason == f"built in {tmp_path / 'built'}"
    assert encoder.encode(random_patches(((1, 8, 16), (1, 8, 16)))).num_image_tokens == (32, 32)
    for grids, actual, limit, flag in (
        (((1, 10, 14),), 35, 32, "--max-image-tokens-per-image"),
        (((1, 8, 16),) * 2 + ((1, 4, 4),), 68, 64, "--max-image-tokens"),
        (((1, 2, 4),), 2, 4, "--min-image-tokens"),
    ):
        with pytest.raises(ImageRefused, match=rf"{actual} image tokens.*{limit} \({flag}\)") as no:
            encoder.encode(random_patches(grids))
        assert (no.value.actual, no.value.limit, no.value.flag) == (actual, limit, flag)


def test_limits_wider_than_the_engines_are_refused_at_the_start(
    tiny: TinyCheckpoint, exported: ExportedTower, tmp_path: Path
) -> None:
    skip_where_missing("onnxruntime")
    built = tmp_path / "built"
    build_in(built, exported, order_for("onnxruntime", LIMITS))
    open_built(built, tiny.directory, limits=ImageTokenLimits(8, 60, 30))
    for limits, flag in (
        (ImageTokenLimits(2, 64, 32), "--min-image-tokens is 2.*at least 4"),
        (ImageTokenLimits(4, 65, 32), "--max-image-tokens is 65.*at most 64"),
        (ImageTokenLimits(4, 64, 33), "--max-image-tokens-per-image is 33.*at most 32"),
    ):
        with pytest.raises(InvalidLimits, match=flag):
            open_built(built, tiny.directory, limits=limits)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"package_version": "0.1"}, "version 0.1, and here it is"),
        ({"device": "Cray-1"}, "device Cray-1, and here it is"),
    ],
)
def test_an_outdated_engine_is_refused_and_its_command_builds_it_anew(
    tiny: TinyCheckpoint,
    exported: ExportedTower,
    tmp_path: Path,
    engine: str,
    change: dict[str, str],
    complaint: str,
) -> None:
    directory = tmp_path / "built here"  # a space, so that quoting is tried as well
    build_in(directory, exported, order_for(engine, LIMITS))
    change_engine_file(directory, **change)
    with pytest.raises(EngineOutdated, match=complaint) as refused:
        open_built(directory, tiny.directory)
    command = str(refused.value).partition("build it again: ")[2]
    assert command == rebuild_command(read_engine_file(directory), "cpu")
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "visual_encoder"]
    assert main(words[3:]) == 0
    assert open_built(directory, tiny.directory).name == engine
    assert read_engine_file(directory).limits == LIMITS
    assert list(tmp_path.iterdir()) == [directory]


def test_an_engine_of_another_model_is_refused(
    tiny: TinyCheckpoint, checkpoint_copy: Path, exported: ExportedTower, tmp_path: Path
) -> None:
    skip_where_missing("onnxruntime")
    build_in(tmp_path / "built", exported, order_for("onnxruntime"))
    edit_tensors(checkpoint_copy, lambda tensors: {key: t + 1 for key, t in tensors.items()})
    with pytest.raises(EngineOutdated, match=f"export --model {checkpoint_copy} --out F"):
        open_built(tmp_path / "built", checkpoint_copy)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"build_version": 0}, "build_version is 0"),
        ({"dtype": "int3"}, "dtype is 'int3'"),
        ({"limits": {"min_image_tokens": 9, "max_image_tokens": 1}}, "InvalidLimits"),
        ({"vision_config": {}}, "lacks the field"),
    ],
    ids=str,
)
def test_an_unusable_engine_file_is_refused(
    tiny: TinyCheckpoint,
    exported: ExportedTower,
    tmp_path: Path,
    change: dict[str, object],
    complaint: str,
) -> None:
    skip_where_missing("onnxruntime")
    build_in(tmp_path / "built", exported, order_for("onnxruntime"))
    change_engine_file(tmp_path / "built", **change)
    with pytest.raises(VisualEncoderError, match=f"not a built visual engine.*{complaint}"):
        open_built(tmp_path / "built", tiny.directory)


def test_a_folder_without_an_engine_is_refused(tiny: TinyCheckpoint, tmp_path: Path) -> None:
    with pytest.raises(VisualEncoderError, match=r"not a built visual engine.*FileNotFound"):
        open_built(tmp_path, tiny.directory)


def test_an_unknown_engine_has_no_backend() -> None:
    with pytest.raises(EngineUnavailable, match="'torch' to build; choose tensorrt, openvino"):
        backend_of("torch")


def test_damaged_engine_files_say_what_to_delete(
    exported: ExportedTower, tmp_path: Path, engine: str
) -> None:
    built = build_in(tmp_path / "built", exported, order_for(engine))
    for path in built.directory.iterdir():
        if path.name != ENGINE_FILE:
            path.write_bytes(b"junk")
    with pytest.raises(VisualEncoderError, match=f"delete {built.directory} to have it made again"):
        open_engine(built, device=CPU, threads=1, reason="")


def test_a_foreign_graph_is_noticed(exported: ExportedTower, tmp_path: Path) -> None:
    skip_where_missing("onnxruntime")
    from onnx import TensorProto, helper, save

    built = build_in(tmp_path / "built", exported, order_for("onnxruntime"))
    tensor = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "foreign", [tensor], [result])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
    save(model, built.directory / "optimized.onnx")
    with pytest.raises(VisualEncoderError, match=r"inputs \['x'\] .* delete"):
        open_engine(built, device=CPU, threads=1, reason="")


def test_junk_in_place_of_a_graph_is_the_builders_error(
    exported: ExportedTower, tmp_path: Path, engine: str
) -> None:
    junk = tmp_path / "junk"
    junk.mkdir()
    (junk / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(VisualEncoderError, match=r"model\.onnx"):
        build_in(tmp_path / "built", replace(exported, directory=junk), order_for(engine))
    assert [path.name for path in tmp_path.iterdir()] == ["junk"]
