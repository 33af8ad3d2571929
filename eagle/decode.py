"""The two ways to decode, one below the other: the target alone, and the target with a draft.

Both take the same target, prompt, cache, sampler, stop rule and clock, and yield one `DecodeStep`
for every forward pass of the target, so any difference between them is speculation's. Step 0 is
the prefill and carries the first token.

Between two steps the cache holds the prompt and all tokens but the last one, the root of the next
tree; a caller that stops reading leaves everything in that state.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from eagle.errors import KVCacheFull
from eagle.kv_cache import KVCache
from eagle.models import DraftModel, TargetModel
from eagle.recording import record_tree
from eagle.sampling import Sampler
from eagle.stopping import StopRule
from eagle.stopwatch import Clock, Stopwatch
from eagle.tree import DraftTree
from eagle.types import DecodeStep, MergedPrompt
from eagle.verify import accept


def autoregressive_decode(
    target: TargetModel,
    prompt: MergedPrompt,
    cache: KVCache,
    sampler: Sampler,
    stop: StopRule,
    *,
    clock: Clock = time.perf_counter,
) -> Iterator[DecodeStep]:
    """One token a pass. Raises `KVCacheFull` before it computes anything."""
    check_capacity(cache, len(prompt), stop.max_new_tokens, tree_size=1)
    watch = Stopwatch(clock)
    output = target.prefill(prompt, cache)
    watch.lap("verify")
    token = sampler.choose(output.logits[-1])
    watch.lap("sample")
    generated: list[int] = []

    for index in range(stop.max_new_tokens):
        kept, reason = stop.cut(generated, (token,))
        generated += kept
        yield watch.step(index, kept, reason)
        if reason is not None:
            return
        watch.start()
        output = target.verify(DraftTree.root_only(token), prompt.rope_delta, cache)
        watch.lap("verify")
        token = sampler.choose(output.logits[-1])
        watch.lap("sample")


def speculative_decode(
    target: TargetModel,
    draft: DraftModel,
    prompt: MergedPrompt,
    cache: KVCache,
    sampler: Sampler,
    stop: StopRule,
    *,
    record_trees: bool = False,
    clock: Clock = time.perf_counter,
) -> Iterator[DecodeStep]:
    """Accepted draft tokens and one more a pass. Raises `KVCacheFull` before it computes."""
    check_capacity(cache, len(prompt), stop.max_new_tokens, draft.tree_size)
    watch = Stopwatch(clock)
    output = target.prefill(prompt, cache)
    watch.lap("verify")
    root = sampler.choose(output.logits[-1])
    watch.lap("sample")
    generated, reason = stop.cut((), (root,))
    yield watch.step(0, generated, reason)
    if reason is not None:
        return

    watch.start()
    draft.prefill(prompt, output.aux_hidden, root)
    watch.lap("draft_prefill")
    for index in range(1, stop.max_new_tokens):
        # 1) Draft: a tree of likely continuations below the root.
        tree = draft.propose()
        watch.lap("draft")
        # 2) Verify: one pass of the target over the whole tree; keep the path it agrees with.
        committed = cache.length
        output = target.verify(tree, prompt.rope_delta, cache)
        watch.lap("verify")
        result = accept(tree, output.logits, sampler)
        watch.lap("sample")
        cache.keep(committed, result.path)
        # 3) Emit: the accepted tokens, then the target's own.
        accepted = tuple(tree.token_ids[node] for node in result.path[1:])
        kept, reason = stop.cut(generated, (*accepted, result.bonus_token))
        generated += kept
        num_accepted = min(result.num_accepted, len(kept))
        recorded = record_tree(draft, tree, output.logits, result) if record_trees else None
        yield watch.step(index, kept, reason, len(tree) - 1, num_accepted, recorded)
        if reason is not None:
            return
        # 4) Refill: the draft sees the target's true hidden states of what was committed.
        watch.start()
        draft.advance(kept, output.aux_hidden[list(result.path)])


def check_capacity(cache: KVCache, prompt_len: int, max_new_tokens: int, tree_size: int) -> None:
    """Raise `KVCacheFull` when prompt, answer and one tree cannot all be held."""
    needed = prompt_len + max_new_tokens + tree_size
    if needed > cache.capacity:
        raise KVCacheFull(
            f"The prompt ({prompt_len} tokens), the longest answer ({max_new_tokens}) and the "
            f"tokens verified at once ({tree_size}) need {needed} rows of the KV cache, which "
            f"holds {cache.capacity}: lower --max-new-tokens, raise --max-kv-cache-capacity or "
            f"shorten the prompt."
        )
