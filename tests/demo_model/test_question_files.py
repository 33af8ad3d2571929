"""Questions for training a draft are what generate-data reads."""

from pathlib import Path

import pytest

from eagle.training.prompts import read_prompts
from vlm.demo_model.material import Material
from vlm.demo_model.question_files import write_questions


def test_generate_data_reads_what_is_written(material: Material, tmp_path: Path) -> None:
    seeds = read_prompts(write_questions(material, tmp_path, 40, seed=3))
    assert len(seeds) == 40
    assert {seed.category for seed in seeds} == {"image description", "short image answer"}
    assert all(seed.image is not None and seed.image.exists() for seed in seeds)


def test_another_seed_asks_other_things(material: Material, tmp_path: Path) -> None:
    texts = [
        write_questions(material, tmp_path / name, 10, seed).read_text()
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("number", [0, 1])
def test_as_many_as_asked_for(material: Material, tmp_path: Path, number: int) -> None:
    assert len(read_prompts(write_questions(material, tmp_path, number, seed=0))) == number
