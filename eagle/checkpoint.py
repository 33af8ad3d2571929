"""Finding and reading checkpoints: directories or Hugging Face ids, single or sharded files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from eagle.errors import EagleError

INDEX_FILE = "model.safetensors.index.json"
SINGLE_FILE = "model.safetensors"
PICKLE_FILE = "pytorch_model.bin"


def resolve_checkpoint(name: str) -> Path:
    """A local directory as it is; anything else is fetched from the Hugging Face hub.

    Raises `EagleError` when neither works.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.exists() or name.startswith((".", "/", "~")):
        raise EagleError(f"'{name}' is not a directory; give a checkpoint's directory or hub id.")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        patterns = ["*.json", "*.safetensors", PICKLE_FILE, "*.txt", "*.jinja"]
        return Path(snapshot_download(name, allow_patterns=patterns))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise EagleError(
            f"'{name}' is no local directory and could not be fetched from the Hugging Face hub: "
            f"{str(error).splitlines()[0]}"
        ) from error


def read_config(directory: Path) -> dict[str, Any]:
    """The directory's config.json. Raises `EagleError` when absent or not an object."""
    path = directory / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EagleError(f"{directory} holds no config.json, so it is no checkpoint.") from error
    except ValueError as error:
        raise EagleError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(config, dict):
        raise EagleError(f"{path} is not a JSON object.")
    return config


def tensor_files(directory: Path) -> list[Path]:
    """The safetensors files of a checkpoint, in the order of their names; empty when none."""
    index = directory / INDEX_FILE
    if index.exists():
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        missing = sorted(name for name in names if not (directory / name).exists())
        if missing:
            raise EagleError(f"{directory} is incomplete: {INDEX_FILE} names {missing[0]}, absent.")
        return [directory / name for name in sorted(names)]
    single = directory / SINGLE_FILE
    return [single] if single.exists() else []


def checkpoint_bytes(directory: Path) -> int:
    """The size of a checkpoint's tensors on disk."""
    files = tensor_files(directory) or [directory / PICKLE_FILE]
    return sum(path.stat().st_size for path in files if path.exists())


def iterate_tensors(directory: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Every (name, tensor) of a checkpoint, one at a time, so that a big one needs no second copy.

    Reads safetensors, else pytorch_model.bin without running any code from it.
    """
    files = tensor_files(directory)
    for path in files:
        with safe_open(path, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (not a mapping)
                yield name, tensors.get_tensor(name)
    if files:
        return
    pickle = directory / PICKLE_FILE
    if not pickle.exists():
        raise EagleError(f"{directory} holds neither {SINGLE_FILE} nor {PICKLE_FILE}.")
    yield from torch.load(pickle, map_location="cpu", weights_only=True).items()
