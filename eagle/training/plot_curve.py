"""Plot how the acceptance length of a training grew, from the curves that `train` writes.

In: curve files, one line an evaluation, see `curve.py`. Out: a picture in the form that the name of
the output asks for (SVG, PNG, PDF).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from eagle.errors import EagleError
from eagle.training.curve import CurvePoint, read_curve


def plot_curves(curves: Sequence[tuple[str, Sequence[CurvePoint]]], out: Path) -> None:
    """Curves side by side, each with its name, over the millions of answer tokens trained on.

    Raises EagleError if matplotlib is missing or has no writer for the output's ending.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise EagleError(
            "Plotting needs matplotlib: pip install -r requirements-training.txt"
        ) from error
    figure = Figure(figsize=(7.5, 4), layout="constrained")
    known = figure.canvas.get_supported_filetypes()
    if out.suffix.removeprefix(".") not in known:
        raise EagleError(
            f"{out} has no ending that can be plotted: {', '.join('.' + end for end in known)}"
        )
    axes = figure.subplots()
    for name, points in curves:
        tokens = [point.tokens / 1e6 for point in points]
        axes.plot(tokens, [point.acceptance_length for point in points], ".-", label=name)
    axes.set_xlabel("answer tokens trained on, million")
    axes.set_ylabel("acceptance length of a chain")
    axes.grid(alpha=0.3)
    if len(curves) > 1:
        axes.legend()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "curves", type=Path, nargs="+", help="files that train wrote: *.curve.jsonl"
    )
    parser.add_argument("--out", required=True, type=Path, help="picture, such as curve.svg")


def run(arguments: argparse.Namespace) -> None:
    curves = [
        (path.name.removesuffix(".curve.jsonl"), read_curve(path)) for path in arguments.curves
    ]
    plot_curves(curves, arguments.out)
