"""Why a job has not begun yet: others before it, or models that are loaded again.

The same words wherever the page waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vlm.ui.engine_thread import EngineThread, Run

RELOADING = "Loading the models again"


@dataclass(frozen=True, slots=True)
class Wait:
    """`text` follows the progress; `announcement`, for a screen reader, must not."""

    text: str
    announcement: str


def wait_of(engine: EngineThread, run: Run[Any]) -> Wait | None:
    """None when it is this run's turn and the engine is there."""
    progress = engine.reloading()
    if progress is not None:
        return Wait(f"{RELOADING}: {progress}", f"{RELOADING}.")
    ahead = engine.num_ahead(run)
    if ahead:
        text = f"Waiting for the engine: {ahead} before you"
        return Wait(text, text)
    return None
