"""Imports run one way, cost nothing at import, and no file grows beyond reading."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("eagle", "visual_encoder", "vlm")
ALLOWED = {
    "eagle": {"eagle"},
    "visual_encoder": {"visual_encoder"},
    "vlm": {"eagle", "visual_encoder", "vlm"},
}
SOURCES = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


def imported_packages(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    names = imported_packages(path)
    ours = names & {*PACKAGES, "app"}
    assert ours <= ALLOWED[package]
    if "ui" not in path.parts:
        assert "gradio" not in names


@pytest.mark.parametrize("path", [*SOURCES, ROOT / "app.py"], ids=lambda path: path.name)
def test_no_file_outgrows_its_reader(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_loads_no_vendor_and_no_page(package: str) -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in SOURCES
        if path.relative_to(ROOT).parts[0] == package
        and path.name != "__main__.py"
        and not path.name.endswith("_engine.py")  # a vendor's own module, imported when chosen
        and "ui" not in path.parts
    ]
    vendors = ("gradio", "tensorrt", "tensorrt_rtx", "openvino", "onnxruntime")
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "import torch\n"
        f"loaded = [name for name in {vendors!r} if name in sys.modules]\n"
        "assert not loaded, loaded\n"
        "assert not torch.cuda.is_initialized()\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
