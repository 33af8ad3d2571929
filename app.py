"""EagleEye's page: parse options, load the models, open the page, answer until stopped."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import webbrowser
from collections.abc import Sequence
from dataclasses import replace

from eagle.errors import EagleError
from visual_encoder.errors import VisualEncoderError
from vlm.config import Settings, add_settings_arguments, settings_from_arguments
from vlm.errors import VlmError
from vlm.ui import server


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, or 2 with one sentence on standard error."""
    arguments = build_parser().parse_args(argv)
    try:
        run(settings_from_arguments(arguments), arguments)
    except (VlmError, EagleError, VisualEncoderError) as error:
        report(str(error))
        return 2
    except KeyboardInterrupt:
        report("Stopped.")
    return 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python app.py", description=__doc__)
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; anything else than 127.0.0.1 lets others in (default: "
        "127.0.0.1)",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=7860,
        help="port to listen on, 0 for any free one (default: 7860)",
    )
    parser.add_argument("--inbrowser", action="store_true", help="open the page in the browser")
    add_settings_arguments(parser)
    return parser


def run(settings: Settings, arguments: argparse.Namespace) -> None:
    """Load, warm up, serve. The port is taken first, since loading takes longer than failing."""
    listener = server.bind(arguments.host, arguments.port)
    server.prepare_environment(listener)

    # Imported late: Gradio reads the environment when it is imported, and --help needs no torch.
    from vlm.engine_process import EngineProcess
    from vlm.ui.blocks import build_page
    from vlm.ui.engine_thread import EngineThread
    from vlm.ui.examples import EXAMPLES_FOLDER, load_examples

    settings = keep_a_core_for_the_page(settings)
    with EngineProcess(settings, report) as pipeline, EngineThread(pipeline) as engine:
        report("Warming up")
        engine.warm_up()
        app = server.create_app(build_page(engine, load_examples()), EXAMPLES_FOLDER)
        url = server.page_url(listener)
        report(f"EagleEye is ready: {url}")
        if arguments.inbrowser:
            threading.Timer(0.5, webbrowser.open, [url]).start()
        server.serve(app, listener)


def keep_a_core_for_the_page(settings: Settings) -> Settings:
    """With every core decoding, the browser on the same machine holds up a thread at every update,
    and the other threads wait for it (docs/page-overhead.md)."""
    if settings.threads:
        return settings
    return replace(settings, threads=max(1, (os.cpu_count() or 1) - 1))


def report(message: str) -> None:
    print(message, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
