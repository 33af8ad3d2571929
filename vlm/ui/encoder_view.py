"""What the encoder sees, on the page: the pictures in the composer as the engine would get them.

Comes in: the composer and the settings whenever a picture was added or a limit moved. Goes out:
values for the view, and the limit that was chosen in it. The engine looks at the pictures in its
turn (`vlm.preview`); here they become words.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from visual_encoder.types import MERGE_SIZE
from vlm.errors import REFUSALS
from vlm.preview import EncoderPreview, PicturePreview, PreviewRequest
from vlm.ui.answers import KEEP
from vlm.ui.asking import broken_off
from vlm.ui.controls import Controls
from vlm.ui.conversation import Conversation, Turn, request_messages
from vlm.ui.engine_thread import EngineThread, Run

POLL_SECONDS = 0.05
PRESETS = (16, 64, 256, 512, 1024)

# How the view names the option that decided a size; the settings drawer has the same words.
BOUNDS = {
    "--min-image-tokens": "made larger: at least {min_image_tokens} tokens a picture",
    "--max-image-tokens-per-image": "made smaller: at most {max_image_tokens_per_image} a picture",
    "--max-image-tokens": "made smaller: {max_image_tokens} shared by all pictures",
}


class EncoderView:
    """One object for all visitors; a new look of one of them replaces his last."""

    def __init__(self, engine: EngineThread) -> None:
        self._engine = engine
        self._looks: dict[str, Run[EncoderPreview]] = {}

    async def look(
        self,
        request: gr.Request,
        event: gr.EventData,
        message: dict[str, Any],
        conversation: Conversation,
        *values: Any,
    ) -> tuple[Any, Any]:
        """The pictures in the composer changed, or a limit did. Returns the values of the view and
        of the setting "at most, a picture"."""
        images = tuple(Path(path) for path in message["files"])
        chosen = event._data.get("tokens")
        try:
            controls = chosen_limit(Controls.from_values(values), chosen)
            setting = KEEP if chosen is None else controls.max_image_tokens_per_image
            if not images:
                return view_payload(None, controls), setting
            turn = Turn(message["text"].strip(), images)
            messages = request_messages((*conversation, turn))
            asked = PreviewRequest(messages, controls.limits)
        except REFUSALS as error:
            return {"problem": str(error)}, KEEP
        run = await self._run(str(request.session_hash), asked)
        if run.is_cancelled:
            return KEEP, KEEP
        if run.error is not None:
            return {**view_payload(None, controls), "problem": broken_off(run.error)}, setting
        (preview,) = run.drain()
        return view_payload(preview, controls), setting

    async def _run(self, session: str, asked: PreviewRequest) -> Run[EncoderPreview]:
        """The engine's look; cancelled when the visitor wants another one meanwhile."""
        before = self._looks.get(session)
        if before is not None:
            before.cancel()
        run = self._looks[session] = self._engine.submit(asked)
        while not run.is_finished and not run.is_cancelled:
            await asyncio.sleep(POLL_SECONDS)
        if self._looks.get(session) is run:
            del self._looks[session]
        return run


def chosen_limit(controls: Controls, tokens: Any) -> Controls:
    """The settings with the limit that was chosen in the view; the total follows where it must."""
    if tokens is None:
        return controls
    per_image = max(int(tokens), controls.min_image_tokens)
    return replace(controls, max_image_tokens_per_image=min(per_image, controls.max_image_tokens))


def view_payload(preview: EncoderPreview | None, controls: Controls) -> dict[str, Any]:
    """Everything that the view draws."""
    total = controls.max_image_tokens
    payload: dict[str, Any] = {
        "problem": "",
        "pictures": [],
        "cost": "",
        "per_image": controls.max_image_tokens_per_image,
        "presets": [number for number in PRESETS if controls.min_image_tokens <= number <= total],
        "range": [controls.min_image_tokens, total],
    }
    if preview is not None:
        new = [picture for picture in preview.pictures if picture.is_new]
        payload["pictures"] = [picture_payload(picture, controls) for picture in new]
        payload["cost"] = cost_sentence(preview)
    return payload


def picture_payload(picture: PicturePreview, controls: Controls) -> dict[str, Any]:
    rows, columns = picture.grid
    return {
        "source": "data:image/png;base64," + base64.b64encode(picture.png).decode(),
        "rows": rows // MERGE_SIZE,  # of tokens
        "columns": columns // MERGE_SIZE,
        "num_tokens": picture.num_tokens,
        "sentence": size_sentence(picture),
        "bound": bound_sentence(picture, controls),
        "is_cached": picture.is_cached,
    }


def size_sentence(picture: PicturePreview) -> str:
    """Sizes are width by height, the grid is rows by columns of patches."""
    rows, columns = picture.grid
    return (
        f"{picture.source_width}×{picture.source_height} → {picture.width}×{picture.height} · "  # noqa: RUF001
        f"grid {rows}×{columns} · {picture.num_tokens:,} tokens"  # noqa: RUF001
    )


def bound_sentence(picture: PicturePreview, controls: Controls) -> str:
    if picture.bound_by is None:
        return "own size, rounded to whole tokens"
    limits = controls.limits
    return BOUNDS[picture.bound_by].format(
        min_image_tokens=f"{limits.min_image_tokens:,}",
        max_image_tokens=f"{limits.max_image_tokens:,}",
        max_image_tokens_per_image=f"{limits.max_image_tokens_per_image:,}",
    )


def cost_sentence(preview: EncoderPreview) -> str:
    """What the prompt costs so far, and what it leaves."""
    parts = [f"{preview.tokens_left:,} tokens left in the context"]
    if preview.over_input:
        parts = [f"{preview.over_input:,} tokens too many for --max-input-len"]
    if preview.prefill_seconds is not None and preview.vision_seconds is not None:
        seconds = preview.vision_seconds + preview.prefill_seconds
        parts.append(f"about {duration(seconds)} to the first token")
    parts.append(f"{preview.kv_bytes / 2**20:.1f} MiB of KV cache")
    return " · ".join(parts)


def duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
