"""Folders that appear whole or not at all, however a build ends."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from visual_encoder.errors import VisualEncoderError


@contextlib.contextmanager
def appearing_whole(directory: Path) -> Iterator[Path]:
    """A scratch directory that becomes `directory` on success and vanishes on failure."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        yield scratch
        scratch.chmod(0o755)  # mkdtemp's own is for its owner alone
        with contextlib.suppress(OSError):  # another process finished first: its copy is as good
            scratch.replace(directory)
        if not directory.is_dir():
            raise OSError(f"could not create {directory}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def check_free(directory: Path) -> None:
    """Raise `VisualEncoderError` when a folder to be written holds something already."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise VisualEncoderError(
            f"--out {directory} exists and is not empty: delete it or choose another folder."
        )
