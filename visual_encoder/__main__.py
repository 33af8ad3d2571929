"""The visual encoder from the shell: export it to ONNX, build an engine, compare all engines."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

import torch

from visual_encoder.atomic_folder import check_free
from visual_encoder.build import BUILT_ENGINES, TIMING_CACHE_FILE, build_engine
from visual_encoder.compare import compare, noise_request
from visual_encoder.engine_files import ENGINE_FILE, EngineOrder
from visual_encoder.engines import default_dtype, obstacle_of
from visual_encoder.errors import EngineUnavailable, VisualEncoderError
from visual_encoder.export import DTYPES, check_unchanged, export_tower, read_export
from visual_encoder.preprocess import ImagePreprocessor
from visual_encoder.types import ImageTokenLimits


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, or 2 with one sentence on standard error."""
    arguments = build_parser().parse_args(argv)
    command: Callable[[argparse.Namespace], None] = arguments.run
    try:
        command(arguments)
    except VisualEncoderError as error:
        report(str(error))
        return 2
    return 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m visual_encoder", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("export", help="write a checkpoint's vision tower as ONNX")
    command.add_argument("--model", type=Path, required=True, help="a Qwen2.5-VL directory")
    command.add_argument("--out", type=Path, required=True, help="a new folder")
    command.add_argument("--dtype", choices=tuple(DTYPES), default="float32")
    command.set_defaults(run=run_export)

    command = commands.add_parser("build", help="build an engine from an exported tower")
    command.add_argument("--onnx", type=Path, required=True, help="a folder written by export")
    command.add_argument("--out", type=Path, required=True, help="a new folder")
    command.add_argument("--engine", choices=BUILT_ENGINES, required=True)
    command.add_argument(
        "--replace", action="store_true", help="take the place of the engine in --out"
    )
    command.add_argument("--device", default="cpu", help="where it will run: cpu or cuda")
    command.add_argument(
        "--timing-cache",
        type=Path,
        help=f"TensorRT's timings of earlier builds (default: {TIMING_CACHE_FILE} beside --out)",
    )
    add_limits(command)
    command.set_defaults(run=run_build)

    command = commands.add_parser("compare", help="parity and speed of every engine here")
    command.add_argument("--model", type=Path, required=True, help="a Qwen2.5-VL directory")
    command.add_argument("--images", type=Path, nargs="+", default=[], help="one request of these")
    command.add_argument(
        "--image-tokens",
        type=int,
        nargs="+",
        default=[256],
        help="without --images: sizes of random pictures, a request each (default: 256)",
    )
    command.add_argument("--device", default="cpu", help="cpu or cuda")
    command.add_argument("--threads", type=int, default=0, help="CPU threads (0: all cores)")
    command.add_argument("--rounds", type=int, default=5, help="runs of every engine")
    command.add_argument("--cache", type=Path, help="keep built engines here")
    add_limits(command)
    command.set_defaults(run=run_compare)
    return parser


def add_limits(parser: argparse.ArgumentParser) -> None:
    """The image-token limits, with their one set of defaults."""
    for item in fields(ImageTokenLimits):
        parser.add_argument(
            "--" + item.name.replace("_", "-"),
            type=int,
            default=item.default,
            help=f"(default: {item.default})",
        )


def limits_from(arguments: argparse.Namespace) -> ImageTokenLimits:
    return ImageTokenLimits(
        arguments.min_image_tokens,
        arguments.max_image_tokens,
        arguments.max_image_tokens_per_image,
    )


def run_export(arguments: argparse.Namespace) -> None:
    check_free(arguments.out)
    export_tower(arguments.model, arguments.out, dtype=DTYPES[arguments.dtype], on_progress=report)


def run_build(arguments: argparse.Namespace) -> None:
    limits = limits_from(arguments)
    if not (arguments.replace and (arguments.out / ENGINE_FILE).exists()):
        check_free(arguments.out)
    exported = read_export(arguments.onnx)
    check_unchanged(exported)
    device = torch.device(arguments.device)
    dtype = exported.dtype
    if arguments.engine == "openvino":
        if dtype != "float32":
            raise VisualEncoderError(
                f"{arguments.onnx} is in {dtype}, and OpenVINO is built from float32 and chooses "
                "bfloat16 by itself: export with --dtype float32."
            )
        dtype = str(default_dtype("openvino", device)).removeprefix("torch.")
    if arguments.engine != "tensorrt":  # its plans may be built where they cannot run
        obstacle = obstacle_of(arguments.engine, DTYPES[dtype], device)
        if obstacle is not None:
            raise EngineUnavailable(f"{arguments.engine} cannot be built here: {obstacle}.")
    build_engine(
        exported,
        arguments.out,
        EngineOrder(arguments.engine, dtype, device, limits),
        replace=arguments.replace,
        timing_cache=arguments.timing_cache or arguments.out.parent / TIMING_CACHE_FILE,
        on_progress=report,
    )


def run_compare(arguments: argparse.Namespace) -> None:
    limits = limits_from(arguments)
    if arguments.images:
        requests = [ImagePreprocessor(arguments.model).prepare(arguments.images, limits)]
    else:
        requests = [noise_request(number) for number in arguments.image_tokens]
    with tempfile.TemporaryDirectory() as scratch:
        comparison = compare(
            arguments.model,
            requests,
            device=torch.device(arguments.device),
            threads=arguments.threads,
            rounds=arguments.rounds,
            cache_dir=arguments.cache or Path(scratch),
            limits=limits,
            on_progress=report,
        )
    print(comparison.table())  # noqa: T201
    print(json.dumps(comparison.to_json()))  # noqa: T201


def report(message: str) -> None:
    print(message, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
