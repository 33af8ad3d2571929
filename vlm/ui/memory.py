"""Want of memory, however it shows itself, and what can be done about it."""

from __future__ import annotations

import torch

from vlm.errors import EngineLost

# How torch words it on a CPU, where it raises a plain RuntimeError.
TORCH_ON_CPU = ("can't allocate memory", "not enough memory: you tried to allocate")
ASK_LESS = (
    "To need less, lower “At most, a picture” in the settings, begin a new chat, or leave large "
    "trees out of a sweep."
)
START_SMALLER = (
    "The program can be started with a smaller --max-kv-cache-capacity and --max-input-len, or "
    "with a smaller base."
)


def ran_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in TORCH_ON_CPU)


def memory_sentence(error: Exception) -> str | None:
    """What happened and what helps; None where memory is not to blame. A killed engine may have
    other reasons, so its own sentence stays."""
    if isinstance(error, EngineLost):
        return f"{error} {ASK_LESS} {START_SMALLER}"
    if ran_out_of_memory(error):
        return f"There was not enough memory for this. {ASK_LESS} {START_SMALLER}"
    return None
