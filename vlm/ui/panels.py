"""What the page shows beside and under an answer: pure functions of a trace, no Gradio.

Strings that go into HTML are escaped here; what goes to the live panel is plain data, which its
script writes with `textContent`.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from vlm.plain_data import to_plain
from vlm.trace import TraceEnd, TraceRecord, TraceRun, TraceSummary, to_line
from vlm.ui.examples import Example

if TYPE_CHECKING:
    from vlm.pipeline import PipelineInfo


@dataclass(frozen=True, slots=True)
class PanelState:
    """What the panel says around its charts."""

    run: int  # a change tells the panel to start afresh
    phase: str  # a key of PHASES
    mode: str  # how the answer is decoded, a sentence
    max_tokens_per_step: int  # height of the chart
    base_step_seconds: float | None  # a pass of the base alone, as last measured
    announcement: str = ""  # for a screen reader, unless the answer is there


PHASES = {
    "idle": "Ready",
    "waiting": "Waiting for the engine",
    "prefill": "Reading the prompt",
    "decoding": "Decoding",
    "done": "Done",
    "stopped": "Stopped",
    "failed": "Failed",
}
ENDED = ("done", "stopped")


def panel_payload(
    state: PanelState,
    records: Sequence[TraceRecord] = (),
    end: TraceEnd | None = None,
    *,
    first: int = 0,
) -> dict[str, Any]:
    """The panel's value: the trace's lines from number `first` on, and the figures so far.

    Lines, not objects: Gradio 6.31 sends what differs from the value before, and gets lists inside
    lists wrong where they shrink.
    """
    return {
        "run": state.run,
        "from": first,
        "lines": "\n".join(to_line(record) for record in records[first:]),
        "summary": None if end is None else to_plain(end.summary),
        "phase": state.phase,
        "phase_text": PHASES[state.phase],
        "mode": state.mode,
        "max_tokens": state.max_tokens_per_step,
        "base_step_seconds": state.base_step_seconds,
        "announcement": announcement(end) if end and state.phase in ENDED else state.announcement,
    }


def figures_line(run: TraceRun, image_tokens: Sequence[int], end: TraceEnd) -> str:
    """The line that stays under an answer."""
    summary: TraceSummary = end.summary
    parts = [_count(end.num_tokens, "token")]
    if summary.decode_tokens_per_second is not None:
        parts.append(f"{summary.decode_tokens_per_second:.1f} tok/s")
    if summary.mean_acceptance_length is not None:
        parts.append(f"{summary.mean_acceptance_length:.1f} tokens per step")
    if summary.time_to_first_token_seconds is not None:
        # The unit stays with its number where the line breaks.
        parts.append(f"first token {summary.time_to_first_token_seconds:.2f}\N{NO-BREAK SPACE}s")
    if image_tokens:
        parts.append(_count(sum(image_tokens), "image token"))
    parts.append("EAGLE-3" if run.mode == "eagle" else "base alone")
    endings = {"length": "cut at the longest answer allowed", "cancelled": "stopped"}
    parts += [endings[end.reason]] if end.reason in endings else []
    return " · ".join(parts)


def announcement(end: TraceEnd) -> str:
    """What a screen reader says once, when an answer is there."""
    start = "Answer stopped" if end.reason == "cancelled" else "Answer ready"
    parts = [f"{start}: {_count(end.num_tokens, 'token')} in {end.elapsed_seconds:.1f} s"]
    if end.summary.mean_acceptance_length is not None:
        parts.append(f"{end.summary.mean_acceptance_length:.1f} tokens per step")
    return ", ".join(parts) + "."


def mode_sentence(info: PipelineInfo, *, use_eagle: bool) -> str:
    """How answers are decoded, and why."""
    if info.misfit_sentence is not None:
        return info.misfit_sentence
    if info.draft_name is None:
        return "No EAGLE-3 draft is loaded: the base decodes alone, one token a step."
    if not use_eagle:
        return "EAGLE-3 is off: the base decodes alone, one token a step."
    return "EAGLE-3 is on: the draft proposes tokens, the base checks them all in one step."


def model_chip(info: PipelineInfo, *, use_eagle: bool) -> str:
    """The chip in the header: base, number format, device, EAGLE-3."""
    facts = [info.base_name, info.dtype, info.device]
    spans = "".join(f"<span>{html.escape(fact)}</span>" for fact in facts)
    return f'<div class="ee-chip">{spans}{_eagle_state(info, use_eagle=use_eagle)}</div>'


def _eagle_state(info: PipelineInfo, *, use_eagle: bool) -> str:
    """Short; the whole reason why a draft was refused is its tooltip, and in the drawer."""
    if info.draft_problem is not None:
        reason = html.escape(info.draft_problem)
        return f'<span class="ee-eagle-off" title="{reason}">draft refused: does not fit</span>'
    if info.draft_name is None:
        return '<span class="ee-eagle-off">no draft</span>'
    state = "on" if use_eagle else "off"
    return f'<span class="ee-eagle-{state}">EAGLE-3 {state}</span>'


def switch_note(info: PipelineInfo) -> str:
    """What stands under the switch for EAGLE-3 in the drawer."""
    if info.draft_problem is not None:
        return f"The draft was refused. {info.draft_problem}"
    return "No draft was loaded" if info.draft_name is None else "Let the draft propose tokens"


def welcome(examples: Sequence[Example], info: PipelineInfo) -> str:
    """The empty chat: what the page does, and the example cards."""
    if info.no_images_reason is None:
        lead = "Ask about a picture"
        text = "Add a picture and a question" + (", or try one of these." if examples else ".")
    else:
        lead = "Ask a question"
        text = info.no_images_reason
    cards = "".join(_card(number, example) for number, example in enumerate(examples))
    return (
        f'<div class="ee-welcome"><h2>{lead}</h2><p>{html.escape(text)}</p>'
        f'<div class="ee-cards">{cards}</div></div>'
    )


def _card(number: int, example: Example) -> str:
    question = html.escape(example.question)
    return (
        f'<button type="button" class="ee-card" data-example="{number}">'
        f'<img src="{html.escape(file_url(example.image))}" alt="" loading="lazy">'
        f"<span>{question}</span></button>"
    )


def file_url(path: Path) -> str:
    """Where the server offers a file that it was told to offer."""
    return f"/gradio_api/file={quote(path.as_posix())}"


def notice(text: str) -> str:
    """A sentence above the composer; empty for none."""
    return f'<p role="alert">{html.escape(text)}</p>' if text else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
