"""Plans that tensorrt_rtx really builds, and every misuse it refuses; no GPU is needed."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.visual_encoder.conftest import CPU, TinyCheckpoint
from tests.visual_encoder.random_tower import write_random_tower
from tests.visual_encoder.test_checkpoint import PUBLISHED_7B
from visual_encoder import (
    EngineBuildFailed,
    EngineOutdated,
    EngineUnavailable,
    ImageTokenLimits,
    InvalidLimits,
)
from visual_encoder.__main__ import main
from visual_encoder.build import build_cached, build_engine, open_engine
from visual_encoder.engine_files import ENGINE_FILE, EngineOrder, check_identity
from visual_encoder.export import ExportedTower, export_cached
from visual_encoder.onnx_graph import INPUT_NAMES
from visual_encoder.tensorrt_builder import PlanBuilder
from visual_encoder.tensorrt_engine import ANY_RTX_GPU, PLAN_FILE, TensorRTBackend
from visual_encoder.tensorrt_profile import input_shapes
from visual_encoder.types import PATCH_DIM

trt: Any = pytest.importorskip("tensorrt_rtx", reason="tensorrt-rtx is not installed")

LIMITS = ImageTokenLimits(4, 256, 128)
MAGIC = b"vtrt"  # how every plan of tensorrt_rtx begins


def silent(message: str) -> None:
    pass


def order(dtype: str = "float32", limits: ImageTokenLimits | None = LIMITS) -> EngineOrder:
    return EngineOrder("tensorrt", dtype, CPU, limits)


@pytest.fixture(autouse=True)
def only_rtx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visual_encoder.tensorrt_builder.PACKAGES", ("tensorrt_rtx",))


@pytest.fixture
def exported(tiny: TinyCheckpoint) -> ExportedTower:
    return export_cached(tiny.directory, tiny.cache_dir, dtype=torch.float32)


@pytest.fixture
def parsed(exported: ExportedTower) -> PlanBuilder:
    builder = PlanBuilder(trt)
    builder.parse(exported.model_path)
    return builder


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_tower_becomes_a_plan_with_its_sidecar(
    tiny: TinyCheckpoint, tmp_path: Path, dtype: str
) -> None:
    exported = export_cached(tiny.directory, tiny.cache_dir, dtype=getattr(torch, dtype))
    built = build_engine(
        exported, tmp_path / "built", order(dtype), timing_cache=tmp_path / "t", on_progress=silent
    )
    assert (built.directory / PLAN_FILE).read_bytes().startswith(MAGIC)
    sidecar = json.loads((built.directory / ENGINE_FILE).read_text(encoding="utf-8"))
    assert sidecar["package"] == "tensorrt_rtx"
    assert sidecar["package_version"] == trt.__version__
    assert sidecar["device"] == ANY_RTX_GPU
    assert sidecar["onnx_sha256"] == exported.onnx_sha256
    assert sidecar["dtype"] == dtype
    assert sidecar["limits"] == {
        "min_image_tokens": 4,
        "max_image_tokens": 256,
        "max_image_tokens_per_image": 128,
    }
    assert [path.name for path in tmp_path.iterdir()] == ["built"]  # it keeps no timings


def test_the_bundled_tower_builds_from_the_shell(bundled_tower: Path, tmp_path: Path) -> None:
    onnx, out = str(tmp_path / "onnx"), str(tmp_path / "built")
    command = ["export", "--model", str(bundled_tower), "--out", onnx, "--dtype", "float16"]
    assert main(command) == 0
    assert main(["build", "--onnx", onnx, "--out", out, "--engine", "tensorrt"]) == 0
    assert (Path(out) / PLAN_FILE).read_bytes().startswith(MAGIC)


@pytest.mark.slow
def test_a_tower_of_the_7bs_size_exports_and_builds() -> None:
    """32 blocks of width 1280, 676 million random parameters: weights beside the graph."""
    with tempfile.TemporaryDirectory() as folder:  # 4 GB, which pytest would keep for a while
        export_and_build_7b(Path(folder))


def export_and_build_7b(tmp_path: Path) -> None:
    write_random_tower(tmp_path / "model", PUBLISHED_7B)
    messages: list[str] = []
    exported = export_cached(
        tmp_path / "model", tmp_path, dtype=torch.bfloat16, on_progress=messages.append
    )
    assert sum(message.startswith("Writing weights") for message in messages) == 10
    assert exported.model_path.stat().st_size < 50_000_000
    limits = ImageTokenLimits()
    built = build_cached(exported, tmp_path, order("bfloat16", limits), on_progress=silent)
    with (built.directory / PLAN_FILE).open("rb") as plan:
        assert plan.read(4) == MAGIC
    assert (built.directory / PLAN_FILE).stat().st_size > 1_300_000_000


def test_the_parser_finds_the_inputs_of_the_export(parsed: PlanBuilder) -> None:
    assert parsed.input_names() == INPUT_NAMES


class TestMisuse:
    def test_no_profile(self, parsed: PlanBuilder) -> None:
        with pytest.raises(EngineBuildFailed, match="no optimization profile has been defined"):
            parsed.build()

    def test_a_profile_without_one_input(
        self, parsed: PlanBuilder, exported: ExportedTower
    ) -> None:
        shapes = input_shapes(LIMITS, exported.vision_config)
        parsed.add_profile([item for item in shapes if item.name != "cos"])
        with pytest.raises(EngineBuildFailed, match="Dynamic input tensor cos is missing"):
            parsed.build()

    @pytest.mark.parametrize(
        ("smallest", "typical", "largest"),
        [(64, 32, 128), (16, 256, 128), (256, 256, 16)],
        ids=["min > opt", "opt > max", "min > max"],
    )
    def test_shapes_out_of_order(
        self,
        parsed: PlanBuilder,
        exported: ExportedTower,
        smallest: int,
        typical: int,
        largest: int,
    ) -> None:
        first, *_ = input_shapes(LIMITS, exported.vision_config)
        axes = [(count, PATCH_DIM) for count in (smallest, typical, largest)]
        wrong = replace(first, smallest=axes[0], typical=axes[1], largest=axes[2])
        with pytest.raises(EngineBuildFailed, match=r"refuses the shapes.*'pixel_values'"):
            parsed.add_profile([wrong])

    def test_shapes_of_another_rank(self, parsed: PlanBuilder, exported: ExportedTower) -> None:
        first, *rest = input_shapes(LIMITS, exported.vision_config)
        parsed.add_profile([replace(first, smallest=(16,), typical=(32,), largest=(64,)), *rest])
        with pytest.raises(EngineBuildFailed, match="pixel_values"):
            parsed.build()

    def test_an_input_that_is_not_there(self, parsed: PlanBuilder, exported: ExportedTower) -> None:
        first, *_ = input_shapes(LIMITS, exported.vision_config)
        with pytest.raises(EngineBuildFailed, match="has no input 'audio' but pixel_values, cos"):
            parsed.add_profile([replace(first, name="audio")])

    @pytest.mark.parametrize(
        "content", [b"not a graph", b"", None], ids=["junk", "empty", "absent"]
    )
    def test_junk_in_place_of_a_graph(self, tmp_path: Path, content: bytes | None) -> None:
        path = tmp_path / "model.onnx"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(EngineBuildFailed, match=r"tensorrt_rtx 1\..* (cannot read|builds no)"):
            build_junk(path)

    def test_a_graph_without_its_weights(self, exported: ExportedTower, tmp_path: Path) -> None:
        import onnx

        model = onnx.load(exported.model_path)
        path = tmp_path / "model.onnx"
        onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
        (tmp_path / "weights").unlink()
        with pytest.raises(EngineBuildFailed, match="cannot read"):
            PlanBuilder(trt).parse(path)

    def test_no_limits(self, exported: ExportedTower, tmp_path: Path) -> None:
        with pytest.raises(InvalidLimits, match="name them"):
            build_engine(
                exported,
                tmp_path / "built",
                order(limits=None),
                timing_cache=tmp_path / "t",
                on_progress=silent,
            )
        assert list(tmp_path.iterdir()) == []

    def test_limits_that_contradict_each_other(
        self, exported: ExportedTower, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        command = ["build", "--onnx", str(exported.directory), "--out", str(tmp_path / "built")]
        limits = ["--min-image-tokens", "600"]
        assert main([*command, "--engine", "tensorrt", *limits]) == 2
        assert "0 < --min-image-tokens <=" in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []


def build_junk(path: Path) -> None:
    builder = PlanBuilder(trt)
    builder.parse(path)
    builder.build()


def test_a_second_start_builds_nothing(
    exported: ExportedTower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build_cached(exported, tmp_path, order(), on_progress=silent)
    monkeypatch.setattr(PlanBuilder, "build", pytest.fail)
    assert build_cached(exported, tmp_path, order(), on_progress=silent) == first


def test_other_limits_are_another_plan(exported: ExportedTower, tmp_path: Path) -> None:
    wide = order(limits=ImageTokenLimits(4, 512, 256))
    plans = [build_cached(exported, tmp_path, item, on_progress=silent) for item in (order(), wide)]
    assert plans[0].directory != plans[1].directory


def test_a_plan_of_another_version_is_refused_with_the_command(
    exported: ExportedTower, tmp_path: Path
) -> None:
    built = build_cached(exported, tmp_path, order(), on_progress=silent)
    here = TensorRTBackend().identity(CPU)
    check_identity(built, here, "cuda")
    old = replace(built, identity=replace(built.identity, package_version="1.4.0"))
    limits = "--min-image-tokens 4 --max-image-tokens 256 --max-image-tokens-per-image 128"
    with pytest.raises(EngineOutdated, match=f"version 1.4.0.*--engine tensorrt {limits}$"):
        check_identity(old, here, "cuda")


def test_a_plan_is_not_opened_on_a_cpu(exported: ExportedTower, tmp_path: Path) -> None:
    built = build_cached(exported, tmp_path, order(), on_progress=silent)
    with pytest.raises(EngineUnavailable, match="runs on an NVIDIA GPU, not on device 'cpu'"):
        open_engine(built, device=CPU, threads=1, reason="")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_loading_without_a_driver_is_one_sentence(
    exported: ExportedTower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build_cached(exported, tmp_path, order(), on_progress=silent)
    with pytest.raises(EngineUnavailable, match=r"cannot load .*engine\.plan: .*[Cc][Uu][Dd][Aa]"):
        open_engine(built, device=torch.device("cuda"), threads=1, reason="")
