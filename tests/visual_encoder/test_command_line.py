"""`python -m visual_encoder` as typed: what it writes, what it prints, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.visual_encoder.conftest import TinyCheckpoint, skip_where_missing
from visual_encoder import ImageTokenLimits, open_built
from visual_encoder.__main__ import main
from visual_encoder.compare import noise_request
from visual_encoder.engines import ENGINES, choose_engines
from visual_encoder.export import export_cached

EXAMPLES = Path(__file__).parents[2] / "assets" / "examples"


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture
def onnx(tiny: TinyCheckpoint) -> Path:
    """The folder of the exported tiny tower."""
    return export_cached(tiny.directory, tiny.cache_dir, dtype=torch.float32).directory


def test_export_then_build_then_open(
    tiny: TinyCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    skip_where_missing("onnxruntime")
    onnx, out = tmp_path / "onnx", tmp_path / "built"
    assert run("export", "--model", tiny.directory, "--out", onnx) == 0
    limits = ("--max-image-tokens", 64, "--max-image-tokens-per-image", 32)
    assert run("build", "--onnx", onnx, "--out", out, "--engine", "onnxruntime", *limits) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert f"Exported the visual encoder to {onnx}." in told.err
    assert f"Built the visual engine onnxruntime in {out}." in told.err
    encoder = open_built(out, tiny.directory, limits=ImageTokenLimits(4, 64, 32))
    assert encoder.name == "onnxruntime"


def test_openvino_is_built_in_the_format_that_this_cpu_is_fastest_in(
    tiny: TinyCheckpoint, onnx: Path, tmp_path: Path
) -> None:
    skip_where_missing("openvino")
    out = tmp_path / "built"
    assert run("build", "--onnx", onnx, "--out", out, "--engine", "openvino") == 0
    fastest = next(choose_engines("openvino", None, torch.device("cpu"))).dtype
    encoder = open_built(out, tiny.directory)
    assert encoder.info.dtype == str(fastest).removeprefix("torch.")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--engine", "onnxruntime", "--min-image-tokens", "0"), "must satisfy 0 <"),
        (("--engine", "onnxruntime", "--max-image-tokens", "8"), "512 and 8"),
        (("--engine", "onnxruntime", "--onnx", "/nowhere"), "is not an exported visual encoder"),
    ],
)
def test_a_wrong_build_is_one_sentence_and_leaves_nothing(
    onnx: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    complaint: str,
) -> None:
    assert run("build", "--onnx", onnx, "--out", tmp_path / "built", *words) == 2
    told = capsys.readouterr().err
    assert complaint in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_openvino_asks_for_a_float32_export(
    tiny: TinyCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = export_cached(tiny.directory, tiny.cache_dir, dtype=torch.float16).directory
    assert run("build", "--onnx", half, "--out", tmp_path / "b", "--engine", "openvino") == 2
    assert "export with --dtype float32" in capsys.readouterr().err


def test_nothing_that_is_there_is_overwritten(
    tiny: TinyCheckpoint, onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    words = ("build", "--onnx", onnx, "--out", tmp_path, "--engine", "onnxruntime")
    assert run("export", "--model", tiny.directory, "--out", tmp_path) == 2
    assert run(*words) == 2
    assert run(*words, "--replace") == 2, "--replace takes the place of an engine only"
    assert capsys.readouterr().err.count("exists and is not empty") == 3
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_text_only_model_cannot_be_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    assert run("export", "--model", tmp_path, "--out", tmp_path / "onnx") == 2
    assert "text-only" in capsys.readouterr().err


def test_compare_prints_a_table_and_json(
    tiny: TinyCheckpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    images = [EXAMPLES / "lion.png", EXAMPLES / "chart.png"]
    words = ("--rounds", 2, "--threads", 1, "--cache", tiny.cache_dir, "--images", *images)
    assert run("compare", "--model", tiny.directory, *words) == 0
    *table, last = capsys.readouterr().out.strip().splitlines()
    report = json.loads(last)
    rows = report["rows"]
    assert rows[0] | {"median_seconds": 0} == {
        "engine": "transformers",
        "dtype": "float32",
        "patches": rows[0]["patches"],
        "max_abs_error": 0,
        "relative_l2": 0,
        "cosine": 1,
        "median_seconds": 0,
        "speedup": 1,
        "auto": False,
    }
    assert {row["engine"] for row in rows[1:]} | report["missing"].keys() >= set(ENGINES)
    for row in rows[1:]:
        assert row["median_seconds"] > 0
        assert row["cosine"] > 0.999
        assert row["max_abs_error"] < (1e-4 if row["dtype"] == "float32" else 0.2)
    assert sum(row["auto"] for row in rows) == 1
    assert report["missing"]["tensorrt"] == "it needs an NVIDIA GPU"
    assert report["threads"] == 1
    assert report["versions"]["torch"]
    assert sum(line.startswith("| ") for line in table) == len(rows) + 1


def test_compare_without_pictures_takes_sizes(
    tiny: TinyCheckpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--rounds", 1, "--cache", tiny.cache_dir, "--image-tokens", 4, 16)
    assert run("compare", "--model", tiny.directory, *words) == 0
    rows = json.loads(capsys.readouterr().out.strip().splitlines()[-1])["rows"]
    assert {row["patches"] for row in rows} == {16, 64}


def test_rounds_must_be_positive(tiny: TinyCheckpoint, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compare", "--model", tiny.directory, "--rounds", 0) == 2
    assert "--rounds must be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize(("tokens", "grid"), [(256, (32, 32)), (1024, (64, 64)), (7, (2, 14))])
def test_a_random_picture_has_the_tokens_that_were_asked_for(
    tokens: int, grid: tuple[int, int]
) -> None:
    request = noise_request(tokens)
    assert request.num_image_tokens == (tokens,)
    assert sorted(request.grid_thw[0][1:]) == sorted(grid)
