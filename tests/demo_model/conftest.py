"""Coloured blocks in place of the real artwork, which is not part of the repository."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFont

from vlm.demo_model.material import Material
from vlm.demo_model.objects import OBJECTS


@pytest.fixture(scope="session")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """One set of drawings, and the font that Pillow carries."""
    rng = np.random.default_rng(0)

    def block() -> Image.Image:
        return Image.fromarray(rng.integers(0, 256, (40, 30, 4), dtype=np.uint8))

    return Material([{shown.name: [block()] for shown in OBJECTS}], (str(_font(tmp_path_factory)),))


def _font(tmp_path_factory: pytest.TempPathFactory) -> Path:
    font = ImageFont.load_default(20)
    assert isinstance(font, ImageFont.FreeTypeFont)
    assert isinstance(font.path, io.BytesIO)
    path = tmp_path_factory.mktemp("font") / "font.ttf"
    path.write_bytes(font.path.getvalue())
    return path
