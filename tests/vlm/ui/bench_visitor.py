"""What a visitor of the Benchmark page does, without a browser."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import gradio as gr

from tests.vlm.ui.fakes import FakePipeline
from vlm.ui.answers import KEEP
from vlm.ui.bench.benches import NUM_FORM_FIELDS, BenchHandlers, BenchUpdate
from vlm.ui.controls import Controls

VISITOR = gr.Request(session_hash="visitor")


FORM: dict[str, Any] = {
    "kind": "bench",
    "source": "bundled",
    "categories": ["story", "code"],
    "files": None,
    "picture_question": "What is this?",
    "most_questions": 0,
    "max_new_tokens": 64,
    "repeats": 1,
    "draft_steps": "2,4",
    "draft_top_ks": "2",
    "verify_tree_sizes": "4,8",
    "image_tokens": "",
}


def begin(benches: BenchHandlers, pipeline: FakePipeline, **changed: Any) -> BenchUpdate:
    form = FORM | changed
    assert len(form) == NUM_FORM_FIELDS
    drawer = Controls.from_settings(pipeline.settings, has_draft=True).values()
    return benches.run(VISITOR, *form.values(), *drawer)


def run_on(benches: BenchHandlers, first: BenchUpdate, stop_after: int = -1) -> list[BenchUpdate]:
    """The update that began a measurement and all that follow, chained as on the page."""

    async def follow() -> list[BenchUpdate]:
        updates = [first]
        async for payload in benches.watch(VISITOR):
            updates.append(BenchUpdate(payload))
            if payload is not KEEP and payload["done"] == stop_after:
                benches.stop(VISITOR)
        return [*updates, benches.conclude(VISITOR)]

    return asyncio.run(follow())


def texts(payload: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = json.loads(payload["files"])["texts"]
    return found


def bring(benches: BenchHandlers, name: str, text: str) -> BenchUpdate:
    return benches.bring(VISITOR, gr.EventData(None, {"name": name, "text": text}))
