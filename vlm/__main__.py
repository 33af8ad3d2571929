"""The pipeline from the shell: `python -m vlm generate` answers one question, `compare` races the
base against EAGLE-3, `identity` counts equal texts, `bench` measures both over many questions.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from vlm import bench_options
from vlm.config import Settings, add_settings_arguments, settings_from_arguments
from vlm.errors import REFUSALS
from vlm.events import Event, GenerationFinished, StepDecoded
from vlm.metrics import RunStats
from vlm.requests import ChatMessage, GenerationRequest
from vlm.trace_recording import TraceRecorder


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, or 2 with one sentence on standard error."""
    arguments = build_parser().parse_args(argv)
    try:
        settings = settings_from_arguments(arguments)
        command: Callable[[argparse.Namespace, Settings], int] = arguments.run
        return command(arguments, settings)
    except REFUSALS as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m vlm", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("generate", help="answer one question, about pictures or not")
    add_question_arguments(command)
    command.add_argument("--no-eagle", action="store_true", help="decode with the base alone")
    command.add_argument("--json", action="store_true", help="one JSON object on the last line")
    command.set_defaults(run=generate)
    command = commands.add_parser("compare", help="race the base alone against EAGLE-3")
    add_question_arguments(command)
    command.add_argument(
        "--order",
        choices=("AB", "BA", "ABBA"),
        default="ABBA",
        help="A is the base alone, B the base with its draft; ABBA takes medians (default: ABBA)",
    )
    command.set_defaults(run=compare, no_eagle=False)
    command = commands.add_parser("identity", help="compare the draft's texts with the base's")
    command.add_argument(
        "--questions", type=Path, nargs="+", required=True, help="files in question.jsonl form"
    )
    command.add_argument("--limit", type=int, help="use this many questions at most")
    command.set_defaults(run=identity)
    add_settings_arguments(command)
    command = commands.add_parser("bench", help="measure base against EAGLE-3, or sweep settings")
    bench_options.add_arguments(command)
    command.set_defaults(run=bench)
    add_settings_arguments(command)
    return parser


def add_question_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--prompt", required=True, help="the question")
    command.add_argument(
        "--image", action="append", default=[], type=Path, help="a picture; may be repeated"
    )
    command.add_argument("--system", help="a system prompt in place of the template's own")
    command.add_argument("--stop", action="append", default=[], help="end before this string")
    command.add_argument("--trace", type=Path, help="write the runs to this file (JSON Lines)")
    add_settings_arguments(command)


def generate(arguments: argparse.Namespace, settings: Settings) -> int:
    # Imported late, so that --help and wrong options answer at once.
    from vlm.loading import load_pipeline
    from vlm.trace import write_traces

    if arguments.trace is not None:
        write_traces(arguments.trace, ())  # a path that cannot be written is told before the wait
    pipeline = load_pipeline(settings, on_progress=report)
    recorder = TraceRecorder()
    events = pipeline.run(request_from(arguments, settings))
    try:
        stats = show(recorded(events, recorder), quiet=arguments.json)
    finally:
        if arguments.trace is not None and recorder.has_begun:
            write_traces(arguments.trace, [recorder.trace()])
    print(json.dumps(stats.to_json()) if arguments.json else f"\n\n{figures(stats)}")  # noqa: T201
    return 0


def compare(arguments: argparse.Namespace, settings: Settings) -> int:
    from vlm.compare import CompareRequest, LegEvent
    from vlm.compare import compare as race
    from vlm.loading import load_pipeline
    from vlm.trace import write_traces

    if arguments.trace is not None:
        write_traces(arguments.trace, ())
    pipeline = load_pipeline(settings, on_progress=report)
    asked = CompareRequest(request_from(arguments, settings), arguments.order)
    legs = [TraceRecorder() for _ in asked.order]
    for event in race(pipeline, asked):
        if isinstance(event, LegEvent):
            legs[event.leg].add(event.event)
            continue
        if arguments.trace is not None:
            write_traces(arguments.trace, [leg.trace() for leg in legs])
        print("\n".join([legs[0].trace().end.text, "", *event.sentences()]))  # noqa: T201
    return 0


def identity(arguments: argparse.Namespace, settings: Settings) -> int:
    from vlm.compare import CompareRequest, Comparison, compare, summary
    from vlm.loading import load_pipeline
    from vlm.questions import read_questions

    questions = [question for path in arguments.questions for question in read_questions(path)]
    pipeline = load_pipeline(settings, on_progress=report)
    chosen = questions[: arguments.limit]
    results = []
    for index, question in enumerate(chosen, start=1):
        request = GenerationRequest(
            (ChatMessage("user", question.turns[0], question.images),),
            sampling=settings.sampling,
            max_new_tokens=settings.max_new_tokens,
            ignore_eos=settings.ignore_eos,
            record_trees=False,
        )
        *_, result = compare(pipeline, CompareRequest(request, warm_up=index == 1))
        assert isinstance(result, Comparison)
        results.append(result)
        report(f"{index}/{len(chosen)}: {result.verdict.sentence()}")
    print(json.dumps(summary(results)))  # noqa: T201
    return 0


def bench(arguments: argparse.Namespace, settings: Settings) -> int:
    from vlm.bench_command import run

    return run(arguments, settings)


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
        record_trees=arguments.trace is not None,
    )


def recorded(events: Iterable[Event], recorder: TraceRecorder) -> Iterator[Event]:
    """The same events, on their way into the trace."""
    for event in events:
        recorder.add(event)
        yield event


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
