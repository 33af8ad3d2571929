"""What a visitor may hand in to be measured, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.vlm.ui.bench_visitor import begin, run_on
from tests.vlm.ui.fakes import FakePipeline
from vlm.errors import ConfigError
from vlm.ui.answers import KEEP
from vlm.ui.bench.benches import BenchHandlers
from vlm.ui.bench.form import bundled_categories, uploaded_questions


def test_own_pictures_are_asked_one_question(
    benches: BenchHandlers, pipeline: FakePipeline, picture: Path
) -> None:
    begun = begin(benches, pipeline, source="own", files=[str(picture)], picture_question=" Why? ")
    run_on(benches, begun)
    (message,) = pipeline.requests[0].messages
    assert (message.text, message.images) == ("Why?", (picture,))


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "a.png"
    path.write_bytes(b"")
    return path


def test_a_listing_reaches_only_the_pictures_that_came_with_it(
    tmp_path: Path, picture: Path
) -> None:
    """A path in the file would otherwise open any picture of the machine."""
    listing = tmp_path / "question.jsonl"
    listing.write_text('{"turns": ["x"], "images": ["../other/a.png"]}', encoding="utf-8")
    (question,) = uploaded_questions((listing, picture), "")
    assert question.images == (picture,)
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"")
    listing.write_text(json.dumps({"turns": ["x"], "images": [str(secret)]}), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"secret\.png, which did not come with the file"):
        uploaded_questions((listing, picture), "")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("q.jsonl", '{"turns": ["a"]}\n{"turns": 3}\n', "q.jsonl, line 2 cannot be read"),
        ("q.jsonl", "\n", "q.jsonl holds no questions"),
        ("q.jsonl", "[" * 100_000, "q.jsonl, line 1 cannot be read"),
        ("q.pdf", "", "q.pdf is neither a question.jsonl nor a picture"),
    ],
)
def test_a_bad_file_is_refused_without_its_place_on_the_server(
    benches: BenchHandlers,
    pipeline: FakePipeline,
    tmp_path: Path,
    name: str,
    content: str,
    sentence: str,
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    update = begin(benches, pipeline, source="own", files=[str(tmp_path / name)])
    assert sentence in update.notice
    assert str(tmp_path) not in update.notice
    assert update.view is KEEP


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"repeats": 0}, "Repeats must be at least 1, got 0."),
        ({"max_new_tokens": None}, "The longest answer must be at least 1, got nothing."),
        ({"most_questions": -1}, "Questions a category must be at least 0, got -1."),
        ({"categories": []}, "choose at least one"),
        ({"source": "own"}, "Choose a question.jsonl or some pictures first."),
        ({"draft_steps": "2;3"}, "Depth must be whole numbers of at least 1"),
        ({"draft_steps": "40"}, "Depth may be at most 12, got 40."),
        ({"draft_top_ks": "9" * 5000}, "Top-k"),
        ({"kind": "sweep", "verify_tree_sizes": "99"}, "No combination"),
        (
            {"kind": "sweep", "image_tokens": "16,2"},
            " 4 (at least, a picture) and 1024 (at most, all pictures), got 2.",
        ),
        ({"kind": "sweep", "image_tokens": "1025"}, "all pictures), got 1025."),
        (
            {
                "kind": "sweep",
                "draft_steps": "4,5,6,7,8",
                "draft_top_ks": "4,5,6,7,8",
                "verify_tree_sizes": ",".join(map(str, range(4, 14))),
            },
            "These are 250 settings and the map holds at most 240",
        ),
    ],
)
def test_wrong_values_are_one_sentence(
    benches: BenchHandlers, pipeline: FakePipeline, changed: dict[str, Any], sentence: str
) -> None:
    assert sentence in begin(benches, pipeline, **changed).notice


def test_a_text_only_base_is_offered_no_picture_categories() -> None:
    usable = {name: usable for _, name, usable in bundled_categories(takes_pictures=False)}
    assert not usable["picture"]
    assert usable["story"]
    assert all(usable for _, _, usable in bundled_categories(takes_pictures=True))
