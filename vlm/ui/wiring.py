"""How events of the page are connected, the same for all of its parts."""

from __future__ import annotations

from typing import Any

AT_ONCE: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
# The engine's own queue decides who waits, and says so on the page; Gradio's must not.
STREAMING: dict[str, Any] = {
    "concurrency_limit": None,
    "show_progress": "hidden",
    "api_visibility": "private",
}
