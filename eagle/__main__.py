"""`python -m eagle COMMAND`: inspect and convert drafts, train them for any base, measure them."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from eagle.checkpoint import read_config, resolve_checkpoint
from eagle.convert import convert_draft
from eagle.draft_config import DraftFormat
from eagle.errors import EagleError
from eagle.loading import DraftCheckpoint, TargetFacts, check_fit, read_draft

TRAINING_COMMANDS = ("generate-data", "train", "evaluate", "held-out", "plot")


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, or 2 with one sentence on standard error."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    parsed = build_parser(with_training=bool({*arguments} & {*TRAINING_COMMANDS})).parse_args(
        arguments
    )
    try:
        parsed.run(parsed)
    except EagleError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    return 0


def build_parser(*, with_training: bool) -> argparse.ArgumentParser:
    """`with_training` False leaves the training commands empty: they import transformers."""
    parser = argparse.ArgumentParser(prog="python -m eagle", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    inspect = commands.add_parser("inspect", help="print a draft's facts and check its fit")
    inspect.add_argument("draft", help="directory or Hugging Face id of an EAGLE-3 draft")
    inspect.add_argument("--base", help="directory or id of the base to check it against")
    inspect.set_defaults(run=run_inspect)
    convert = commands.add_parser("convert", help="write a draft in another form")
    convert.add_argument("draft", help="directory or Hugging Face id of an EAGLE-3 draft")
    convert.add_argument("--base", required=True, help="directory or id of the draft's base")
    convert.add_argument("--format", required=True, choices=get_args(DraftFormat))
    convert.add_argument("--out", required=True, type=Path, help="directory to write")
    convert.set_defaults(run=run_convert)
    if with_training:
        from eagle.training import evaluate_draft, generate_data, held_out, plot_curve, train

        found = (generate_data, train, evaluate_draft, held_out, plot_curve)
        modules = dict(zip(TRAINING_COMMANDS, found, strict=True))
        for name, module in modules.items():
            command = commands.add_parser(
                name, help=(module.__doc__ or "").splitlines()[0], formatter_class=_WithDefaults
            )
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    else:
        for name, text in zip(TRAINING_COMMANDS, _TRAINING_HELP, strict=True):
            commands.add_parser(name, help=text)
    return parser


class _WithDefaults(argparse.HelpFormatter):
    """Names the default of every option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_none = action.default is None or action.nargs == 0
        return action.help if has_none else f"{action.help} (default: %(default)s)"


_TRAINING_HELP = (
    "let a base answer prompts, and store its hidden states",
    "train a draft on them",
    "measure a draft by real decoding",
    "list the prompts that no draft was trained on",
    "plot how a training's acceptance length grew",
)


def run_inspect(arguments: argparse.Namespace) -> None:
    draft = read_draft(resolve_checkpoint(arguments.draft))
    lines = describe(draft)
    if arguments.base:
        facts = TargetFacts.from_json(read_config(resolve_checkpoint(arguments.base)))
        layers = check_fit(draft, facts)
        lines.append(f"fits {arguments.base}: captures hidden states {list(layers)}")
    print("\n".join(lines))  # noqa: T201


def run_convert(arguments: argparse.Namespace) -> None:
    draft, base = resolve_checkpoint(arguments.draft), resolve_checkpoint(arguments.base)
    convert_draft(draft, arguments.out, arguments.format, base)
    print(f"Wrote {arguments.out} in the {arguments.format} form.")  # noqa: T201


def describe(draft: DraftCheckpoint) -> list[str]:
    """One "name: value" line a fact."""
    c = draft.config
    captured = (
        f"hidden states {list(c.aux_layers)}" if c.aux_layers else "default (2, n/2, n-3 of n)"
    )
    variants = [
        name
        for name in ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
        if getattr(c, name)
    ]
    rope = f"base {c.rotary.theta:g}"
    if c.rotary.mrope_section:
        rope += f", M-RoPE sections {list(c.rotary.mrope_section)}"
    return [
        f"format: {c.format}",
        f"parameters: {draft.num_parameters:,}",
        f"layers captured: {captured}",
        f"hidden size: {c.hidden_size} (base {c.target_hidden_size})",
        f"heads: {c.num_attention_heads} query, {c.num_key_value_heads} key/value, "
        f"size {c.head_dim}",
        f"draft vocabulary: {c.draft_vocab_size:,} of {c.vocab_size:,}",
        f"rope: {rope}",
        f"variants: {', '.join(variants) or 'none'}",
    ]


if __name__ == "__main__":
    sys.exit(main())
