"""What the figures of a measurement depend on: the fingerprint of a benchmark and of a sweep.

Both reports hold one `Conditions`, show it with the same words, and are compared only together with
what differs between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from eagle.types import SamplingParams, TreeShape
from visual_encoder.types import ImageTokenLimits
from vlm.environment import Environment
from vlm.questions import Question

if TYPE_CHECKING:
    from vlm.config import Settings
    from vlm.pipeline import PipelineInfo

Facts = list[tuple[str, str]]
COMPARED = ("base", "draft", "device", "dtype", "max_new_tokens", "ignore_eos")
COMPARED_OF_ENVIRONMENT = ("commit", "torch_version", "processor", "threads", "gpu")


class Plan(Protocol):
    """What a `BenchPlan` and a `SweepPlan` have in common."""

    @property
    def questions(self) -> tuple[Question, ...]: ...

    @property
    def sampling(self) -> SamplingParams: ...

    @property
    def max_new_tokens(self) -> int: ...

    @property
    def ignore_eos(self) -> bool: ...


class Measured(Protocol):
    """What was measured: a pipeline, or the engine that has one."""

    @property
    def info(self) -> PipelineInfo: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def environment(self) -> Environment: ...


@dataclass(frozen=True, slots=True)
class Conditions:
    """Of the whole measurement; what varies within it stands with its figures."""

    started: str
    base: str
    draft: str | None
    device: str
    dtype: str
    environment: Environment
    questions: tuple[str, ...]  # their ids
    sampling: SamplingParams
    max_new_tokens: int
    ignore_eos: bool
    limits: ImageTokenLimits  # of image tokens; a sweep may vary that of one picture

    @classmethod
    def now(
        cls, plan: Plan, measured: Measured, limits: ImageTokenLimits | None = None
    ) -> Conditions:
        """Those of a measurement that begins; without `limits` the settings' own hold."""
        info = measured.info
        return cls(
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            base=info.base_name,
            draft=info.draft_name,
            device=info.device,
            dtype=info.dtype,
            environment=measured.environment,
            questions=tuple(question.id for question in plan.questions),
            sampling=plan.sampling,
            max_new_tokens=plan.max_new_tokens,
            ignore_eos=plan.ignore_eos,
            limits=limits or measured.settings.limits,
        )

    @property
    def date(self) -> str:
        return self.started[:10]

    def facts(self, *more: tuple[str, str]) -> Facts:
        """Names and texts for people, `more` before the machine."""
        ending = ", past the end" if self.ignore_eos else ""
        return [
            ("Measured", self.started.replace("T", " ")),
            ("Base", self.base),
            ("Draft", self.draft or "none"),
            ("Numbers", f"{self.dtype} on {self.device}"),
            ("Questions", str(len(self.questions))),
            (
                "Decoding",
                f"{_sampling(self.sampling)}, at most {self.max_new_tokens} tokens{ending}",
            ),
            ("Image tokens", _limits(self.limits)),
            *more,
            *_environment_facts(self.environment),
        ]

    def sentence(self, *more: str) -> str:
        """The same for a report in prose."""
        ending = ", past the end" if self.ignore_eos else ""
        parts = [
            f"{self.date}, {self.base} with {self.draft or 'no draft'}, {self.dtype} on "
            f"{self.device}",
            f"{len(self.questions)} questions",
            f"{_sampling(self.sampling)}, at most {self.max_new_tokens} tokens{ending}",
            f"image tokens {_limits(self.limits)}",
            *more,
        ]
        return f"{'; '.join(parts)}. {self.environment.sentence()}."


def differing(before: Conditions, now: Conditions) -> tuple[str, ...]:
    """What differs apart from the questions, a sentence each."""
    pairs = [(name, getattr(before, name), getattr(now, name)) for name in COMPARED]
    pairs += [
        ("sampling", _sampling(before.sampling), _sampling(now.sampling)),
        ("image tokens", _limits(before.limits), _limits(now.limits)),
    ]
    pairs += [
        (name, getattr(before.environment, name), getattr(now.environment, name))
        for name in COMPARED_OF_ENVIRONMENT
    ]
    return differences(pairs)


def differences(pairs: Sequence[tuple[str, object, object]]) -> tuple[str, ...]:
    """A sentence for every name whose two values are not the same."""
    return tuple(f"{name}: {old} before, {new} now." for name, old, new in pairs if old != new)


def tree_name(tree: TreeShape) -> str:
    """In the words of the page."""
    size = f"{tree.verify_tree_size} verified tokens"
    return f"depth {tree.draft_step}, top-k {tree.draft_top_k}, {size}"


def _sampling(sampling: SamplingParams) -> str:
    if sampling.is_greedy:
        return "greedy"
    return (
        f"temperature {sampling.temperature:g}, top-p {sampling.top_p:g}, "
        f"top-k {sampling.top_k}, seed {sampling.seed}"
    )


def _limits(limits: ImageTokenLimits) -> str:
    return (
        f"{limits.min_image_tokens} to {limits.max_image_tokens_per_image} a picture, "
        f"{limits.max_image_tokens} together"
    )


def _environment_facts(environment: Environment) -> Facts:
    where = f"{environment.processor}, {environment.threads} of {environment.cpu_cores} threads"
    if environment.gpu:
        where = f"{environment.gpu}, CUDA {environment.cuda}; {where}"
    return [
        ("Machine", where),
        (
            "Software",
            f"torch {environment.torch_version}, Python {environment.python_version}, "
            f"{environment.system}",
        ),
        ("EagleEye", f"{environment.version}, commit {environment.commit or 'unknown'}"),
    ]
