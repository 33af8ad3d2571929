"""A request from messages to events, on tiny checkpoints in the real formats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from eagle.errors import KVCacheFull
from tests.vlm.conftest import SMALL, write_pair
from visual_encoder.errors import ImageRefused
from visual_encoder.types import ImageTokenLimits
from vlm.__main__ import main
from vlm.config import Settings
from vlm.errors import ImagesNotSupported, PromptTooLong
from vlm.events import GenerationFinished, PrefillFinished, PromptReady, StepDecoded
from vlm.loading import load_pipeline
from vlm.metrics import RunStats
from vlm.pipeline import VlmPipeline
from vlm.requests import ChatMessage, GenerationRequest
from vlm.trace import read_traces
from vlm.trace_check import check_trace


@pytest.fixture
def pipeline(tiny_pipeline: VlmPipeline) -> VlmPipeline:
    return tiny_pipeline


def picture(width: int = 90, height: int = 60) -> Image.Image:
    return Image.linear_gradient("L").resize((width, height)).convert("RGB")


def ask(pipeline: VlmPipeline, *images: Image.Image, **options: object) -> RunStats:
    arguments = {"max_new_tokens": 24, "ignore_eos": True} | options
    message = ChatMessage("user", "What is it?", images)
    events = list(pipeline.run(GenerationRequest((message,), **arguments)))  # type: ignore[arg-type]
    assert isinstance(events[0], PromptReady)
    assert isinstance(events[1], PrefillFinished)
    assert isinstance(events[-1], GenerationFinished)
    steps = [event for event in events if isinstance(event, StepDecoded)]
    stats = events[-1].stats
    assert "".join(event.text for event in steps) == stats.text
    assert [replace(event.step, tree=None) for event in steps] == list(stats.steps)
    assert events[1].image_tokens == stats.image_tokens
    return stats


def test_a_picture_of_an_earlier_turn_is_not_encoded_again(pipeline: VlmPipeline) -> None:
    seen, new = picture(84, 140), picture(140, 84)
    first, again, with_another = ask(pipeline, seen), ask(pipeline, seen), ask(pipeline, seen, new)
    assert (first.num_cached_images, again.num_cached_images) == (0, 1)
    assert with_another.num_cached_images == 1
    assert again.token_ids == first.token_ids


@pytest.mark.parametrize("num_images", [0, 1, 3])
def test_with_and_without_the_draft_the_text_is_the_same(
    pipeline: VlmPipeline, num_images: int
) -> None:
    images = [picture(60 + 40 * i, 90) for i in range(num_images)]
    alone = ask(pipeline, *images, use_eagle=False)
    together = ask(pipeline, *images)
    assert together.token_ids == alone.token_ids
    assert together.text == alone.text
    assert alone.mean_acceptance_length is None
    assert together.mean_acceptance_length is not None
    assert len(together.image_tokens) == num_images


def test_the_picture_changes_the_answer(pipeline: VlmPipeline) -> None:
    assert ask(pipeline, picture()).token_ids != ask(pipeline, picture().rotate(90)).token_ids


def test_a_closed_reader_leaves_the_pipeline_usable(pipeline: VlmPipeline) -> None:
    expected = ask(pipeline).token_ids
    events = pipeline.run(GenerationRequest((ChatMessage("user", "What is it?"),)))
    for _ in range(3):
        next(events)
    events.close()  # type: ignore[attr-defined]
    assert ask(pipeline).token_ids == expected


def test_refusals_come_before_the_encoder_runs(
    pipeline: VlmPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the encoder ran")

    assert pipeline.vision is not None
    monkeypatch.setattr(type(pipeline.vision.encoder), "encode", never)
    with pytest.raises(ImageRefused, match="--max-image-tokens"):
        ask(pipeline, *[picture(400, 400)] * 30)
    with pytest.raises(PromptTooLong, match=r"has \d+ tokens.*at most 200 fit"):
        list(pipeline.run(GenerationRequest((ChatMessage("user", "x" * 300, (picture(),)),))))


def test_limits_of_the_request_win(pipeline: VlmPipeline) -> None:
    limits = ImageTokenLimits(4, 8, 6)
    assert ask(pipeline, picture(500, 500), limits=limits).image_tokens[0] <= 6


def test_an_answer_that_cannot_fit_is_refused(pipeline: VlmPipeline) -> None:
    with pytest.raises(KVCacheFull, match="--max-new-tokens"):
        ask(pipeline, max_new_tokens=290)


def test_stop_strings_end_the_text(pipeline: VlmPipeline) -> None:
    text = ask(pipeline).text
    stop = text[8:10]
    stopped = ask(pipeline, stop=(stop,))
    assert stopped.text == text[: text.index(stop)]
    assert stopped.finish_reason == "stop"
    assert stopped.text == ask(pipeline, stop=(stop,), use_eagle=False).text


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_text_only_bases_answer_and_refuse_pictures(family: str, tmp_path: Path) -> None:
    base, draft = write_pair(tmp_path, family)
    pipeline = load_pipeline(Settings(base=base, draft=draft, **SMALL), lambda _: None)
    assert ask(pipeline).token_ids == ask(pipeline, use_eagle=False).token_ids
    with pytest.raises(ImagesNotSupported, match="text-only"):
        ask(pipeline, picture())


def test_the_shell_prints_one_json_object_on_the_last_line(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = tmp_path / "picture.png"
    picture().save(image)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    argv = ["generate", "--image", str(image), "--prompt", "What?", "--json", "--base", pair[0]]
    argv += ["--draft", pair[1], "--max-new-tokens", "12", "--ignore-eos", *options]
    assert main(argv) == 0
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert set(result) == {
        "text",
        "token_ids",
        "prompt_tokens",
        "image_tokens",
        "cached_images",
        "steps",
        "mean_acceptance_length",
        "decode_tokens_per_second",
        "time_to_first_token_seconds",
        "finish_reason",
    }
    assert [t for step in result["steps"] for t in step["token_ids"]] == result["token_ids"]
    assert len(result["token_ids"]) == 12
    trace = tmp_path / "run.jsonl"
    assert main([*argv, "--no-eagle", "--trace", str(trace)]) == 0
    alone = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert alone["token_ids"] == result["token_ids"]
    assert all(step["num_accepted"] == 0 for step in alone["steps"])
    (run,) = read_traces(trace)
    assert check_trace(run) == ()
    assert list(run.token_ids) == alone["token_ids"]
    assert main([*argv, "--trace", str(tmp_path / "no" / "folder.jsonl")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_the_shell_refuses_a_draft_that_does_not_fit(
    pair: tuple[str, str], misfit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever named the draft in a script wants its figures, not the base's."""
    asked = ["--base", pair[0], "--draft", misfit, "--device", "cpu"]
    for command in (["generate", "--prompt", "hi"], ["compare", "--prompt", "hi"], ["bench"]):
        assert main([*command, *asked]) == 2
        assert "it was made for another base" in capsys.readouterr().err


def test_the_shell_reports_mistakes_in_one_sentence(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "--prompt", "hi", "--base", "/nowhere"]) == 2
    assert main(["generate", "--prompt", "hi", "--base", pair[0], "--device", "tpu"]) == 2
    assert main(["generate", "--prompt", "hi", "--image", "/no.png", "--base", pair[0]]) == 2
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    assert "/no.png" in errors
