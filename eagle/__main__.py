"""`python -m eagle inspect DRAFT [--base BASE]`: the facts of a draft, or why it does not fit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from eagle.checkpoint import read_config, resolve_checkpoint
from eagle.errors import EagleError
from eagle.loading import DraftCheckpoint, TargetFacts, check_fit, read_draft


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, or 2 with one sentence on standard error."""
    parser = argparse.ArgumentParser(prog="python -m eagle", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    inspect = commands.add_parser("inspect", help="print a draft's facts and check its fit")
    inspect.add_argument("draft", help="directory or Hugging Face id of an EAGLE-3 draft")
    inspect.add_argument("--base", help="directory or id of the base to check it against")
    arguments = parser.parse_args(argv)
    try:
        draft = read_draft(resolve_checkpoint(arguments.draft))
        lines = describe(draft)
        if arguments.base:
            facts = TargetFacts.from_json(read_config(resolve_checkpoint(arguments.base)))
            layers = check_fit(draft, facts)
            lines.append(f"fits {arguments.base}: captures hidden states {list(layers)}")
    except EagleError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    print("\n".join(lines))  # noqa: T201
    return 0


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
