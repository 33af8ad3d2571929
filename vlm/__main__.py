"""The pipeline from the shell: `python -m vlm generate` answers one question, `python -m vlm
identity` counts how often the draft's text is the base's."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from eagle.errors import EagleError
from visual_encoder.errors import VisualEncoderError
from vlm.config import Settings, add_settings_arguments, settings_from_arguments
from vlm.errors import VlmError
from vlm.events import Event, GenerationFinished, StepDecoded
from vlm.metrics import RunStats
from vlm.requests import ChatMessage, GenerationRequest


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, or 2 with one sentence on standard error."""
    arguments = build_parser().parse_args(argv)
    try:
        settings = settings_from_arguments(arguments)
        command: Callable[[argparse.Namespace, Settings], int] = arguments.run
        return command(arguments, settings)
    except (VlmError, EagleError, VisualEncoderError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m vlm", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("generate", help="answer one question, about pictures or not")
    command.add_argument("--prompt", required=True, help="the question")
    command.add_argument(
        "--image", action="append", default=[], type=Path, help="a picture; may be repeated"
    )
    command.add_argument("--system", help="a system prompt in place of the template's own")
    command.add_argument("--stop", action="append", default=[], help="end before this string")
    command.add_argument("--no-eagle", action="store_true", help="decode with the base alone")
    command.add_argument("--json", action="store_true", help="one JSON object on the last line")
    command.set_defaults(run=generate)
    add_settings_arguments(command)
    command = commands.add_parser("identity", help="compare the draft's texts with the base's")
    command.add_argument(
        "--questions", type=Path, nargs="+", required=True, help="files in question.jsonl form"
    )
    command.add_argument("--limit", type=int, help="use this many questions at most")
    command.set_defaults(run=identity)
    add_settings_arguments(command)
    return parser


def generate(arguments: argparse.Namespace, settings: Settings) -> int:
    # Imported late, so that --help and wrong options answer at once.
    from vlm.loading import load_pipeline

    pipeline = load_pipeline(settings, on_progress=report)
    stats = show(pipeline.run(request_from(arguments, settings)), quiet=arguments.json)
    print(json.dumps(stats.to_json()) if arguments.json else f"\n\n{figures(stats)}")  # noqa: T201
    return 0


def identity(arguments: argparse.Namespace, settings: Settings) -> int:
    from vlm.identity import compare, question_request, read_questions, summary
    from vlm.loading import load_pipeline

    questions = [text for path in arguments.questions for text in read_questions(path)]
    pipeline = load_pipeline(settings, on_progress=report)
    chosen = questions[: arguments.limit]
    requests = [question_request(pipeline, text, ()) for text in chosen]
    results = []
    for index, result in enumerate(compare(pipeline, requests), start=1):
        results.append(result)
        outcome = "identical"
        if result.first_difference is not None:
            at, gap = result.first_difference, result.logit_gap
            outcome = f"differs at token {at}, logit gap {gap:.4f}"
        report(f"{index}/{len(chosen)}: {result.num_tokens} tokens, {outcome}")
    print(json.dumps(summary(results)))  # noqa: T201
    return 0


def request_from(arguments: argparse.Namespace, settings: Settings) -> GenerationRequest:
    system = [ChatMessage("system", arguments.system)] if arguments.system else []
    question = ChatMessage("user", arguments.prompt, tuple(arguments.image))
    return GenerationRequest(
        messages=(*system, question),
        sampling=settings.sampling,
        max_new_tokens=settings.max_new_tokens,
        use_eagle=not arguments.no_eagle,
        ignore_eos=settings.ignore_eos,
        stop=tuple(arguments.stop),
    )


def show(events: Iterable[Event], *, quiet: bool) -> RunStats:
    """Print the text as it comes; return the figures of the finished answer."""
    for event in events:
        if isinstance(event, StepDecoded) and not quiet:
            print(event.text, end="", flush=True)  # noqa: T201
        if isinstance(event, GenerationFinished):
            return event.stats
    raise AssertionError("the stream of events ended without GenerationFinished")


def figures(stats: RunStats) -> str:
    """One line under an answer."""
    parts = [f"{len(stats.token_ids)} tokens"]
    if stats.decode_tokens_per_second is not None:
        parts.append(f"{stats.decode_tokens_per_second:.1f} tokens/s")
    if stats.mean_acceptance_length is not None:
        parts.append(f"{stats.mean_acceptance_length:.2f} tokens per pass")
    parts.append(f"first token after {stats.time_to_first_token_seconds:.2f} s")
    if stats.image_tokens:
        parts.append(f"image tokens {' + '.join(map(str, stats.image_tokens))}")
    return " · ".join(parts)


def report(message: str) -> None:
    print(message, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
