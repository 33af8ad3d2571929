"""How the browser tests start a kiosk over scripted answers."""

from __future__ import annotations

from pathlib import Path

from tests.browser.kiosk_actions import PIN

SCRIPT = ["-m", "tests.browser.scripted_server", "--kiosk", "--kiosk-free-text"]
LIMITS = ["--kiosk-visits-per-minute", "1000", "--kiosk-questions-per-minute", "100"]
ATTRACT_SECONDS = 2


def kiosk_arguments(examples: Path, *more: str) -> list[str]:
    shown = ["--kiosk-attract-seconds", str(ATTRACT_SECONDS), "--kiosk-pin", PIN]
    return [*SCRIPT, "--examples", str(examples), *shown, *LIMITS, *more]
