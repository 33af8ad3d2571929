"""EagleEye's page: parse options, load the models, open the page, answer until stopped."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from vlm.config import Settings, add_settings_arguments, settings_from_arguments
from vlm.errors import REFUSALS
from vlm.ui import server
from vlm.ui.kiosk.options import (
    KioskOptions,
    add_kiosk_arguments,
    kiosk_options_from_arguments,
)

if TYPE_CHECKING:
    from fastapi import FastAPI

    from vlm.pipeline import PipelineInfo
    from vlm.ui.engine_renewal import RenewableEngine
    from vlm.ui.engine_thread import EngineThread


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, or 2 with one sentence on standard error."""
    arguments = build_parser().parse_args(argv)
    try:
        run(settings_from_arguments(arguments), arguments)
    except REFUSALS as error:
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
    add_kiosk_arguments(parser)
    add_settings_arguments(parser)
    return parser


def run(settings: Settings, arguments: argparse.Namespace) -> None:
    """Load, warm up, serve. The port is taken first, since loading takes longer than failing; until
    the page is there, its address says what is being loaded."""
    options = kiosk_options_from_arguments(arguments)
    listener = server.bind(arguments.host, arguments.port)
    server.prepare_environment(listener)

    # Imported late: Gradio reads the environment when it is imported, and --help does without it.
    from vlm.engine_process import EngineProcess
    from vlm.ui.engine_renewal import RenewableEngine
    from vlm.ui.engine_thread import EngineThread
    from vlm.ui.loading_page import LoadingPage

    url = server.page_url(listener)
    with ExitStack() as until_stopped:
        with LoadingPage(listener) as loading:
            if arguments.inbrowser:
                threading.Timer(0.5, webbrowser.open, [url]).start()
            progress = both(report, loading.report)
            progress("Starting the engine")
            load = partial(EngineProcess, keep_a_core_for_the_page(settings))
            pipeline = until_stopped.enter_context(RenewableEngine(load, progress, report))
            engine = until_stopped.enter_context(EngineThread(pipeline, pipeline.reloading))
            progress("Warming up")
            engine.warm_up()
            app = make_app(engine, pipeline, options, only_kiosk=arguments.kiosk)
        announce(pipeline.info, url)
        server.serve(app, listener)


def make_app(
    engine: EngineThread, pipeline: RenewableEngine, options: KioskOptions, *, only_kiosk: bool
) -> FastAPI:
    """The page and the kiosk, or the kiosk without the page, its settings and its uploads."""
    from vlm.ui.examples import EXAMPLES_FOLDER, load_examples
    from vlm.ui.kiosk.kiosk import Kiosk
    from vlm.ui.kiosk.replays import load_replays

    kiosk = Kiosk(engine, load_examples(), load_replays(), options, pipeline.renew)
    if only_kiosk:
        return server.create_kiosk_app(kiosk)
    from vlm.ui.blocks import build_page

    return server.create_app(build_page(engine, load_examples()), EXAMPLES_FOLDER, kiosk)


def announce(info: PipelineInfo, url: str) -> None:
    """Last on the terminal, where whoever started the program looks for the address."""
    if info.misfit_sentence is not None:
        report(f"WARNING: {info.misfit_sentence} The base decodes alone.")
    report(f"EagleEye is ready: {url}")


def keep_a_core_for_the_page(settings: Settings) -> Settings:
    """With every core decoding, the browser on the same machine holds up a thread at every update,
    and the other threads wait for it (docs/page-overhead.md)."""
    if settings.threads:
        return settings
    return replace(settings, threads=max(1, (os.cpu_count() or 1) - 1))


def both(first: Callable[[str], None], second: Callable[[str], None]) -> Callable[[str], None]:
    def tell(message: str) -> None:
        first(message)
        second(message)

    return tell


def report(message: str) -> None:
    print(message, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
