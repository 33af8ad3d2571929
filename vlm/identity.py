"""Is the draft's text the base's text? Count it over many prompts, and explain what differs.

Comes in: a pipeline and questions (one JSON object a line, MT-bench's `question.jsonl` form).
Goes out: identical k of n and, for every difference, its position and how far apart the base's
logits of the two tokens were. In float32 nothing differs; in half precision two tokens may lie
within a rounding step of each other, a near-tie, and either is as good as the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from eagle.types import MergedPrompt
from vlm.errors import ConfigError
from vlm.events import GenerationFinished
from vlm.metrics import RunStats
from vlm.pipeline import VlmPipeline
from vlm.requests import ChatMessage, GenerationRequest


@dataclass(frozen=True, slots=True)
class Comparison:
    """One prompt decoded twice. `first_difference` and `logit_gap` are None when identical."""

    num_tokens: int
    mean_acceptance_length: float | None
    speedup: float | None  # decode tokens/s with the draft, by the base's alone
    first_difference: int | None = None
    logit_gap: float | None = None


def read_questions(path: Path) -> list[str]:
    """The first turn of every line. Raises `ConfigError` when the file has another form."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["turns"][0] for line in lines if line.strip()]
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise ConfigError(
            f"{path} cannot be read as questions (a JSON object with 'turns' a line): {error}"
        ) from error


def compare(pipeline: VlmPipeline, requests: Iterable[GenerationRequest]) -> Iterator[Comparison]:
    """Decode every request with the base alone and with the draft."""
    for request in requests:
        alone = finish(pipeline, replace(request, use_eagle=False))
        together = finish(pipeline, replace(request, use_eagle=True))
        yield _comparison(pipeline, request, alone, together)


def finish(pipeline: VlmPipeline, request: GenerationRequest) -> RunStats:
    """Run to the end and return the figures."""
    *_, last = pipeline.run(request)
    assert isinstance(last, GenerationFinished)
    return last.stats


def question_request(pipeline: VlmPipeline, text: str, images: Sequence[Path]) -> GenerationRequest:
    settings = pipeline.settings
    return GenerationRequest(
        messages=(ChatMessage("user", text, tuple(images)),),
        sampling=settings.sampling,
        max_new_tokens=settings.max_new_tokens,
        ignore_eos=settings.ignore_eos,
    )


def _comparison(
    pipeline: VlmPipeline, request: GenerationRequest, alone: RunStats, together: RunStats
) -> Comparison:
    rates = (together.decode_tokens_per_second, alone.decode_tokens_per_second)
    same = Comparison(
        num_tokens=len(alone.token_ids),
        mean_acceptance_length=together.mean_acceptance_length,
        speedup=rates[0] / rates[1] if rates[0] and rates[1] else None,
    )
    if alone.token_ids == together.token_ids:
        return same
    pairs = zip(alone.token_ids, together.token_ids, strict=False)
    shared = next(i for i, (ours, theirs) in enumerate(pairs) if ours != theirs)
    logits = _logits_after(pipeline, request, alone.token_ids[:shared])
    gap = float(logits[alone.token_ids[shared]] - logits[together.token_ids[shared]])
    return replace(same, first_difference=shared, logit_gap=gap)


def _logits_after(
    pipeline: VlmPipeline, request: GenerationRequest, generated: Sequence[int]
) -> torch.Tensor:
    """The base's logits (V,) behind the prompt and the tokens generated so far."""
    model = pipeline.language_model
    prompt = pipeline.prepare(request).prompt
    more = torch.tensor(generated, dtype=torch.int64, device=model.device)
    embeds = model.embed(more)
    slots = torch.arange(len(prompt), len(prompt) + len(more), device=model.device)
    extended = MergedPrompt(
        torch.cat((prompt.input_ids, more)),
        torch.cat((prompt.inputs_embeds, embeds)),
        torch.cat((prompt.draft_embeds, embeds)),
        torch.cat((prompt.position_ids, (slots + prompt.rope_delta).expand(3, -1)), dim=1),
        prompt.rope_delta,
    )
    return model.prefill(extended, pipeline.cache).logits[-1].float()


def summary(comparisons: Sequence[Comparison]) -> dict[str, float | int | list[float] | None]:
    """What the command prints as JSON."""
    lengths = [c.mean_acceptance_length for c in comparisons if c.mean_acceptance_length]
    speedups = sorted(c.speedup for c in comparisons if c.speedup)
    return {
        "prompts": len(comparisons),
        "identical": sum(c.first_difference is None for c in comparisons),
        "tokens": sum(c.num_tokens for c in comparisons),
        "mean_acceptance_length": sum(lengths) / len(lengths) if lengths else None,
        "median_decode_speedup": speedups[len(speedups) // 2] if speedups else None,
        "logit_gaps": [c.logit_gap for c in comparisons if c.logit_gap is not None],
    }
