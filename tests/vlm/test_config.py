"""Options: one source of defaults, and combinations refused in one sentence."""

from __future__ import annotations

import argparse
from dataclasses import fields

import pytest

from vlm.config import Settings, add_settings_arguments, settings_from_arguments
from vlm.errors import ConfigError


def parse(*argv: str) -> Settings:
    parser = argparse.ArgumentParser()
    add_settings_arguments(parser)
    return settings_from_arguments(parser.parse_args(argv))


def test_the_parsers_defaults_are_the_classs() -> None:
    assert parse() == Settings()


def test_every_option_reaches_its_field() -> None:
    assert parse("--draft-top-k", "2", "--verify-tree-size", "6").tree.draft_top_k == 2
    assert parse("--ignore-eos").ignore_eos
    assert parse("--temperature", "0.7").sampling.temperature == 0.7
    assert {item.name for item in fields(Settings)} >= {"base", "draft", "seed", "top_k"}


def test_the_bundled_model_sees_small_pictures_unless_told_otherwise() -> None:
    assert parse().limits.max_image_tokens_per_image == 16
    assert parse("--base", "x").limits.max_image_tokens_per_image == 512
    assert parse("--max-image-tokens-per-image", "64").limits.max_image_tokens_per_image == 64


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--verify-tree-size", "200"], "--verify-tree-size must lie between 2 and 53"),
        (["--min-image-tokens", "600"], "--min-image-tokens"),
        (["--max-input-len", "5000"], "--max-input-len 5000 exceeds --max-kv-cache-capacity 4096"),
        (["--max-image-tokens", "4000"], "--max-image-tokens 4000 exceeds --max-input-len"),
        (["--temperature", "-1"], "--temperature must be 0 or more"),
        (["--top-p", "0"], "--top-p must be above 0"),
        (["--draft", "x"], "--draft needs --base"),
        (["--max-new-tokens", "0"], "--max-new-tokens must be at least 1"),
    ],
)
def test_what_does_not_fit_is_one_sentence(argv: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(*argv)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
