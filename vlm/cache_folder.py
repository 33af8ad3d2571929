"""Where composed checkpoints and exported engines are kept between starts."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`EAGLEEYE_HOME`, else `eagleeye` in the user's cache folder."""
    home = os.environ.get("EAGLEEYE_HOME")
    if home:
        return Path(home).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "eagleeye"
