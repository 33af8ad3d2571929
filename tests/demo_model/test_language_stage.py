"""Concepts, adapters and the loss through the language model, on a tiny model."""

import json
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import Qwen2_5_VLForConditionalGeneration

from tests import tiny
from tests.demo_model.test_composition import FIGURES, VISION_CONFIG, tiny_llama
from vlm.demo_model.composition import compose, language_model_weights
from vlm.demo_model.concepts import (
    BACKGROUND,
    FIRING,
    MARKS,
    NO_LETTER,
    NONE,
    NUM_WORDS,
    NUMBERS,
    THINGS,
    Concepts,
    cell_labels,
    middle_cell,
    patch_centers,
    patch_letters,
    wanted_words,
    write_dictionary,
)
from vlm.demo_model.language_model_source import LanguageModelSource
from vlm.demo_model.language_stage import (
    Dialogue,
    LanguageStage,
    Lesson,
    TextExample,
    add_adapters,
    draw_dialogues,
    read_text_examples,
)
from vlm.demo_model.material import Material
from vlm.demo_model.printing import LETTERS, write_word
from vlm.demo_model.scenes import draw_shapes
from vlm.demo_model.sheet import Scene
from vlm.demo_model.surfaces import COLORS
from vlm.demo_model.tower_stage import TowerStage, word_loss
from vlm.demo_model.vision_tower import MERGE, build_tower
from vlm.demo_model.weights import read_adapter_updates, write_adapter

VOCABULARY = 200
SOURCE_FIGURES = replace(FIGURES, vocab_size=VOCABULARY)
# The merger's hidden layer has a unit for every word.
TOWER_CONFIG = VISION_CONFIG | {"hidden_size": 256, "num_heads": 4, "intermediate_size": 64}


def _model() -> Qwen2_5_VLForConditionalGeneration:
    llama = tiny_llama(VOCABULARY)
    model = compose(LanguageModelSource(SOURCE_FIGURES, llama.model.state_dict()), TOWER_CONFIG)
    model.config.image_token_id = tiny.IMAGE_PAD
    return model


def _stage(material: Material, *, trains_tower: bool) -> LanguageStage:
    text = [TextExample((2, 5, 6), (7, 8, 9, 2))]
    tokenizer = tiny.tokenizer(images=True)
    torch.manual_seed(0)
    return LanguageStage(_model(), material, tokenizer, text, trains_tower=trains_tower)


def test_a_cell_says_what_it_shows(material: Material) -> None:
    scene = draw_shapes(np.random.default_rng(3), material, 4, 4)
    labels = cell_labels([scene])[0]
    shown = {cell for item in scene.items for cell in item.cells}
    for item in scene.items:
        for cell in item.cells:
            thing, color, mark, number = labels[cell].tolist()
            assert NUMBERS[number] == NUMBERS[scene.counts()[item.name] - 1]
            assert THINGS[thing] == item.name
            assert list(COLORS)[color] == item.color
            assert (MARKS[mark] == "center") if cell == middle_cell(scene, item) else mark == NONE
    for cell in set(range(16)) - shown:
        assert THINGS[labels[cell, 0]] == "background"


def test_letters_are_where_they_are_printed(material: Material) -> None:
    scene = write_word(np.random.default_rng(0), material, "eagle", 3, 4)
    found = patch_letters([scene])[0]
    assert found.shape == (3 * 4 * MERGE**2, 2)
    blocks = found.view(3, 4, MERGE, MERGE, 2)  # merge block by merge block
    rows = blocks.permute(0, 2, 1, 3, 4).reshape(3 * MERGE, -1)
    lines = {"".join(LETTERS[at] for at in row if at != NO_LETTER) for row in rows.tolist()}
    (line,) = lines - {""}
    assert "".join(letter for letter, _ in groupby(line)) == "eagle"


def test_every_object_has_one_middle(material: Material) -> None:
    scene = draw_shapes(np.random.default_rng(3), material, 4, 4)
    found = patch_centers([scene])[0]
    assert found.shape == (4 * 4 * MERGE**2,)
    assert found.sum() == len(scene.items)
    cells = found.view(16, MERGE**2).any(-1).nonzero().flatten().tolist()
    assert all(any(cell in item.cells for item in scene.items) for cell in cells)


def test_the_ground_says_how_many_things_there_are(material: Material) -> None:
    scene = draw_shapes(np.random.default_rng(3), material, 4, 4)
    labels = cell_labels([scene])[0]
    ground = labels[labels[:, 0] == THINGS.index(BACKGROUND)]
    assert len(scene.items) > 1
    assert set(ground[:, 3].tolist()) == {len(scene.items) - 1}
    word = write_word(np.random.default_rng(3), material, "sun", 4, 4)
    assert set(cell_labels([word])[0, :, 3].tolist()) == {NONE}


def test_a_token_says_the_words_whose_units_fire(material: Material) -> None:
    torch.manual_seed(1)
    concepts = Concepts.of(tiny.tokenizer(images=True), torch.randn(VOCABULARY, 512))
    scene = draw_shapes(np.random.default_rng(3), material, 4, 4)
    words = wanted_words(cell_labels([scene])).float()
    last_layer = torch.nn.Linear(NUM_WORDS + 20, 512)
    write_dictionary(last_layer, concepts)
    units = torch.cat((FIRING * words, torch.randn(1, 16, 20)), dim=-1)  # the rest says nothing
    with torch.no_grad():
        torch.testing.assert_close(last_layer(units), concepts.tokens(words))


def test_every_label_is_one_word(material: Material) -> None:
    labels = cell_labels([draw_shapes(np.random.default_rng(3), material, 4, 4)])
    words = wanted_words(labels)
    assert torch.equal(words.sum(-1), (labels != NONE).sum(-1))
    assert torch.equal(words[..., : len(THINGS)].argmax(-1), labels[..., 0])


def test_what_should_be_said_and_is_costs_least(material: Material) -> None:
    labels = cell_labels([draw_shapes(np.random.default_rng(3), material, 4, 4)])
    wanted = wanted_words(labels).float()
    right = 2 * FIRING * wanted - FIRING
    silent = torch.full_like(right, -FIRING)
    assert word_loss(right, labels) < word_loss(silent, labels) < word_loss(-right, labels)


def test_the_tower_stage_gets_better_on_a_batch_that_it_sees_again(material: Material) -> None:
    torch.manual_seed(0)
    stage = TowerStage(build_tower(TOWER_CONFIG), material)
    drawn = stage.draw(np.random.default_rng(0))[:8]
    optimizer = torch.optim.AdamW(stage.trained.parameters(), lr=3e-3)
    losses = []
    for _ in range(8):
        loss, number = stage.loss(drawn)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(loss.detach()))
    assert number == 8
    assert losses[-1] < losses[0]


def _lesson(*dialogues: Dialogue, naming: list[Scene] | None = None, told: bool = False) -> Lesson:
    number = sum(len(dialogue.scenes) for dialogue in dialogues)
    return Lesson(dialogues, torch.full((number,), told), (), naming)


@pytest.mark.parametrize("trains_tower", [False, True])
def test_a_lesson_reaches_every_trained_weight(material: Material, trains_tower: bool) -> None:
    """With B at zero, a LoRA's A has no gradient yet; everything else must have one."""
    stage = _stage(material, trains_tower=trains_tower)
    rng = np.random.default_rng(2)
    dialogues = tuple(draw_dialogues(rng, material, (3, 3), 2))
    naming = stage.draw(rng).naming if trains_tower else None
    while trains_tower and naming is None:
        naming = stage.draw(rng).naming
    loss, _ = stage.loss(_lesson(*dialogues, naming=naming))
    loss.backward()  # type: ignore[no-untyped-call]
    for name, parameter in stage.trained.named_parameters():
        if "lora_A" not in name and "letters" not in name and "centers" not in name:
            assert parameter.grad is not None, name
            assert bool(parameter.grad.any()), name


def test_what_is_told_does_not_come_from_the_tower(material: Material) -> None:
    stage = _stage(material, trains_tower=False)
    (one,) = draw_dialogues(np.random.default_rng(0), material, (3, 3), 1)
    white = tuple(replace(s, pixels=np.full_like(s.pixels, 255)) for s in one.scenes)
    blank = replace(one, scenes=white)
    with torch.no_grad():
        seen, unseen, told, told_blank = (
            float(stage.loss(_lesson(dialogue, told=told))[0])
            for told in (False, True)
            for dialogue in (one, blank)
        )
    assert seen != unseen
    assert told == told_blank != seen


def test_text_alone_is_learned_without_pictures(material: Material) -> None:
    stage = _stage(material, trains_tower=False)
    loss, pictures = stage.loss(replace(_lesson(), text=(TextExample((2, 5, 6), (7, 8, 9, 2)),)))
    assert pictures == 0
    assert float(loss.detach()) > 0


def test_two_pictures_of_a_dialogue_reach_the_model_in_order(material: Material) -> None:
    """The second picture changes the loss of what is asked after it."""
    stage = _stage(material, trains_tower=False)
    rng = np.random.default_rng(0)
    dialogues = [d for d in draw_dialogues(rng, material, (3, 3), 60) if len(d.scenes) == 2]
    assert dialogues
    one = dialogues[0]
    swapped = replace(one, scenes=one.scenes[::-1])
    with torch.no_grad():
        loss, _ = stage.loss(_lesson(one))
        other, _ = stage.loss(_lesson(swapped))
    assert float(loss) != float(other)


def test_text_examples_are_read_as_they_are_generated(tmp_path: Path) -> None:
    rows = [
        {"prompt_ids": [1, 2], "answer_ids": [3], "held_out": False},
        {"prompt_ids": [1], "answer_ids": [4], "held_out": True},
    ]
    path = tmp_path / "shard.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_text_examples([path]) == [TextExample((1, 2), (3,))]
    assert read_text_examples([path], held_out=True) == [TextExample((1,), (4,))]


def test_the_adapter_adds_what_peft_adds(tmp_path: Path) -> None:
    """The folder loads in PEFT, and the merged weights give PEFT's logits."""
    llama = tiny_llama()
    torch.manual_seed(0)
    language_model = _model().model.language_model
    add_adapters(language_model)
    learned = {
        name.removesuffix(".default.weight"): torch.randn_like(parameter) * 0.1
        for name, parameter in language_model.named_parameters()
        if "lora_" in name
    }
    config = {"peft_type": "LORA", "r": 16, "lora_alpha": 32, "target_modules": ["q_proj"]}
    config["target_modules"] = sorted({name.split(".")[-2] for name in learned})
    write_adapter(learned, config, tmp_path)
    updates = read_adapter_updates(tmp_path)

    source = LanguageModelSource(FIGURES, llama.model.state_dict())
    plain = {name: weight.clone() for name, weight in llama.model.state_dict().items()}
    merged = language_model_weights(source, updates)
    assert merged.keys() >= plain.keys()
    kept = {name: merged[name][: len(weight)] for name, weight in plain.items()}
    changed = [name for name, weight in plain.items() if not torch.equal(kept[name], weight)]
    assert sorted(changed) == sorted(updates)

    token_ids = torch.randint(0, FIGURES.vocab_size, (1, 9))
    with torch.no_grad():
        expected = PeftModel.from_pretrained(tiny_llama(), tmp_path / "adapter")(token_ids).logits
        llama.model.load_state_dict(kept)
        found = llama(token_ids).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_an_adapter_for_another_model_is_refused(tmp_path: Path) -> None:
    source = LanguageModelSource(FIGURES, tiny_llama().model.state_dict())
    with pytest.raises(KeyError):
        language_model_weights(source, {"layers.99.mlp.up_proj.weight": torch.zeros(1)})
