"""Folders that appear whole or not at all, however a build ends.

Work goes on in a hidden folder beside the wanted one. It is named after its process, so that what
a killed process left is told from what another one is writing, and the next build removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from visual_encoder.errors import VisualEncoderError


@contextlib.contextmanager
def appearing_whole(directory: Path, *, replace: bool = False) -> Iterator[Path]:
    """A scratch folder that becomes `directory` on success and vanishes on failure.

    With `replace` it takes the place of what is there; else the one that was there first stays.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{directory.name}-unfinished-"
    _remove_leftovers(directory.parent, prefix)
    scratch = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=directory.parent))
    try:
        unfinished = scratch / "new"
        unfinished.mkdir()
        yield unfinished
        if replace and directory.exists():
            directory.replace(scratch / "old")
        with contextlib.suppress(OSError):  # another process finished first: its copy is as good
            unfinished.replace(directory)
        if not directory.is_dir():
            raise OSError(f"could not create {directory}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _remove_leftovers(parent: Path, prefix: str) -> None:
    """Delete scratch folders of processes that have ended without deleting them."""
    for leftover in parent.glob(f"{prefix}*"):
        process = leftover.name.removeprefix(prefix).partition("-")[0]
        if process.isdecimal() and not _runs(int(process)):
            shutil.rmtree(leftover, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 only asks
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # someone else's
    return True


def check_free(directory: Path) -> None:
    """Raise `VisualEncoderError` when a folder to be written holds something already."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise VisualEncoderError(
            f"--out {directory} exists and is not empty: delete it or choose another folder."
        )
