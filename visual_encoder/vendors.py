"""Importing an engine's package, without what it would do on the side."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def import_vendor(package: str) -> Any:
    """Import `onnxruntime`, `openvino`, `tensorrt` or `tensorrt_rtx`. Raises what that raises."""
    if package == "openvino":
        # `import openvino` reports itself to Google Analytics, unless this package is missing.
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    return importlib.import_module(package)
