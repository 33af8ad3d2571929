"""The options of the kiosk, with their defaults, in one place."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, fields

from vlm.config import option
from vlm.errors import ConfigError

PIN_VARIABLE = "EAGLEEYE_KIOSK_PIN"
PIN_DIGITS = range(4, 13)


@dataclass(frozen=True, slots=True)
class KioskOptions:
    """As typed by the user: `--kiosk-pin` and so on; see `--help` for what each means."""

    pin: str | None = option(
        None,
        f"4 to 12 digits that open the staff panel; without them there is none (default: what the "
        f"environment variable {PIN_VARIABLE} holds, which other users of the machine cannot read)",
        type=str,
    )
    free_text: bool = option(False, "let visitors type questions of their own")
    no_upload: bool = option(
        False, "no pictures from files: a file dialogue shows visitors the machine's folders"
    )
    idle_seconds: float = option(60.0, "without a touch for so long, a visitor is asked for")
    warning_seconds: float = option(10.0, "how long that question waits before everything is wiped")
    attract_seconds: float = option(12.0, "how long every recorded answer is shown")
    max_new_tokens: int = option(160, "longest answer in tokens, at most --max-new-tokens")
    questions_per_minute: int = option(12, "questions and races of one visitor within a minute")
    visits_per_minute: int = option(60, "visits that begin within a minute, all screens together")

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not isinstance(value, str | bool | None) and value <= 0:
                raise ConfigError(f"{flag(item.name)} must be above 0, got {value}.")
        if self.pin is not None and not is_pin(self.pin):
            raise ConfigError(f"{flag('pin')} must be 4 to 12 digits.")


def flag(name: str) -> str:
    return "--kiosk-" + name.replace("_", "-")


def is_pin(text: str) -> bool:
    return len(text) in PIN_DIGITS and text.isascii() and text.isdigit()


def add_kiosk_arguments(parser: argparse.ArgumentParser) -> None:
    """`--kiosk`, and one option a field of `KioskOptions`."""
    parser.add_argument(
        "--kiosk",
        action="store_true",
        help="serve the kiosk for public screens and nothing else (docs/kiosk.md); without this "
        "option it stands beside the page, at /?kiosk=1",
    )
    for item in fields(KioskOptions):
        text = item.metadata["help"]
        if isinstance(item.default, bool):
            parser.add_argument(flag(item.name), action="store_true", help=text)
            continue
        if item.default is not None:
            text = f"{text} (default: {item.default:g})"
        kind = item.metadata.get("type", type(item.default))
        parser.add_argument(flag(item.name), type=kind, default=item.default, help=text)


def kiosk_options_from_arguments(arguments: argparse.Namespace) -> KioskOptions:
    """The parsed options. Raises `ConfigError` in one sentence."""
    values = {item.name: getattr(arguments, f"kiosk_{item.name}") for item in fields(KioskOptions)}
    values["pin"] = values["pin"] or os.environ.get(PIN_VARIABLE) or None
    return KioskOptions(**values)
