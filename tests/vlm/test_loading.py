"""Devices and number formats: chosen with a reason, or refused in one sentence."""

from __future__ import annotations

import pytest
import torch

from vlm.errors import ConfigError
from vlm.loading import BytesRead, choose_device, choose_dtype

CPU = torch.device("cpu")


def test_a_format_that_was_asked_for_is_taken() -> None:
    assert choose_dtype("float32", CPU).value == torch.float32


@pytest.mark.parametrize(("native", "expected"), [(True, torch.bfloat16), (False, torch.float32)])
def test_auto_takes_bfloat16_where_the_cpu_multiplies_it(
    native: bool, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlm.loading.cpu_has_bfloat16", lambda: native)
    choice = choose_dtype("auto", CPU)
    assert choice.value == expected
    assert str(expected).removeprefix("torch.") in choice.reason


def test_auto_takes_bfloat16_on_a_gpu() -> None:
    assert choose_dtype("auto", torch.device("cuda")).value == torch.bfloat16


def test_float16_is_refused_on_a_cpu() -> None:
    with pytest.raises(ConfigError, match="float16 needs a GPU"):
        choose_dtype("float16", CPU)


@pytest.mark.parametrize("name", ["tpu", "mps", "nonsense:1"])
def test_unknown_devices_are_named(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        choose_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_missed() -> None:
    with pytest.raises(ConfigError, match="no usable NVIDIA GPU"):
        choose_device("cuda")


def test_a_large_checkpoint_tells_every_tenth_that_is_read() -> None:
    told: list[str] = []
    read = BytesRead("Loading a base", 20 * 10**9, "float32, as asked", told.append)
    for _ in range(40):
        read(5 * 10**8)
    assert told[0] == "Loading a base, 20.0 GB (float32, as asked)"
    assert told[1:] == [f"{told[0]}: {tenth} %" for tenth in range(10, 100, 10)]


def test_a_small_checkpoint_tells_its_size_once() -> None:
    told: list[str] = []
    read = BytesRead("Loading a base", 271 * 10**6, "bfloat16", told.append)
    read(271 * 10**6)
    assert told == ["Loading a base, 271 MB (bfloat16)"]
