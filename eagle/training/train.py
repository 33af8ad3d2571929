"""Train an EAGLE-3 draft for a base, on the answers and hidden states of `generate-data`.

Training-time test with AdamW, a short warm-up and a cosine decay. Everything is a function of the
options and the data: a run that is stopped and started again ends in the same draft.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any, get_args

import torch

from eagle.errors import EagleConfigError
from eagle.training.base import Base, add_base_arguments, load_base
from eagle.training.collate import Collator, ImageSlots
from eagle.training.computing import FeatureComputer
from eagle.training.curve import CurvePoint, add_point, cut_curve
from eagle.training.dataset import (
    Example,
    check_image_embeds,
    endless_batches,
    load_examples,
    split,
)
from eagle.training.draft import Draft
from eagle.training.evaluation import Evaluation, evaluate
from eagle.training.export import TrainedDraft, export_draft, import_draft
from eagle.training.initialise import draft_shape, initialise, keep_output_size, scale_fc_norm
from eagle.training.losses import LossName, StepLoss, Target, ttt_loss
from eagle.training.progress import Progress
from eagle.training.vocabulary import build_vocabulary, count_tokens, coverage

logger = logging.getLogger(__name__)

SAMPLED_EXAMPLES = 8  # that say how large the inputs of new norms usually are


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """What is trained; with the data, one instance describes a draft completely."""

    steps: int = 2000
    ttt_steps: int = 7
    batch_slots: int = 512  # answer tokens a step, padding counted
    learning_rate: float = 1e-3
    warmup_steps: int = 50
    final_rate: float = 0.02  # share of the learning rate that the cosine ends at
    clip: float = 0.5
    draft_vocab_size: int = 8192
    seed: int = 0
    dtype: str = "bfloat16"
    checkpoint_every: int = 250
    evaluation_examples: int = 64
    loss: StepLoss = field(default_factory=StepLoss)
    fc_norm: bool = False
    norm_output: bool = False
    image_slots: ImageSlots = "plain"


class Trainer:
    """The mutable state of a run: draft, optimizer, step count, answer tokens seen."""

    def __init__(
        self,
        trained: TrainedDraft,
        target: Target,
        collate: Collator,
        options: TrainOptions,
        device: str = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self.trained, self.target, self.options = trained, target.to(self.device), options
        self.collate = collate
        trained.draft.to(self.device)
        self.step = self.tokens = 0
        self.optimizer = torch.optim.AdamW(
            trained.draft.parameters(), lr=options.learning_rate, betas=(0.9, 0.95), weight_decay=0
        )

    @property
    def draft(self) -> Draft:
        return self.trained.draft

    def precision(self) -> AbstractContextManager[object]:
        """Weights stay float32; matrix products run in the chosen type."""
        dtype = self.collate.dtype
        return torch.autocast(self.device.type, dtype, enabled=dtype != torch.float32)

    def train_step(self, examples: Sequence[Example]) -> float:
        rate = learning_rate(self.step, self.options)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        batch = self.collate(examples).to(self.device)
        with self.precision():
            options = self.options
            loss = ttt_loss(self.draft, self.target, batch, options.ttt_steps, options.loss)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.draft.parameters(), self.options.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens += sum(example.num_slots for example in examples)
        return loss.item()

    def evaluate(self, examples: Sequence[Example]) -> Evaluation:
        with self.precision():
            steps = self.options.ttt_steps
            return evaluate(self.draft, self.target, examples, steps, self.collate)

    def save(self, path: Path) -> None:
        state = {
            "options": asdict(self.options),
            "step": self.step,
            "tokens": self.tokens,
            "draft": self.draft.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "target_ids": self.target.vocabulary.target_ids.cpu(),
        }
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(path)

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of the same options and vocabulary."""
        state = torch.load(path, weights_only=True, map_location="cpu")
        same_words = torch.equal(state["target_ids"], self.target.vocabulary.target_ids.cpu())
        if state["options"] != asdict(self.options) or not same_words:
            raise EagleConfigError(
                f"{path} was written with other options or other data; remove it to start afresh."
            )
        self.step, self.tokens = state["step"], state["tokens"]
        self.draft.load_state_dict(state["draft"])
        self.optimizer.load_state_dict(state["optimizer"])


def learning_rate(step: int, options: TrainOptions) -> float:
    """Linear warm-up, then a cosine down to `final_rate`."""
    warm = min(1.0, (step + 1) / max(1, options.warmup_steps))
    cosine = 0.5 * (1 + math.cos(math.pi * step / max(1, options.steps)))
    return options.learning_rate * warm * (options.final_rate + (1 - options.final_rate) * cosine)


def collator(base: Base, options: TrainOptions) -> Collator:
    return Collator(getattr(torch, options.dtype), options.image_slots, FeatureComputer(base))


def first_draft(
    base: Base, examples: Sequence[Example], options: TrainOptions, start_from: Path | None
) -> TrainedDraft:
    """A new draft from the base's parts and the answers' most frequent tokens.

    With `start_from`, the layer is that draft's, and so are the head's rows of all tokens that both
    vocabularies have: more data may change the vocabulary without losing what was learned. The
    draft's variants are kept, and those of the options come on top.
    """
    counts = count_tokens(example.record.answer_ids for example in examples)
    vocabulary = build_vocabulary(counts, options.draft_vocab_size, base.text_config.vocab_size)
    old = import_draft(start_from, base) if start_from is not None else None
    plain = draft_shape(base, options.draft_vocab_size)
    had = old.draft.shape if old is not None else plain
    shape = replace(
        plain,
        fc_norm=options.fc_norm or had.fc_norm,
        norm_output=options.norm_output or had.norm_output,
    )
    torch.manual_seed(options.seed)
    trained = TrainedDraft(Draft(shape), vocabulary)
    initialise(trained.draft, base, vocabulary)
    if old is not None:
        carry_over(old, trained)
    sample = replace(collator(base, options), dtype=torch.float32)
    if shape.fc_norm and not had.fc_norm:
        scale_fc_norm(trained.draft, sample(examples[:SAMPLED_EXAMPLES]))
    if old is not None and shape.norm_output and not had.norm_output:
        keep_output_size(trained.draft, base.embedding, sample(examples[:SAMPLED_EXAMPLES]))
    return trained


@torch.no_grad()
def carry_over(old: TrainedDraft, new: TrainedDraft) -> None:
    """Copy `old` into `new`, whose vocabulary may differ and which may have further norms."""
    tensors, fresh_head = new.draft.state_dict(), new.draft.lm_head.weight.clone()
    if old.draft.shape.norm_output:
        # Its head has learned to follow another norm than the base's.
        fresh_head *= new.draft.norm.weight / old.draft.norm.weight
    new.draft.load_state_dict(tensors | old.draft.state_dict() | {"lm_head.weight": fresh_head})
    row_of = {token: row for row, token in enumerate(old.vocabulary.target_ids.tolist())}
    for row, token in enumerate(new.vocabulary.target_ids.tolist()):
        if token in row_of:
            new.draft.lm_head.weight[row] = old.draft.lm_head.weight[row_of[token]]


def prepare(
    base: Base,
    data: Sequence[Path],
    options: TrainOptions,
    start_from: Path | None,
    device: str = "cpu",
) -> tuple[list[Example], list[Example], Trainer]:
    """Examples to train on, held-out ones to evaluate on, and a trainer at step 0."""
    found = load_examples(data)
    if options.image_slots == "merged":
        check_image_embeds(found)
    if any(example.stored is None for example in found):
        model: Any = base.model
        model.to(device)
    examples, held_out = split(found)
    held_out = held_out[: options.evaluation_examples]
    trained = first_draft(base, examples, options, start_from)
    vocabulary = trained.vocabulary
    for name, part in (("training", examples), ("held-out", held_out)):
        counts = count_tokens(example.record.answer_ids for example in part)
        logger.info(
            "%s: %d answers, %d tokens, %.2f %% of them among the draft's %d",
            name,
            len(part),
            counts.total(),
            100 * coverage(counts, vocabulary),
            len(vocabulary.d2t),
        )
    target = Target(base.embedding, base.head[vocabulary.target_ids], vocabulary)
    return examples, held_out, Trainer(trained, target, collator(base, options), options, device)


def train(
    base: Base,
    data: Sequence[Path],
    out: Path,
    options: TrainOptions,
    start_from: Path | None = None,
    device: str = "cpu",
) -> Evaluation:
    """Train to `options.steps` and write the draft to `out`, also at every checkpoint.

    The checkpoint stands beside `out` and is taken up again if it is there; so does the curve.
    """
    examples, held_out, trainer = prepare(base, data, options, start_from, device)
    checkpoint = out.with_name(f"{out.name}.checkpoint.pt")
    if checkpoint.exists():
        trainer.resume(checkpoint)
        logger.info("resumed at step %d", trainer.step)
    curve = out.with_name(f"{out.name}.curve.jsonl")
    cut_curve(curve, trainer.step)

    batches = endless_batches(examples, options.batch_slots, options.seed)
    progress = Progress("steps", options.steps, trainer.step)
    losses: list[float] = []
    for batch in itertools.islice(batches, trainer.step, options.steps):
        seen = trainer.tokens
        losses.append(trainer.train_step(batch))
        progress.tokens(trainer.tokens - seen)
        progress.unit_done(f"loss {mean(losses):.3f}")
        if trainer.step % options.checkpoint_every == 0 and trainer.step < options.steps:
            record(trainer, trainer.evaluate(held_out), losses, curve)
            trainer.save(checkpoint)
            export_draft(trainer.trained, base, out)
            losses.clear()
    evaluation = trainer.evaluate(held_out)
    record(trainer, evaluation, losses, curve)
    export_draft(trainer.trained, base, out)
    checkpoint.unlink(missing_ok=True)
    return evaluation


def record(trainer: Trainer, evaluation: Evaluation, losses: Sequence[float], curve: Path) -> None:
    """Log an evaluation and add it to the curve."""
    logger.info("step %d, %d answer tokens: %s", trainer.step, trainer.tokens, evaluation)
    point = CurvePoint(
        trainer.step,
        trainer.tokens,
        mean(losses) if losses else None,
        evaluation.accuracy,
        evaluation.acceptance_length,
    )
    add_point(curve, point)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    defaults = TrainOptions()
    add_base_arguments(parser)
    parser.add_argument("--data", required=True, type=Path, nargs="+", help="training sets")
    parser.add_argument("--out", required=True, type=Path, help="directory of the draft")
    parser.add_argument("--start-from", type=Path, help="a draft to train further")
    parser.add_argument("--steps", type=int, default=defaults.steps, help="steps of the optimizer")
    parser.add_argument(
        "--ttt-steps",
        type=int,
        default=defaults.ttt_steps,
        help="levels deep that the draft learns to go on from itself",
    )
    parser.add_argument(
        "--batch-slots",
        type=int,
        default=defaults.batch_slots,
        help="answer tokens a step, padding counted",
    )
    parser.add_argument(
        "--learning-rate", type=float, default=defaults.learning_rate, help="peak of the rate"
    )
    parser.add_argument(
        "--draft-vocab-size",
        type=int,
        default=defaults.draft_vocab_size,
        help="the most frequent tokens of the answers",
    )
    parser.add_argument(
        "--loss",
        choices=get_args(LossName),
        default=defaults.loss.name,
        help="soft cross-entropy, or the LK losses, which aim at the acceptance of sampled drafts",
    )
    parser.add_argument(
        "--kl-scale",
        type=float,
        default=defaults.loss.kl_scale,
        help="lk-lambda gives KL the weight SCALE exp(-DECAY acceptance)",
    )
    parser.add_argument(
        "--kl-decay", type=float, default=defaults.loss.kl_decay, help="see --kl-scale"
    )
    parser.add_argument(
        "--fc-norm",
        action="store_true",
        help="EAGLE-3.1: norm each captured state before they are fused (kept by --start-from)",
    )
    parser.add_argument(
        "--norm-output",
        action="store_true",
        help="EAGLE-3.1: feed the draft its normed output back (kept by --start-from)",
    )
    parser.add_argument(
        "--image-slots",
        choices=get_args(ImageSlots),
        default=defaults.image_slots,
        help="what the draft reads at image positions: the placeholder's plain embedding, or the "
        "picture's merged ones; decode with the same (--draft-image-embeddings)",
    )
    parser.add_argument(
        "--checkpoint-every",
        type=int,
        default=defaults.checkpoint_every,
        help="steps between evaluations and checkpoints",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=defaults.seed,
        help="order of the answers, and the weights that start at random",
    )


def run(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(arguments.threads)
    options = TrainOptions(
        steps=arguments.steps,
        ttt_steps=arguments.ttt_steps,
        batch_slots=arguments.batch_slots,
        learning_rate=arguments.learning_rate,
        draft_vocab_size=arguments.draft_vocab_size,
        seed=arguments.seed,
        checkpoint_every=arguments.checkpoint_every,
        loss=StepLoss(arguments.loss, arguments.kl_scale, arguments.kl_decay),
        fc_norm=arguments.fc_norm,
        norm_output=arguments.norm_output,
        image_slots=arguments.image_slots,
    )
    base = load_base(arguments.base)
    train(base, arguments.data, arguments.out, options, arguments.start_from, arguments.device)
