"""What a measurement was taken on: versions, processor, device; no names of people or hosts."""

from __future__ import annotations

import os
import platform
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Environment:
    """The fingerprint that stands beside every published figure."""

    version: str
    commit: str | None  # with "+" behind it where files had changed; None outside a checkout
    python_version: str
    torch_version: str
    system: str
    processor: str
    cpu_cores: int
    threads: int
    gpu: str | None
    cuda: str | None

    @classmethod
    def current(cls, device: torch.device) -> Environment:
        on_gpu = device.type == "cuda"
        return cls(
            version=_version(),
            commit=_commit(),
            python_version=platform.python_version(),
            torch_version=torch.__version__,
            system=f"{platform.system()} {platform.machine()}",
            processor=_processor(),
            cpu_cores=os.cpu_count() or 1,
            threads=torch.get_num_threads(),
            gpu=torch.cuda.get_device_name(device) if on_gpu else None,
            cuda=torch.version.cuda if on_gpu else None,
        )

    def sentence(self) -> str:
        """One line for people."""
        where = self.gpu or f"{self.processor}, {self.threads} of {self.cpu_cores} threads"
        source = f"commit {self.commit}" if self.commit else "no checkout"
        return (
            f"{where}; torch {self.torch_version}, Python {self.python_version}, {self.system}; "
            f"EagleEye {self.version}, {source}"
        )


def _version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["project"]["version"])


def _commit() -> str | None:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty=+"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    """The processor's own name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
