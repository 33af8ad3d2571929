"""Curves of training become pictures, and bad ones a sentence."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from eagle.__main__ import main
from eagle.training.curve import CurvePoint, add_point, read_curve

SVG = "{http://www.w3.org/2000/svg}"
POINTS = [CurvePoint(250 * i, 120_000 * i, None, (0.3, 0.2), 1.2 + 0.1 * i) for i in range(4)]


@pytest.fixture
def curve(tmp_path: Path) -> Path:
    path = tmp_path / "first.curve.jsonl"
    for point in POINTS:
        add_point(path, point)
    return path


def test_what_is_written_is_read(curve: Path) -> None:
    assert read_curve(curve) == POINTS


def test_every_evaluation_is_a_mark_further_right_and_up(curve: Path, tmp_path: Path) -> None:
    assert main(["plot", str(curve), "--out", str(tmp_path / "curve.svg")]) == 0
    curves = [
        group
        for group in ET.parse(tmp_path / "curve.svg").iter(f"{SVG}g")
        if len(group.findall(f".//{SVG}use")) == len(POINTS) and "line2d" in group.get("id", "")
    ]
    marks = [(float(u.get("x", "")), float(u.get("y", ""))) for u in curves[-1].iter(f"{SVG}use")]
    assert marks == sorted(marks)
    assert [y for _, y in marks] == sorted((y for _, y in marks), reverse=True)  # y points down


def test_the_same_curve_is_the_same_file(curve: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.png", tmp_path / "new folder" / "b.png"
    for out in (first, second):
        assert main(["plot", str(curve), str(curve), "--out", str(out)]) == 0
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("text", "out", "said"),
    [
        ("not json", "a.svg", "is not a curve that train wrote"),
        ('{"accuracy": [0.1]}', "a.svg", "is not a curve that train wrote"),
        ("", "a.xyz", "no ending that can be plotted"),
    ],
)
def test_what_cannot_be_plotted_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, out: str, said: str
) -> None:
    (tmp_path / "c.curve.jsonl").write_text(text)
    assert main(["plot", str(tmp_path / "c.curve.jsonl"), "--out", str(tmp_path / out)]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / out).exists()


def test_a_curve_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", str(tmp_path / "c.jsonl"), "--out", str(tmp_path / "a.svg")]) == 2
    assert "does not exist" in capsys.readouterr().err
