"""`python app.py`: options, and errors without a traceback."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import app
from tests.vlm.ui.fakes import INFO
from vlm.config import Settings, settings_from_arguments
from vlm.ui import server

REPOSITORY = Path(__file__).parents[3]


def test_without_options_the_page_listens_on_this_machine_only() -> None:
    arguments = app.build_parser().parse_args([])
    assert (arguments.host, arguments.port, arguments.inbrowser) == ("127.0.0.1", 7860, False)
    assert settings_from_arguments(arguments) == Settings()


@pytest.mark.parametrize(
    "argv", [["--top-p", "0"], ["--draft", "somewhere"], ["--min-image-tokens", "9999"]]
)
def test_options_that_do_not_fit_are_one_sentence(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(argv) == 2
    error = capsys.readouterr().err
    assert error.strip().endswith(".")
    assert argv[0] in error
    assert "Traceback" not in error


def test_a_taken_port_ends_before_anything_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    with server.bind("127.0.0.1", 0) as listener:
        listener.listen()
        assert app.main(["--port", str(listener.getsockname()[1])]) == 2
    assert "Cannot listen" in capsys.readouterr().err


def test_a_draft_that_does_not_fit_is_said_beside_the_address(
    capsys: pytest.CaptureFixture[str],
) -> None:
    app.announce(INFO, "http://here")
    assert capsys.readouterr().err == "EagleEye is ready: http://here\n"
    app.announce(replace(INFO, draft_problem="It was made for another base."), "http://here")
    warning, ready = capsys.readouterr().err.splitlines()
    assert warning == (
        "WARNING: EAGLE-3 is off: It was made for another base. The base decodes alone."
    )
    assert ready.startswith("EagleEye is ready")


def test_importing_the_program_loads_no_gradio() -> None:
    """Gradio reads its environment when imported, which `app` sets first."""
    code = "import sys, app; sys.exit('gradio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=False).returncode == 0


def test_the_process_that_serves_imports_nothing_that_loads_models() -> None:
    """The kiosk's recordings once brought it in."""
    code = (
        "import sys, app, vlm.engine_process, vlm.ui.engine_renewal, vlm.ui.engine_thread\n"
        "import vlm.ui.loading_page, vlm.ui.blocks, vlm.ui.kiosk.kiosk, vlm.ui.kiosk.replays\n"
        "sys.exit('vlm.loading' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=False).returncode == 0
