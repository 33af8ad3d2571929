"""Write a training set: prompts, the base's own answers to them, and its hidden states.

Regenerating the answers with the base itself matters more to a draft than any other choice about
data: the draft has to foresee this base, not good English. Everything is a function of `--seed` and
the prompt's number, and work is kept shard by shard, so a run can be stopped, resumed and extended.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from eagle.errors import EagleConfigError
from eagle.training.base import Base, add_base_arguments, load_base
from eagle.training.batch_decode import BatchDecoder, Completion, Request
from eagle.training.images import ImageMerger
from eagle.training.progress import Progress
from eagle.training.prompts import PromptSeed, is_held_out, prompt_seed, read_prompts
from eagle.training.shards import Features, Record, shard_path, write_shard

logger = logging.getLogger(__name__)

_MARK = "\u0001"  # stands for the user's text while the chat template is taken apart


@dataclass(frozen=True, slots=True)
class DataOptions:
    """What is generated; one instance describes a training set completely."""

    num_prompts: int = 4096
    shard_size: int = 512
    seed: int = 0
    max_new_tokens: int = 160
    max_prompt_tokens: int = 192
    invented_tokens: int = 60
    invented_temperature: float = 0.9
    answer_temperature: float = 0.8
    sampled_share: float = 0.25
    rows: int = 64
    keep_states: bool = True  # without them, training runs the base again


def open_user_turn(base: Base) -> str:
    """The chat template up to the point where the user's text begins."""
    text: str = base.tokenizer.apply_chat_template(
        [{"role": "user", "content": _MARK}], tokenize=False
    )
    return text.split(_MARK)[0]


def chat_prompt(base: Base, text: str, *, with_image: bool = False) -> str:
    """The chat template around one user turn, ready for the answer."""
    parts = [{"type": "image"}, {"type": "text", "text": text}]
    prompt: str = base.tokenizer.apply_chat_template(
        [{"role": "user", "content": parts if with_image else text}],
        tokenize=False,
        add_generation_prompt=True,
    )
    return prompt


def encode(base: Base, text: str) -> tuple[int, ...]:
    return tuple(base.tokenizer(text, add_special_tokens=False)["input_ids"])


def invent_turns(
    base: Base,
    decoder: BatchDecoder,
    seeds: dict[int, PromptSeed],
    options: DataOptions,
    progress: Progress,
) -> dict[int, str]:
    """Let the base finish the user turns that only begin; unfinished or empty ones are dropped."""
    prefix = open_user_turn(base)
    requests = [
        Request(
            key=index,
            prompt_ids=encode(base, prefix + seed.text),
            temperature=options.invented_temperature,
            max_new_tokens=options.invented_tokens,
            seed=_stream(options.seed, index, "turn"),
        )
        for index, seed in seeds.items()
    ]
    turns = {}
    for done in decoder.run(requests, progress.tokens):
        key = done.request.key
        if len(done.new_ids) > 1 and done.new_ids[-1] in base.stop_ids:
            rest: str = base.tokenizer.decode(done.new_ids[:-1])
            turns[key] = (seeds[key].text + rest).strip()
    return turns


class Generator:
    """Answers numbered prompts, a shard at a time."""

    def __init__(self, base: Base, options: DataOptions, progress: Progress) -> None:
        self.base, self.options, self.progress = base, options, progress
        longest = max(options.max_new_tokens, options.invented_tokens)
        self.decoder = BatchDecoder(
            base, rows=options.rows, capacity=options.max_prompt_tokens + longest
        )
        self.merger: ImageMerger | None = None

    def write_shard(self, path: Path, seeds: dict[int, PromptSeed]) -> None:
        """Write records and features for these prompts, in the order of their numbers."""
        texts = {index: seed.text for index, seed in seeds.items() if not seed.invented}
        to_invent = {index: seed for index, seed in seeds.items() if seed.invented}
        texts |= invent_turns(self.base, self.decoder, to_invent, self.options, self.progress)
        requests = [self._request(i, text, seeds[i].image) for i, text in texts.items()]
        limit = self.options.max_prompt_tokens
        records: dict[int, Record] = {}
        features: dict[int, Features] = {}
        short = [request for request in requests if len(request.prompt_ids) <= limit]
        if not short:
            raise EagleConfigError(
                f"none of the {len(requests)} prompts of {path.name} has at most {limit} tokens, "
                f"those of pictures counted: raise --max-prompt-tokens."
            )
        for done in self.decoder.run(short, self.progress.tokens):
            self.progress.unit_done()
            index = done.request.key
            records[index] = _record(seeds[index], texts[index], done, path.parent)
            if self.options.keep_states:
                features[index] = done.features
        kept = [features[i] for i in sorted(features)] if self.options.keep_states else None
        write_shard(path, [records[i] for i in sorted(records)], kept)
        tokens = sum(len(record.answer_ids) for record in records.values())
        logger.info(
            "%s: %d answers, %d answer tokens; %d prompts of more than %d tokens left out",
            path.name,
            len(records),
            tokens,
            len(requests) - len(short),
            limit,
        )

    def _request(self, index: int, text: str, image: Path | None) -> Request:
        options = self.options
        sampled = _rng(options.seed, index, "mode").random() < options.sampled_share
        prompt, merged = chat_prompt(self.base, text, with_image=image is not None), None
        if image is None:
            ids = encode(self.base, prompt)
        else:
            self.merger = self.merger or ImageMerger(self.base)
            ids, merged = self.merger.merge(prompt, image)
        return Request(
            key=index,
            prompt_ids=ids,
            temperature=options.answer_temperature if sampled else 0.0,
            max_new_tokens=options.max_new_tokens,
            seed=_stream(options.seed, index, "answer"),
            merged=merged,
        )


def _record(seed: PromptSeed, text: str, done: Completion, folder: Path) -> Record:
    request, positions, placeholders = done.request, None, ()
    if request.merged is not None:
        placeholders = tuple(request.merged.is_image.nonzero()[:, 0].tolist())
        prompt = request.merged.positions.cpu()
        following = prompt.max() + 1 + torch.arange(len(done.new_ids) - 1).expand(3, -1)
        positions = tuple(map(tuple, torch.cat((prompt, following), dim=1).tolist()))
    return Record(
        index=request.key,
        category=seed.category,
        prompt=text,
        held_out=is_held_out(text, seed.image),
        temperature=request.temperature,
        prompt_ids=request.prompt_ids,
        answer_ids=done.new_ids,
        greedy_ids=done.greedy_ids,
        positions=positions,
        placeholders=placeholders,
        image=os.path.relpath(seed.image.resolve(), folder.resolve()) if seed.image else None,
    )


def generate(
    base: Base, out: Path, options: DataOptions, prompts: Sequence[PromptSeed] | None = None
) -> None:
    """Write every shard that is missing from `out`; `prompts` replace the composed ones."""
    count = options.num_prompts if prompts is None else len(prompts)
    starts = range(0, count, options.shard_size)
    missing = [s for s in starts if not shard_path(out, s // options.shard_size).exists()]
    to_answer = sum(min(options.shard_size, count - start) for start in missing)
    progress = Progress("prompts", to_answer)
    generator = Generator(base, options, progress)
    for start in missing:
        numbers = range(start, min(start + options.shard_size, count))
        seeds = {i: prompts[i] if prompts else prompt_seed(options.seed, i) for i in numbers}
        generator.write_shard(shard_path(out, start // options.shard_size), seeds)
    generator.decoder.close()


def _rng(*parts: object) -> random.Random:
    return random.Random("/".join(map(str, parts)))


def _stream(*parts: object) -> int:
    return _rng(*parts).getrandbits(48)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    defaults = DataOptions()
    add_base_arguments(parser)
    parser.add_argument("--out", required=True, type=Path, help="folder of the training set")
    parser.add_argument("--prompts", type=Path, help="JSONL of prompts instead of composed ones")
    parser.add_argument(
        "--num-prompts", type=int, default=defaults.num_prompts, help="how many prompts to compose"
    )
    parser.add_argument(
        "--max-new-tokens", type=int, default=defaults.max_new_tokens, help="longest answer"
    )
    parser.add_argument(
        "--max-prompt-tokens",
        type=int,
        default=defaults.max_prompt_tokens,
        help="longer prompts, tokens of pictures counted, are left out",
    )
    parser.add_argument("--rows", type=int, default=defaults.rows, help="answers at a time")
    parser.add_argument(
        "--no-states",
        action="store_true",
        help="store no hidden states, which take 28 kB a token for a base of 7B; training then "
        "runs the base at every step",
    )
    parser.add_argument(
        "--seed", type=int, default=defaults.seed, help="prompts and sampled answers"
    )


def run(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(arguments.threads)
    options = DataOptions(
        num_prompts=arguments.num_prompts,
        max_new_tokens=arguments.max_new_tokens,
        max_prompt_tokens=arguments.max_prompt_tokens,
        rows=arguments.rows,
        seed=arguments.seed,
        keep_states=not arguments.no_states,
    )
    prompts = read_prompts(arguments.prompts) if arguments.prompts else None
    generate(load_base(arguments.base, device=arguments.device), arguments.out, options, prompts)
