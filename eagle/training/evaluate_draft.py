"""Measure a draft by real decoding: acceptance by category and position, identity with the base.

In: a base, a draft and prompts (JSON lines). Out: a table and JSON. Every figure comes from
`eagle.decode`, the loops that serve: tokens per pass over all passes after the prefill, bonus token
included.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import torch

from eagle.decode import autoregressive_decode, speculative_decode
from eagle.drafting import Eagle3Draft
from eagle.errors import EagleConfigError
from eagle.loading import TargetFacts, bind_draft, check_fit, read_draft
from eagle.sampling import Sampler
from eagle.stopping import StopRule
from eagle.training.base import Base, add_base_arguments, load_base
from eagle.training.collate import ImageSlots
from eagle.training.generate_data import chat_prompt, encode
from eagle.training.images import ImageMerger
from eagle.training.prompts import PromptSeed, is_held_out, read_prompts
from eagle.training.target import TransformersTarget
from eagle.types import DecodeStep, MergedPrompt, SamplingParams, TreeShape

logger = logging.getLogger(__name__)

ALL = "all"


@dataclass(frozen=True, slots=True)
class Decoded:
    """One prompt decoded with the draft; `identical` None where texts may differ (sampling)."""

    category: str
    temperature: float
    steps: tuple[DecodeStep, ...]
    identical: bool | None

    @property
    def accepted(self) -> list[int]:
        """Draft tokens accepted in every pass after the prefill."""
        return [step.num_accepted for step in self.steps[1:]]

    @property
    def num_tokens(self) -> int:
        return sum(len(step.token_ids) for step in self.steps)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Figures over several answers. Lists are by position, the first drafted token first."""

    prompts: int
    tokens: int
    passes: int
    mean_acceptance_length: float
    unconditional: tuple[float, ...]  # passes that accepted at least so many tokens
    conditional: tuple[float, ...]  # of those that accepted one token fewer
    identical: int | None  # None: sampled

    @classmethod
    def of(cls, decoded: Sequence[Decoded]) -> Acceptance:
        """Raises `ZeroDivisionError` for answers that were over after the prefill."""
        accepted = [number for one in decoded for number in one.accepted]
        reached = [sum(n >= depth for n in accepted) for depth in range(max(accepted) + 1)]
        known = [one.identical for one in decoded if one.identical is not None]
        return cls(
            prompts=len(decoded),
            tokens=sum(one.num_tokens for one in decoded),
            passes=len(accepted),
            mean_acceptance_length=1 + sum(accepted) / len(accepted),
            unconditional=tuple(number / len(accepted) for number in reached[1:]),
            conditional=tuple(deeper / number for number, deeper in pairwise(reached)),
            identical=sum(known) if known else None,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "prompts": self.prompts,
            "tokens": self.tokens,
            "steps": self.passes,
            "mean_acceptance_length": self.mean_acceptance_length,
            "acceptance_by_position_unconditional": list(self.unconditional),
            "acceptance_by_position_conditional": list(self.conditional),
            "identical": self.identical,
        }


class Evaluator:
    """A base with a draft, decoding prompt after prompt."""

    def __init__(
        self,
        base: Base,
        draft: Path,
        shape: TreeShape,
        max_new_tokens: int,
        image_slots: ImageSlots = "plain",
    ) -> None:
        checkpoint = read_draft(draft)
        text = base.text_config
        facts = TargetFacts(text.hidden_size, text.vocab_size, text.num_hidden_layers)
        self.base, self.shape, self.max_new_tokens = base, shape, max_new_tokens
        self.target = TransformersTarget(base, check_fit(checkpoint, facts))
        self.head = bind_draft(
            checkpoint, base.embedding, dtype=base.model.dtype, device=base.model.device
        )
        self._image_slots = image_slots
        self._merger: ImageMerger | None = None

    def decode(self, seed: PromptSeed, temperature: float) -> Decoded:
        """With the draft, and at temperature 0 also without it."""
        prompt = self.prompt(seed)
        num_tokens = len(prompt) + self.max_new_tokens
        cache = self.target.new_cache(num_tokens + self.shape.verify_tree_size)
        draft = Eagle3Draft.fitting(self.head, self.shape, num_tokens)
        stop = StopRule(self.max_new_tokens, frozenset(self.base.stop_ids))
        sampling = SamplingParams(temperature)
        steps = tuple(
            speculative_decode(self.target, draft, prompt, cache, Sampler(sampling), stop)
        )
        identical = None
        if sampling.is_greedy:
            alone = autoregressive_decode(self.target, prompt, cache, Sampler(sampling), stop)
            identical = _token_ids(alone) == _token_ids(steps)
        return Decoded(seed.category, temperature, steps, identical)

    def prompt(self, seed: PromptSeed) -> MergedPrompt:
        """The chat prompt, merged as the base merges it."""
        embedding: Any = self.base.model.get_input_embeddings()
        text = chat_prompt(self.base, seed.text, with_image=seed.image is not None)
        if seed.image is None:
            ids = torch.tensor(encode(self.base, text), device=self.base.model.device)
            plain = embedding(ids).detach()
            return MergedPrompt(ids, plain, plain, torch.arange(len(ids)).expand(3, -1), 0)
        self._merger = self._merger or ImageMerger(self.base)
        token_ids, merged = self._merger.merge(text, seed.image)
        ids = torch.tensor(token_ids, device=self.base.model.device)
        delta = int(merged.positions.max()) + 1 - len(ids)
        seen = merged.embeds if self._image_slots == "merged" else embedding(ids).detach()
        return MergedPrompt(ids, merged.embeds, seen, merged.positions, delta)


def evaluate(
    evaluator: Evaluator, prompts: Sequence[PromptSeed], temperatures: Sequence[float]
) -> Iterator[Decoded]:
    """Every prompt at every temperature, with progress logged."""
    total = len(prompts) * len(temperatures)
    for temperature in temperatures:
        for number, seed in enumerate(prompts, 1):
            decoded = evaluator.decode(seed, temperature)
            yield decoded
            if number % 10 == 0:
                logger.info("temperature %g: %d of %d prompts", temperature, number, total)


def by_category(decoded: Iterable[Decoded]) -> dict[str, dict[str, Acceptance]]:
    """Per temperature, per category and for all; answers of one token say nothing and are left
    out."""
    groups: dict[str, dict[str, list[Decoded]]] = defaultdict(lambda: defaultdict(list))
    for one in decoded:
        if one.accepted:
            for category in (one.category, ALL):
                groups[f"temperature {one.temperature:g}"][category].append(one)
    return {
        name: {category: Acceptance.of(found) for category, found in sorted(group.items())}
        for name, group in groups.items()
    }


def table(figures: dict[str, dict[str, Acceptance]]) -> str:
    """Markdown."""
    lines = []
    for name, group in figures.items():
        lines += [
            f"{name}",
            "",
            "| category | prompts | tokens | steps | mean acceptance length | "
            "by position, conditional | by position, unconditional | identical |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for category, found in group.items():
            conditional, unconditional = (
                " ".join(f"{share:.2f}" for share in shares)
                for shares in (found.conditional, found.unconditional)
            )
            identical = "-" if found.identical is None else f"{found.identical}/{found.prompts}"
            lines.append(
                f"| {category} | {found.prompts} | {found.tokens} | {found.passes} | "
                f"{found.mean_acceptance_length:.2f} | {conditional} | {unconditional} | "
                f"{identical} |"
            )
        lines.append("")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shape = TreeShape()
    add_base_arguments(parser)
    parser.add_argument("--draft", required=True, type=Path, help="directory of the draft")
    parser.add_argument(
        "--prompts",
        required=True,
        type=Path,
        nargs="+",
        help="JSONL: prompt (or turns), category, image",
    )
    parser.add_argument(
        "--held-out-only",
        action="store_true",
        help="leave out what generate-data marks for training",
    )
    parser.add_argument("--limit", type=int, help="prompts of each category at most")
    parser.add_argument(
        "--temperatures",
        type=float,
        nargs="+",
        default=[0.0, 1.0],
        help="each is measured; 0 is greedy",
    )
    parser.add_argument("--max-new-tokens", type=int, default=128, help="longest answer")
    parser.add_argument(
        "--draft-top-k", type=int, default=shape.draft_top_k, help="branches of a node"
    )
    parser.add_argument(
        "--draft-step", type=int, default=shape.draft_step, help="levels of the tree"
    )
    parser.add_argument(
        "--verify-tree-size",
        type=int,
        default=shape.verify_tree_size,
        help="nodes that a pass of the base verifies",
    )
    parser.add_argument(
        "--dtype",
        default="float32",
        choices=("bfloat16", "float32"),
        help="in bfloat16 transformers' kernels round by the number of rows, and near-ties may "
        "flip",
    )
    parser.add_argument(
        "--image-slots",
        choices=get_args(ImageSlots),
        default="plain",
        help="what the draft reads at image positions, as it was trained",
    )
    parser.add_argument("--out", type=Path, help="JSON to write")


def run(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(arguments.threads)
    prompts = choose_prompts(arguments.prompts, arguments.limit, arguments.held_out_only)
    base = load_base(arguments.base, getattr(torch, arguments.dtype), arguments.device)
    shape = TreeShape(arguments.draft_top_k, arguments.draft_step, arguments.verify_tree_size)
    evaluator = Evaluator(
        base, arguments.draft, shape, arguments.max_new_tokens, arguments.image_slots
    )
    figures = by_category(evaluate(evaluator, prompts, arguments.temperatures))
    print(table(figures))  # noqa: T201
    if arguments.out:
        content = {
            name: {category: found.to_json() for category, found in group.items()}
            for name, group in figures.items()
        }
        arguments.out.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def choose_prompts(
    paths: Sequence[Path], limit: int | None, held_out_only: bool
) -> list[PromptSeed]:
    """The first `limit` prompts of each category. Raises `EagleConfigError` when none is left."""
    chosen: dict[str, list[PromptSeed]] = defaultdict(list)
    for seed in (seed for path in paths for seed in read_prompts(path)):
        if held_out_only and not is_held_out(seed.text, seed.image):
            continue
        if limit is None or len(chosen[seed.category]) < limit:
            chosen[seed.category].append(seed)
    prompts = [seed for group in chosen.values() for seed in group]
    if not prompts:
        raise EagleConfigError(
            f"{', '.join(map(str, paths))} holds no prompt to decode"
            f"{' that is held out of training' if held_out_only else ''}."
        )
    return prompts


def _token_ids(steps: Iterable[DecodeStep]) -> list[int]:
    return [token for step in steps for token in step.token_ids]
