"""The trainer: its loss, its agreement with inference, resuming, and that it learns."""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from eagle.checkpoint import read_config
from eagle.errors import EagleConfigError
from eagle.loading import TargetFacts, bind_draft, check_fit, read_draft
from eagle.training import progress as progress_module
from eagle.training import train as train_module
from eagle.training.base import Base
from eagle.training.collate import Collator, ImageSlots
from eagle.training.curve import CurvePoint
from eagle.training.dataset import (
    Example,
    endless_batches,
    load_examples,
    split,
)
from eagle.training.evaluation import chain_rounds
from eagle.training.export import WEIGHTS, TrainedDraft, export_draft, import_draft
from eagle.training.images import ImageMerger
from eagle.training.losses import StepLoss, Target, ttt_loss
from eagle.training.progress import Progress
from eagle.training.train import TrainOptions, first_draft, prepare, train
from eagle.training.ttt import Batch, shift_left, unroll
from tests import tiny
from visual_encoder.types import VisionFeatures
from vlm.checkpoint import base_config, load_language_model
from vlm.merge import merge
from vlm.prompt import TokenizedPrompt

OPTIONS = TrainOptions(
    steps=12,
    ttt_steps=3,
    batch_slots=60,
    warmup_steps=2,
    draft_vocab_size=90,
    dtype="float32",
    checkpoint_every=5,
)


@pytest.fixture(scope="module")
def trained(base: Base, examples: list[Example]) -> TrainedDraft:
    return first_draft(base, examples, OPTIONS, None)


@pytest.fixture(scope="module")
def target(base: Base, trained: TrainedDraft) -> Target:
    head = base.head[trained.vocabulary.target_ids]
    return Target(base.embedding, head, trained.vocabulary)


def in_float32(examples: list[Example]) -> Batch:
    return Collator(torch.float32)(examples)


def test_step_0_is_plain_teacher_forcing(
    trained: TrainedDraft, target: Target, examples: list[Example]
) -> None:
    """Full attention over each record by itself, cross-entropy with the base's distribution."""
    batch = in_float32(examples[:3])
    losses = []
    for row, example in enumerate(examples[:3]):
        single = in_float32([example])
        hidden = next(unroll(trained.draft, target.embedding, single, 1))
        log_q = F.log_softmax(trained.draft.logits(hidden[0]), dim=-1)
        p = F.softmax(single.last_states[0] @ target.head.T, dim=-1)
        mask = trained.vocabulary.t2d[batch.greedy_ids[row, : example.num_slots]]
        losses.append((-(p * log_q).sum(-1) * mask).sum())
    wanted = torch.stack(losses).sum() / batch.answer_valid.sum()
    torch.testing.assert_close(ttt_loss(trained.draft, target, batch, 1, StepLoss()), wanted)


def test_the_loss_s_gradient_is_autograd_s(
    trained: TrainedDraft, target: Target, examples: list[Example]
) -> None:
    batch = in_float32(examples[:2])
    weight = trained.draft.lm_head.weight
    (ours,) = torch.autograd.grad(ttt_loss(trained.draft, target, batch, 1, StepLoss()), weight)
    hidden = next(unroll(trained.draft, target.embedding, batch, 1))
    log_q = F.log_softmax(trained.draft.logits(hidden), dim=-1)
    mask = batch.answer_valid & trained.vocabulary.t2d[batch.greedy_ids]
    loss = -((target.probabilities(batch) * log_q).sum(-1) * mask).sum()
    (wanted,) = torch.autograd.grad(loss / batch.answer_valid.sum(), weight)
    torch.testing.assert_close(ours, wanted)


def test_answers_may_be_shorter_than_the_unrolled_steps(
    trained: TrainedDraft, target: Target, examples: list[Example]
) -> None:
    """Steps beyond the answer's end have nothing to learn from and add nothing to the loss."""
    batch = in_float32([min(examples, key=lambda example: example.num_slots)])
    slots = batch.num_answer_slots
    to_the_end, beyond = (
        ttt_loss(trained.draft, target, batch, steps, StepLoss()) for steps in (slots, slots + 3)
    )
    assert to_the_end > 0
    torch.testing.assert_close(beyond, to_the_end)


@pytest.mark.parametrize("fc_norm", [False, True])
@pytest.mark.parametrize("norm_output", [False, True])
def test_training_steps_are_inference_s_tree_levels(
    base: Base, examples: list[Example], tmp_path: Path, fc_norm: bool, norm_output: bool
) -> None:
    """The hidden state of step i in slot s equals level i + 1 below a root at the same place."""
    options = dataclasses.replace(OPTIONS, fc_norm=fc_norm, norm_output=norm_output)
    export_draft(first_draft(base, examples, options, None), base, tmp_path / "draft")
    trained = import_draft(tmp_path / "draft", base)  # what bfloat16 has kept
    checkpoint = read_draft(tmp_path / "draft")
    assert (checkpoint.config.fc_norm, checkpoint.config.norm_output) == (fc_norm, norm_output)
    head = bind_draft(checkpoint, base.embedding, dtype=torch.float32, device=torch.device("cpu"))
    example, slot = examples[0], 4
    batch = in_float32([example])
    steps = list(unroll(trained.draft, base.embedding, batch, 3))

    seen = len(example.record.prompt_ids) + slot
    cache = head.new_cache(256)
    embeds = head.embed(batch.next_ids[0, :seen])
    features = head.fuse_aux(batch.aux[0, :seen])
    hidden = head.forward(embeds, features, batch.positions[:, 0, :seen], cache)[-1:]
    for level, step in enumerate(steps):
        torch.testing.assert_close(step[0, slot], hidden[0], atol=1e-4, rtol=1e-4)
        log_q = F.log_softmax(trained.draft.logits(step[0, slot]), dim=-1)
        wanted = head.log_probabilities(hidden)[0]
        torch.testing.assert_close(log_q, wanted, atol=1e-4, rtol=1e-4)
        token = torch.tensor([example.record.answer_ids[slot + level + 1]])
        positions = torch.full((3, 1), seen + level)
        hidden = head.forward(head.embed(token), head.recycled(hidden), positions, cache)


@pytest.mark.parametrize("image_slots", ["plain", "merged"])
def test_image_slots_are_inference_s(
    base: Base,
    base_directory: Path,
    pictures: Path,
    trained: TrainedDraft,
    tmp_path: Path,
    image_slots: ImageSlots,
) -> None:
    """The first hidden state after a prompt with a picture, against the page's own merging."""
    export_draft(trained, base, tmp_path / "draft")
    trained = import_draft(tmp_path / "draft", base)
    head = bind_draft(
        read_draft(tmp_path / "draft"),
        base.embedding,
        dtype=torch.float32,
        device=base.model.device,
    )
    example = load_examples([pictures / "data"])[0]
    batch = Collator(torch.float32, image_slots)([example])
    ours = next(unroll(trained.draft, base.embedding, batch, 1))[0, 0]

    features, grid = ImageMerger(base).see(pictures / "noise.png")
    prompt = merge(
        TokenizedPrompt(example.record.prompt_ids, example.record.placeholders[:1]),
        VisionFeatures(features, (tuple(grid[0].tolist()),), "torch", seconds=0),
        load_language_model(
            base_directory,
            base_config(base_directory),
            aux_layers=(2, 3, 4),
            dtype=torch.float32,
            device=base.model.device,
        ),
        image_token_id=tiny.IMAGE_PAD,
        merged_draft_embeddings=image_slots == "merged",
    )
    root = head.embed(torch.tensor(example.record.answer_ids[:1]))
    fused = head.fuse_aux(batch.aux[0, : len(prompt)])
    embeds = torch.cat((prompt.draft_embeds[1:], root))
    hidden = head.forward(embeds, fused, prompt.position_ids, head.new_cache(256))[-1]
    torch.testing.assert_close(ours, hidden, atol=2e-3, rtol=2e-3)  # bfloat16 embeddings are stored


def test_a_draft_keeps_its_variants_and_can_gain_more(
    base: Base, examples: list[Example], tmp_path: Path
) -> None:
    """Norms that are added keep the usual size of what they norm, so little moves at first."""
    export_draft(first_draft(base, examples, OPTIONS, None), base, tmp_path / "plain")
    both = dataclasses.replace(OPTIONS, fc_norm=True, norm_output=True)
    gained = first_draft(base, examples, both, tmp_path / "plain")
    plain, batch = import_draft(tmp_path / "plain", base), in_float32(examples[:8])
    ours, wanted = (unroll(each.draft, base.embedding, batch, 2) for each in (gained, plain))
    for step, (one, other) in enumerate(zip(ours, wanted, strict=True)):
        exists = shift_left(batch.answer_valid, step)
        logits, before = gained.draft.logits(one)[exists], plain.draft.logits(other)[exists]
        assert (logits - before).norm() < 0.2 * before.norm()

    export_draft(gained, base, tmp_path / "gained")
    kept = first_draft(base, examples, OPTIONS, tmp_path / "gained")
    assert (kept.draft.shape.fc_norm, kept.draft.shape.norm_output) == (True, True)
    assert torch.equal(kept.draft.fc.weight, gained.draft.fc.weight.bfloat16().float())


def test_a_draft_with_another_norm_is_refused(
    base: Base, trained: TrainedDraft, tmp_path: Path
) -> None:
    export_draft(trained, base, tmp_path / "draft")
    config = read_config(tmp_path / "draft") | {"norm_before_residual": True}
    (tmp_path / "draft" / "config.json").write_text(json.dumps(config))
    with pytest.raises(EagleConfigError, match="start from another"):
        import_draft(tmp_path / "draft", base)


def test_the_exported_draft_fits_its_base(
    base: Base, base_directory: Path, trained: TrainedDraft, tmp_path: Path
) -> None:
    export_draft(trained, base, tmp_path / "draft")
    config = read_config(tmp_path / "draft")
    assert config["rope_scaling"] == {"type": "mrope", "mrope_section": [1, 1, 2]}
    facts = TargetFacts.from_json(read_config(base_directory))
    assert check_fit(read_draft(tmp_path / "draft"), facts) == (2, 3, 4)


def test_chain_rounds_replays_a_chain() -> None:
    agrees = torch.tensor(
        [
            [1, 0, 0, 1, 1, 0],
            [1, 1, 0, 0, 1, 0],
            [0, 1, 1, 0, 0, 0],
        ],
        dtype=torch.bool,
    )
    # Slot 0 accepts two and moves on to slot 3, which accepts one and moves on to slot 5.
    assert chain_rounds(agrees, 6) == 3


def test_resuming_changes_nothing(
    base: Base, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(base, [data], tmp_path / "whole", OPTIONS)

    class Interrupted(Exception):
        pass

    real = train_module.Trainer.train_step

    def failing(self: train_module.Trainer, batch: list[Example]) -> float:
        if self.step == 7:
            raise Interrupted
        return real(self, batch)

    monkeypatch.setattr(train_module.Trainer, "train_step", failing)
    with pytest.raises(Interrupted):
        train(base, [data], tmp_path / "parts", OPTIONS)
    monkeypatch.undo()
    train(base, [data], tmp_path / "parts", OPTIONS)

    whole, parts = (load_file(tmp_path / name / WEIGHTS) for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    curves = [(tmp_path / f"{name}.curve.jsonl").read_text() for name in ("whole", "parts")]
    assert curves[0] == curves[1]


def test_the_curve_has_a_point_an_evaluation(
    base: Base, data: Path, examples: list[Example], tmp_path: Path
) -> None:
    (tmp_path / "draft.curve.jsonl").write_text('{"step": 5}\n')  # of a run before this one
    evaluation = train(base, [data], tmp_path / "draft", OPTIONS)
    lines = (tmp_path / "draft.curve.jsonl").read_text().splitlines()
    points = [CurvePoint(**json.loads(line)) for line in lines]
    assert [point.step for point in points] == [5, 10, 12]
    training, _ = split(examples)
    batches = itertools.islice(endless_batches(training, OPTIONS.batch_slots, OPTIONS.seed), 12)
    assert points[-1].tokens == sum(e.num_slots for batch in batches for e in batch)
    assert tuple(points[-1].accuracy) == evaluation.accuracy
    assert points[-1].loss is not None
    assert points[-1].loss > 0


def test_progress_tells_the_time_left(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 20.0, 120.0, 150.0])
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(clock))
    with caplog.at_level(logging.INFO):
        progress = Progress("steps", total=103, done=100)
        for _ in range(3):
            progress.tokens(100)
            progress.unit_done("loss 2.5")
    assert caplog.messages == [
        "102 of 103 steps (99 %), loss 2.5, 2 tokens/s, 1 minutes left",
        "103 of 103 steps (100 %), loss 2.5, 2 tokens/s, 0 minutes left",
    ]


def test_a_tiny_base_is_learned(base: Base, data: Path) -> None:
    """Trained on the answers that it is then asked for; random weights leave many near-ties."""
    options = dataclasses.replace(
        OPTIONS, steps=80, learning_rate=1e-2, batch_slots=240, draft_vocab_size=150
    )
    examples, _, trainer = prepare(base, [data], options, None)
    before = trainer.evaluate(examples)
    batches = endless_batches(examples, options.batch_slots, options.seed)
    for batch in itertools.islice(batches, options.steps):
        trainer.train_step(batch)
    after = trainer.evaluate(examples)
    assert before.accuracy[0] < 0.2
    assert min(after.accuracy) > 0.5
    assert after.acceptance_length > 1.8
