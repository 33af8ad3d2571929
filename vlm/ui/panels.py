"""What the page shows beside and under an answer: pure functions of figures, no Gradio.

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

from eagle.types import DecodeStep
from vlm.metrics import RunStats
from vlm.ui.examples import Example

if TYPE_CHECKING:
    from vlm.pipeline import PipelineInfo

MISSING = "–"  # noqa: RUF001 - an en dash, shown where a figure is not known


@dataclass(frozen=True, slots=True)
class PanelState:
    """What the panel says around its bars."""

    run: int  # a change tells the panel to start afresh
    phase: str  # "idle", "waiting", "prefill", "decoding", "done" or "stopped"
    mode: str  # how the answer is decoded, a sentence
    max_tokens_per_step: int  # height of the chart


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
    state: PanelState, stats: RunStats | None, *, first_step: int = 0
) -> dict[str, Any]:
    """The panel's value: figures so far and the steps from `first_step` on."""
    steps = [] if stats is None else stats.steps[first_step:]
    return {
        "run": state.run,
        "from": first_step,
        "steps": [step_tokens(step) for step in steps],
        "phase": state.phase,
        "phase_text": PHASES[state.phase],
        "mode": state.mode,
        "max_tokens": state.max_tokens_per_step,
        "figures": panel_figures(stats),
        "announcement": announcement(stats) if stats and state.phase in ENDED else "",
    }


def step_tokens(step: DecodeStep) -> list[int]:
    """Tokens of a step: the base's own, and the draft's that the base accepted."""
    return [len(step.token_ids) - step.num_accepted, step.num_accepted]


def panel_figures(stats: RunStats | None) -> dict[str, str]:
    """Every figure of the panel as text."""
    if stats is None:
        names = ("per_step", "speed", "tokens", "steps", "first_token", "prompt", "images")
        return dict.fromkeys(names, MISSING)
    return {
        "per_step": _number(stats.mean_acceptance_length, 2),
        "speed": _number(stats.decode_tokens_per_second, 1),
        "tokens": str(len(stats.token_ids)),
        "steps": str(len(stats.steps)),
        "first_token": f"{stats.time_to_first_token_seconds:.2f} s",
        "prompt": str(stats.num_prompt_tokens),
        "images": image_tokens_text(stats.image_tokens, stats.num_cached_images),
    }


def image_tokens_text(image_tokens: Sequence[int], num_cached_images: int) -> str:
    """Tokens of every picture, with their sum when there are several, and how many pictures were
    not encoded again."""
    if not image_tokens:
        return "none"
    total = str(image_tokens[0])
    if len(image_tokens) > 1:
        total = f"{' + '.join(map(str, image_tokens))} = {sum(image_tokens)}"
    if num_cached_images == 0:
        return total
    if num_cached_images == len(image_tokens):
        return f"{total} (cached)"
    return f"{total} ({num_cached_images} of {len(image_tokens)} cached)"


def figures_line(stats: RunStats, *, speculative: bool) -> str:
    """The line that stays under an answer."""
    parts = [_count(len(stats.token_ids), "token")]
    if stats.decode_tokens_per_second is not None:
        parts.append(f"{stats.decode_tokens_per_second:.1f} tok/s")
    if stats.mean_acceptance_length is not None:
        parts.append(f"{stats.mean_acceptance_length:.1f} tokens per step")
    parts.append(f"first token {stats.time_to_first_token_seconds:.2f} s")
    if stats.image_tokens:
        parts.append(_count(sum(stats.image_tokens), "image token"))
    parts.append("EAGLE-3" if speculative else "base alone")
    endings = {"length": "cut at the longest answer allowed", "cancelled": "stopped"}
    parts += [endings[stats.finish_reason]] if stats.finish_reason in endings else []
    return " · ".join(parts)


def announcement(stats: RunStats) -> str:
    """What a screen reader says once, when an answer is there."""
    start = "Answer stopped" if stats.finish_reason == "cancelled" else "Answer ready"
    parts = [f"{start}: {_count(len(stats.token_ids), 'token')} in {stats.total_seconds:.1f} s"]
    if stats.mean_acceptance_length is not None:
        parts.append(f"{stats.mean_acceptance_length:.1f} tokens per step")
    return ", ".join(parts) + "."


def mode_sentence(info: PipelineInfo, *, use_eagle: bool) -> str:
    """How answers are decoded, and why."""
    if info.draft_name is None:
        return "No EAGLE-3 draft is loaded: the base decodes alone, one token a step."
    if not use_eagle:
        return "EAGLE-3 is off: the base decodes alone, one token a step."
    return "EAGLE-3 is on: the draft proposes tokens, the base checks them all in one step."


def model_chip(info: PipelineInfo, *, use_eagle: bool) -> str:
    """The chip in the header: base, number format, device, EAGLE-3."""
    speculates = use_eagle and info.draft_name is not None
    eagle = "EAGLE-3 on" if speculates else "EAGLE-3 off" if info.draft_name else "no draft"
    facts = [info.base_name, info.dtype, info.device]
    spans = "".join(f"<span>{html.escape(fact)}</span>" for fact in facts)
    state = "on" if speculates else "off"
    return f'<div class="ee-chip">{spans}<span class="ee-eagle-{state}">{eagle}</span></div>'


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


def _number(value: float | None, digits: int) -> str:
    return MISSING if value is None else f"{value:.{digits}f}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
