"""Everything that an engine does on request, by the type of what is asked."""

from __future__ import annotations

from collections.abc import Iterator

from vlm.bench import BenchEvent, BenchPlan, bench
from vlm.compare import CompareEvent, CompareRequest, compare
from vlm.events import Event
from vlm.pipeline import VlmPipeline
from vlm.preview import EncoderPreview, PreviewRequest, preview
from vlm.requests import GenerationRequest
from vlm.sweep import SweepEvent, SweepPlan, sweep

Job = GenerationRequest | CompareRequest | BenchPlan | SweepPlan | PreviewRequest
JobEvent = Event | CompareEvent | BenchEvent | SweepEvent | EncoderPreview


def perform(pipeline: VlmPipeline, job: Job) -> Iterator[JobEvent]:
    """Results as they come; closing the iterator stops within one step."""
    if isinstance(job, GenerationRequest):
        return pipeline.run(job)
    if isinstance(job, CompareRequest):
        return compare(pipeline, job)
    if isinstance(job, BenchPlan):
        return bench(pipeline, job)
    if isinstance(job, PreviewRequest):
        return _one(preview(pipeline, job))
    return sweep(pipeline, job)


def _one(event: EncoderPreview) -> Iterator[EncoderPreview]:
    yield event
