"""Artwork is found by codepoint, however its package names it."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("resvg_py")

from vlm.demo_model.artwork import HELD_OUT_SETS, ICONIFY_PACKAGES, TRAINING_SETS, load_artwork

BANANA, CAKE, HORSE = 0x1F34C, 0x1F382, 0x1F40E


def _square(color: str, side: int) -> str:
    return f'<rect width="{side}" height="{side}" fill="{color}"/>'


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A folder that holds an icon set as npm would have packed it."""
    icons = {
        "banana": {"body": _square("yellow", 32)},
        "birthday-cake-1": {"body": _square("red", 64), "width": 64, "height": 64},
        "birthday-cake-2": {"body": _square("blue", 32)},
        "horse-racing": {"body": _square("green", 32)},
    }
    content = json.dumps({"icons": icons, "height": 32}).encode()
    with tarfile.open(tmp_path / "iconify-json-emojione-1.2.3.tgz", "w:gz") as archive:
        member = tarfile.TarInfo("package/icons.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return tmp_path


def test_icons_are_found_by_their_unicode_name(cache: Path) -> None:
    found = load_artwork("emojione", [BANANA, CAKE, HORSE], cache)
    assert set(found) == {BANANA, CAKE}
    assert found[BANANA].getpixel((60, 60)) == (255, 255, 0, 255)


def test_an_icon_of_its_own_size_is_drawn_whole_and_the_first_variant_taken(cache: Path) -> None:
    cake = load_artwork("emojione", [CAKE], cache)[CAKE]
    assert cake.size == (136, 136)
    assert cake.getcolors() == [(136 * 136, (255, 0, 0, 255))]


def test_what_is_evaluated_on_is_not_trained_on() -> None:
    assert not set(HELD_OUT_SETS) & set(TRAINING_SETS)
    assert set(ICONIFY_PACKAGES) <= set(TRAINING_SETS)
