"""The trace of a run: everything that chat, panel, comparison, benchmark, kiosk and export show.

A trace is JSON Lines: one `run`, an `image` a picture, the `phase`s of the prompt, a `step` a pass
of the base, one `end`. Times are seconds since the request was accepted. A file may hold several
runs, one after another. What a reader may rely on is `vlm.trace_check.check_trace`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eagle.types import SamplingParams, StepTree, TreeShape
from vlm.environment import Environment
from vlm.errors import TraceError
from vlm.metrics import EndReason
from vlm.plain_data import PlainDataError, from_plain, to_plain

FORMAT = "eagleeye.trace/2"
READ = ("eagleeye.trace/1", FORMAT)  # the first has no sizes of pictures before resizing

Mode = Literal["base", "eagle"]
PhaseName = Literal["pictures", "prompt", "vision", "merge", "prefill_base", "prefill_draft"]


@dataclass(frozen=True, slots=True)
class TraceRun:
    """What ran and what was asked; known when the prompt is ready."""

    id: str
    started: str  # date and time, UTC
    mode: Mode
    speculation_off_reason: str | None  # None: a draft takes part
    base: str
    draft: str | None
    device: str
    dtype: str
    visual_engine: str | None
    tree: TreeShape | None
    sampling: SamplingParams
    max_new_tokens: int
    question: str  # the last user message
    num_prompt_tokens: int
    prompt_sha256: str  # of the prompt's token ids
    environment: Environment


@dataclass(frozen=True, slots=True)
class TraceImage:
    """A picture as the visual encoder got it."""

    index: int
    source_width: int | None  # pixels before resizing, upright; None in a trace of version 1
    source_height: int | None
    width: int  # pixels after resizing
    height: int
    grid_thw: tuple[int, int, int]
    num_tokens: int
    min_tokens: int
    max_tokens: int
    is_cached: bool  # its features were known, so it was not encoded again


@dataclass(frozen=True, slots=True)
class TracePhase:
    """A part of the time before decoding. The draft reads the prompt after the first token."""

    name: PhaseName
    start_seconds: float
    seconds: float


@dataclass(frozen=True, slots=True)
class TraceTree(StepTree):
    """The step's tree, with a text for every node and for the token that the target added."""

    texts: tuple[str, ...]
    target_text: str


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One pass of the base; `elapsed_seconds` is when it ended.

    `pieces` are the characters that each token completed: none for a fragment of one.
    """

    index: int
    elapsed_seconds: float
    token_ids: tuple[int, ...]
    pieces: tuple[str, ...]
    text: str  # what the answer grew by
    num_drafted: int
    num_accepted: int
    draft_seconds: float
    verify_seconds: float
    sample_seconds: float
    other_seconds: float
    tree: TraceTree | None


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """`vlm.metrics` of the run; the first six names are vLLM's."""

    mean_acceptance_length: float | None
    draft_acceptance_rate: float | None
    acceptance_histogram: tuple[int, ...]
    num_spec_steps: int
    num_accepted_draft_tokens: int
    num_draft_tokens: int
    acceptance_by_position: tuple[float, ...]
    time_to_first_token_seconds: float | None
    time_per_output_token_seconds: float | None
    decode_seconds: float
    decode_tokens_per_second: float | None
    end_to_end_tokens_per_second: float | None


@dataclass(frozen=True, slots=True)
class TraceEnd:
    """How the run ended. "cancelled" and "error" cut it after any step."""

    reason: EndReason
    elapsed_seconds: float
    num_tokens: int
    text: str
    summary: TraceSummary


TraceRecord = TraceRun | TraceImage | TracePhase | TraceStep | TraceEnd
KINDS: dict[str, type[TraceRecord]] = {
    "run": TraceRun,
    "image": TraceImage,
    "phase": TracePhase,
    "step": TraceStep,
    "end": TraceEnd,
}
NAMES = {kind: name for name, kind in KINDS.items()}
UNKNOWN_SOURCE = {"source_width": None, "source_height": None}


@dataclass(frozen=True, slots=True)
class Trace:
    """One whole run."""

    run: TraceRun
    images: tuple[TraceImage, ...]
    phases: tuple[TracePhase, ...]
    steps: tuple[TraceStep, ...]
    end: TraceEnd

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(token for step in self.steps for token in step.token_ids)

    def lines(self) -> Iterator[str]:
        """The trace as JSON Lines, without line ends."""
        records: tuple[TraceRecord, ...] = (
            self.run,
            *self.images,
            *self.phases,
            *self.steps,
            self.end,
        )
        return (to_line(record) for record in records)


def to_line(record: TraceRecord) -> str:
    head = {"type": NAMES[type(record)]}
    if isinstance(record, TraceRun):
        head["format"] = FORMAT
    return json.dumps(head | to_plain(record), separators=(",", ":"))


def from_line(line: str) -> TraceRecord:
    """Raises `TraceError` for another version or a record that is not as announced."""
    try:
        values: Any = json.loads(line)
    except ValueError as error:
        raise TraceError(f"it is not JSON ({error}).") from error
    kind = KINDS.get(values.pop("type", "")) if isinstance(values, dict) else None
    if kind is None:
        raise TraceError(f"its 'type' must be one of {', '.join(KINDS)}.")
    if kind is TraceRun and (found := values.pop("format", None)) not in READ:
        raise TraceError(
            f"it was written as {found}, and this version reads {' and '.join(READ)}: open it "
            f"with the version that wrote it, or record it again."
        )
    if kind is TraceImage and not values.keys() & UNKNOWN_SOURCE.keys():
        values |= UNKNOWN_SOURCE
    try:
        return from_plain(kind, values)
    except PlainDataError as error:
        raise TraceError(str(error)) from error


def write_traces(path: Path, traces: Iterable[Trace]) -> None:
    """Raises `TraceError` where the file cannot be written."""
    try:
        with path.open("w", encoding="utf-8") as file:
            for trace in traces:
                file.writelines(f"{line}\n" for line in trace.lines())
    except OSError as error:
        raise TraceError(f"The trace cannot be written to {path}: {error.strerror}.") from error


def read_traces(path: Path) -> tuple[Trace, ...]:
    """All runs of a file. Raises `TraceError`, naming the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path} cannot be read as a trace: {error}.") from error
    traces: list[Trace] = []
    records: list[TraceRecord] = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(from_line(line))
            if isinstance(records[-1], TraceEnd):
                traces.append(assemble(records))
                records = []
        except TraceError as error:
            raise TraceError(f"{path}, line {number} is no record of a trace: {error}") from error
    if records or not traces:
        raise TraceError(f"{path} ends without the 'end' record of a trace: it was cut off.")
    return tuple(traces)


def assemble(records: Iterable[TraceRecord]) -> Trace:
    """The records of one run, in the order of the file. Raises `TraceError` for another order."""
    groups: dict[type, list[Any]] = {kind: [] for kind in NAMES}
    order = list(groups)
    reached = 0
    for record in records:
        place = order.index(type(record))
        if place < reached:
            raise TraceError(f"a '{NAMES[type(record)]}' record comes too late.")
        reached = place
        groups[type(record)].append(record)
    if len(groups[TraceRun]) != 1 or len(groups[TraceEnd]) != 1:
        raise TraceError("a trace has one 'run' record first and one 'end' record last.")
    images, phases, steps = (tuple(groups[kind]) for kind in order[1:4])
    return Trace(groups[TraceRun][0], images, phases, steps, groups[TraceEnd][0])
