"""What a reader of a trace may rely on, as a function."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from vlm.trace import Trace, TraceStep, TraceTree
from vlm.trace_recording import summarise

TOLERANCE = 1e-6  # seconds, and shares


def check_trace(trace: Trace) -> tuple[str, ...]:
    """One sentence for every invariant that the trace breaks; none for a sound one."""
    found = [*_order(trace), *_times(trace), *_totals(trace)]
    for step in trace.steps:
        found += [f"Step {step.index}: {problem}" for problem in _step(trace, step)]
    return tuple(found)


def _order(trace: Trace) -> Iterator[str]:
    if [step.index for step in trace.steps] != list(range(len(trace.steps))):
        yield "Steps are not numbered 0, 1, 2, and so on."
    if [image.index for image in trace.images] != list(range(len(trace.images))):
        yield "Images are not numbered 0, 1, 2, and so on."
    for image in trace.images:
        frames, rows, columns = image.grid_thw
        if image.num_tokens * 4 != frames * rows * columns:
            yield f"Image {image.index} has {image.num_tokens} tokens for a grid {image.grid_thw}."
        source = (image.source_width, image.source_height)
        if source != (None, None) and not all(source):
            yield f"Image {image.index} was {source[0]} by {source[1]} pixels before resizing."
    if trace.run.mode == "base" and any(step.num_drafted for step in trace.steps):
        yield "The base alone has drafted tokens."
    if (trace.run.mode == "eagle") != (trace.run.speculation_off_reason is None):
        yield "The mode and the reason why speculation is off contradict each other."


def _times(trace: Trace) -> Iterator[str]:
    times = [step.elapsed_seconds for step in trace.steps]
    if any(later < earlier for earlier, later in itertools.pairwise(times)):
        yield "Steps do not follow each other in time."
    if times and trace.end.elapsed_seconds < times[-1] - TOLERANCE:
        yield "The end comes before the last step."
    if any(min(phase.start_seconds, phase.seconds) < 0 for phase in trace.phases):
        yield "A phase has a negative time."
    before = [phase for phase in trace.phases if phase.name != "prefill_draft"]
    if times and sum(phase.seconds for phase in before) > times[0] + TOLERANCE:
        yield "The phases before the first token take longer than the time to it."
    draft_prefill = sum(p.seconds for p in trace.phases if p.name == "prefill_draft")
    for earlier, later in itertools.pairwise(trace.steps):
        spent = _seconds(later) + (draft_prefill if later.index == 1 else 0.0)
        if spent > later.elapsed_seconds - earlier.elapsed_seconds + TOLERANCE:
            yield f"Step {later.index}: its parts take longer than the step."


def _seconds(step: TraceStep) -> float:
    return step.draft_seconds + step.verify_seconds + step.sample_seconds + step.other_seconds


def _totals(trace: Trace) -> Iterator[str]:
    end, summary = trace.end, trace.end.summary
    if end.num_tokens != len(trace.token_ids):
        yield f"The end counts {end.num_tokens} tokens, the steps have {len(trace.token_ids)}."
    if end.text != "".join(step.text for step in trace.steps):
        yield "The text of the end is not the text of the steps."
    if summary != summarise(trace.steps, end.elapsed_seconds):
        yield "The summary is not that of the steps."
    if sum(summary.acceptance_histogram) != summary.num_spec_steps:
        yield "The histogram does not count every speculative step once."
    by_position = summary.acceptance_by_position
    if any(deeper > nearer for nearer, deeper in itertools.pairwise(by_position)):
        yield "Acceptance by position rises with depth."
    length = summary.mean_acceptance_length
    if length is not None and abs(1 + sum(by_position) - length) > TOLERANCE:
        yield "Acceptance by position does not add up to the mean acceptance length."


def _step(trace: Trace, step: TraceStep) -> Iterator[str]:
    is_last = step is trace.steps[-1]
    if len(step.token_ids) != step.num_accepted + 1 and not (
        is_last and 0 < len(step.token_ids) == step.num_accepted
    ):
        yield f"{len(step.token_ids)} tokens for {step.num_accepted} accepted."
    if len(step.pieces) != len(step.token_ids):
        yield f"{len(step.pieces)} pieces of text for {len(step.token_ids)} tokens."
    if min(_seconds(step), step.elapsed_seconds) < 0:
        yield "it took a negative time."
    if step.tree is not None:
        yield from _tree(step, step.tree, cut=is_last)


def _tree(step: TraceStep, tree: TraceTree, *, cut: bool) -> Iterator[str]:
    size = len(tree.token_ids)
    sizes = {len(tree.parents), len(tree.texts)}
    sizes |= {len(tree.draft_probabilities), len(tree.target_probabilities)}
    if sizes != {size} or step.num_drafted != size - 1:
        yield f"the lists of its tree have {sorted(sizes | {size, step.num_drafted + 1})} entries."
        return
    if any(not -1 <= parent < node for node, parent in enumerate(tree.parents)) or (
        -1 in tree.parents[1:]
    ):
        yield "a node of its tree stands before its parent."
    if tree.path[:1] != (0,) or any(
        child >= size or tree.parents[child] != parent
        for parent, child in itertools.pairwise(tree.path)
    ):
        yield "the accepted path does not lead down its tree."
        return
    chosen = (*(tree.token_ids[node] for node in tree.path[1:]), tree.target_token)
    same = chosen[: len(step.token_ids)] if cut else chosen
    if step.token_ids != same:
        yield "its tokens are not those of the accepted path and the base's own."
    probabilities = (
        *tree.draft_probabilities,
        *tree.target_probabilities,
        tree.target_probability,
    )
    if not all(0 <= p <= 1 + TOLERANCE for p in probabilities):
        yield "a probability lies outside 0 to 1."
    if tree.target_rank is not None and tree.target_rank < 1:
        yield f"the rank of the base's token is {tree.target_rank}."
