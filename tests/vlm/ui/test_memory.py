"""Want of memory is recognised in every form and says what helps."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from vlm.engine_process import answer
from vlm.errors import EngineLost, PromptTooLong
from vlm.requests import ChatMessage, GenerationRequest
from vlm.ui.memory import memory_sentence

REQUEST = GenerationRequest((ChatMessage("user", "Hello"),))
# As Windows words it; `torch_on_cpu` has Linux's own.
ON_WINDOWS = RuntimeError("not enough memory: you tried to allocate 4398046511104 bytes.")


def torch_on_cpu() -> Exception:
    """What torch really raises where a CPU's memory does not suffice."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**62, dtype=torch.uint8)
    return caught.value


def crossed(error: Exception) -> Exception:
    """The error behind the pipe between the engine's process and the page's."""

    def fail(request: GenerationRequest) -> Iterator[Any]:
        raise error
        yield

    here, there = Pipe()
    answer(there, SimpleNamespace(run=fail), REQUEST)  # type: ignore[arg-type]
    kind, value = here.recv()
    assert kind == "error"
    found: Exception = value
    return found


@pytest.mark.parametrize(
    "error",
    [MemoryError(), torch.OutOfMemoryError("CUDA out of memory."), torch_on_cpu(), ON_WINDOWS],
    ids=lambda error: type(error).__name__,
)
def test_every_form_is_recognised_also_behind_the_pipe(error: Exception) -> None:
    arrived = crossed(error)
    assert type(arrived) is type(error)
    sentence = memory_sentence(arrived)
    assert sentence is not None
    assert sentence.startswith("There was not enough memory")
    assert "“At most, a picture”" in sentence
    assert "--max-kv-cache-capacity" in sentence


def test_a_killed_engine_keeps_its_sentence_and_gets_the_levers() -> None:
    sentence = memory_sentence(EngineLost("The process ended, perhaps for want of memory."))
    assert sentence is not None
    assert sentence.startswith("The process ended, perhaps for want of memory. To need less")


@pytest.mark.parametrize("error", [RuntimeError("device lost"), PromptTooLong("too long")])
def test_other_errors_are_not_memorys(error: Exception) -> None:
    assert memory_sentence(error) is None
