"""The encoder view: what it says, what it asks of the engine, and which limit it moves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from tests.vlm.ui.fakes import GREY_PNG, FakePipeline
from visual_encoder.errors import ImageRefused
from visual_encoder.types import ImageTokenLimits
from vlm.preview import EncoderPreview, PicturePreview
from vlm.ui.controls import Controls
from vlm.ui.conversation import Conversation, Turn
from vlm.ui.encoder_view import EncoderView, bound_sentence, cost_sentence, size_sentence
from vlm.ui.engine_thread import EngineThread

PICTURE = PicturePreview(
    GREY_PNG, 1920, 1080, 1316, 728, (52, 94), 1222, None, is_cached=False, is_new=True
)
PREVIEW = EncoderPreview((PICTURE,), 1250, 2846, 0, 0.5, 1.5, 29 * 2**20)


def controls(pipeline: FakePipeline) -> Controls:
    return Controls.from_settings(pipeline.settings, has_draft=True)


def look(
    pipeline: FakePipeline,
    *images: str,
    conversation: Conversation = (),
    values: Controls | None = None,
    **data: Any,
) -> tuple[Any, Any]:
    message = {"text": "", "files": list(images)}
    request: Any = SimpleNamespace(session_hash="visitor")
    event: Any = SimpleNamespace(_data=data)
    shown = values or controls(pipeline)
    with EngineThread(pipeline) as engine:
        view = EncoderView(engine)
        return asyncio.run(view.look(request, event, message, conversation, *shown.values()))


def test_the_sentence_is_that_of_the_engine() -> None:
    assert size_sentence(PICTURE) == "1920×1080 → 1316×728 · grid 52×94 · 1,222 tokens"  # noqa: RUF001


@pytest.mark.parametrize(
    ("bound_by", "sentence"),
    [
        (None, "own size, rounded to whole tokens"),
        ("--min-image-tokens", "made larger: at least 4 tokens a picture"),
        ("--max-image-tokens-per-image", "made smaller: at most 512 a picture"),
        ("--max-image-tokens", "made smaller: 1,024 shared by all pictures"),
    ],
)
def test_the_limit_that_decided_is_named(bound_by: str | None, sentence: str) -> None:
    shown = replace(controls(FakePipeline()), max_image_tokens_per_image=512)
    assert bound_sentence(replace(PICTURE, bound_by=bound_by), shown) == sentence


def test_the_cost_in_one_line() -> None:
    assert cost_sentence(PREVIEW) == (
        "2,846 tokens left in the context · about 2.0 s to the first token · 29.0 MiB of KV cache"
    )
    unknown = replace(PREVIEW, prefill_seconds=None, over_input=7)
    assert cost_sentence(unknown) == "7 tokens too many for --max-input-len · 29.0 MiB of KV cache"


def test_a_picture_in_the_composer_is_looked_at(tmp_path: Path) -> None:
    pipeline = FakePipeline()
    payload, setting = look(pipeline, str(tmp_path / "a.png"))
    (asked,) = pipeline.previews
    assert asked.messages[-1].images == (tmp_path / "a.png",)
    assert asked.limits == pipeline.settings.limits
    (picture,) = payload["pictures"]
    assert picture["source"].startswith("data:image/png;base64,iVBOR")
    assert (picture["rows"], picture["columns"], picture["num_tokens"]) == (8, 8, 64)
    assert setting == gr.skip()


def test_only_the_new_pictures_are_shown_but_all_are_counted() -> None:
    pipeline = FakePipeline()
    turn = Turn("Before?", (Path("old.png"),), answer="Yes.")
    payload, _ = look(pipeline, "new.png", conversation=(turn,))
    assert len(pipeline.previews[0].messages) == 3
    assert len(payload["pictures"]) == 1
    assert payload["cost"].startswith(f"{4096 - 30 - 128:,} tokens left")


def test_a_chosen_limit_is_looked_at_and_set() -> None:
    pipeline = FakePipeline()
    payload, setting = look(pipeline, "a.png", tokens=64)
    assert pipeline.previews[0].limits == replace(
        pipeline.settings.limits, max_image_tokens_per_image=64
    )
    assert setting == payload["per_image"] == 64
    _, bounded = look(pipeline, "a.png", tokens=99_999)
    assert bounded == pipeline.settings.max_image_tokens


def test_without_a_picture_the_engine_is_left_alone() -> None:
    pipeline = FakePipeline()
    payload, _ = look(pipeline)
    assert payload["pictures"] == []
    assert pipeline.previews == []


def test_limits_that_contradict_each_other_are_a_sentence() -> None:
    pipeline = FakePipeline()
    wrong = replace(controls(pipeline), min_image_tokens=600)
    payload, _ = look(pipeline, "a.png", values=wrong)
    assert "--min-image-tokens" in payload["problem"]
    assert pipeline.previews == []


def test_a_refused_picture_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ImageRefused("notes.png is not a picture.")

    monkeypatch.setattr(FakePipeline, "preview", refuse)
    payload, _ = look(FakePipeline(), "notes.png")
    assert payload["problem"] == "notes.png is not a picture."
    assert payload["pictures"] == []


def test_a_new_look_replaces_the_last() -> None:
    pipeline = FakePipeline()
    request: Any = SimpleNamespace(session_hash="visitor")
    message = {"text": "", "files": ["a.png"]}

    async def two_at_once(view: EncoderView) -> list[tuple[Any, Any]]:
        looks = [
            view.look(
                request,
                SimpleNamespace(_data={"tokens": tokens}),  # type: ignore[arg-type]
                message,
                (),
                *controls(pipeline).values(),
            )
            for tokens in (16, 64)
        ]
        return await asyncio.gather(*looks)

    with EngineThread(pipeline) as engine:
        first, second = asyncio.run(two_at_once(EncoderView(engine)))
    assert first == (gr.skip(), gr.skip())
    assert second[1] == 64
    assert ImageTokenLimits(4, 1024, 64) in [asked.limits for asked in pipeline.previews]
