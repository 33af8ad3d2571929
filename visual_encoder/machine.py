"""What this machine is and can compute, in words that can be compared with another's."""

from __future__ import annotations

import platform
from pathlib import Path

import torch


def cpu_has_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 natively; elsewhere it is emulated, slower than
    float32."""
    supported: bool = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return supported


def device_name(device: torch.device) -> str:
    """The processor's model, or the GPU's with its compute capability."""
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        return f"{torch.cuda.get_device_name(device)} (compute capability {major}.{minor})"
    extensions = ["avx512_bf16"] if torch.cpu._is_avx512_bf16_supported() else []
    extensions += ["amx"] if torch.cpu._is_amx_tile_supported() else []
    return " ".join([cpu_model(), *extensions])


def cpu_model() -> str:
    """The processor's model name, or its architecture where the system does not tell."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
