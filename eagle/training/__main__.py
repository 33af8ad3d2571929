"""`python -m eagle.training generate-data | train | held-out`: data and drafts for any base."""

from __future__ import annotations

import argparse
import logging

from eagle.training import generate_data, held_out, train

COMMANDS = {"generate-data": generate_data, "train": train, "held-out": held_out}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m eagle.training", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=(module.__doc__ or "").splitlines()[0])
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    arguments = build_parser().parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
