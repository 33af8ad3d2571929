"""Training-time test: unroll the draft on its own hidden states, as it will run at inference.

Step 0 is teacher forcing with the base's features. Step i feeds every slot its own output of step
i - 1 in place of the feature, and the true token i places further on.

The draft has one layer, so the outputs of prompt slots can influence nothing: they contribute keys
and values at step 0, and everything else is computed for answer slots alone. This saves a good
third of the work and changes no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F

from eagle.training.attention import causal_bias, ttt_attention
from eagle.training.draft import Draft, Rope


@dataclass(frozen=True, slots=True)
class Batch:
    """B records, aligned where their answers begin; L slots, of which the last A are the answer's.

    Answer slot s of a record stands on the token before answer token s, is fed answer token s, and
    has to predict what the base says after it: `last_states[:, s]`. Its successor in step i reads
    everything i places to the right; `answer_valid` says what exists there.
    """

    aux: torch.Tensor  # (B, L, 3H) low, mid and high states of token t
    next_ids: torch.Tensor  # (B, L) token t + 1
    is_image: torch.Tensor  # (B, L) bool: slots that read a row of `image_embeds` in its place
    image_embeds: torch.Tensor  # (N, H) as many as `is_image` marks
    positions: torch.Tensor  # (3, B, L)
    valid: torch.Tensor  # (B, L) bool
    last_states: torch.Tensor  # (B, A, H) the base's final normed state at answer token s
    greedy_ids: torch.Tensor  # (B, A) the base's choice after answer token s
    answer_valid: torch.Tensor  # (B, A) bool

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        moved = {field.name: getattr(self, field.name).to(device) for field in fields(self)}
        return Batch(**moved)

    @property
    def num_answer_slots(self) -> int:
        return self.answer_valid.shape[1]


def shift_left(x: torch.Tensor, by: int) -> torch.Tensor:
    """(B, A) moved `by` places to the left, zeros (or False) coming in from the right. Answers may
    be shorter than the unrolled steps: then nothing is left of them."""
    return F.pad(x[:, by:], (0, min(by, x.shape[1])))


def unroll(
    draft: Draft, embedding: torch.Tensor, batch: Batch, steps: int
) -> Iterator[torch.Tensor]:
    """Yield each step's hidden states (B, A, H), before the final norm.

    `embedding` is the base's frozen (V, H) table.
    """
    answer = slice(batch.next_ids.shape[1] - batch.num_answer_slots, None)
    rope = Rope(draft.shape, batch.positions)
    features = draft.fuse(batch.aux)
    embeds = F.embedding(batch.next_ids, embedding).to(features.dtype)
    embeds[batch.is_image] = batch.image_embeds.to(features.dtype)
    joined = draft.join(embeds, features)
    keys, values = draft.keys_values(joined, rope)
    bias = causal_bias(batch.valid, batch.num_answer_slots)

    answer_positions = batch.positions[:, :, answer]
    answer_ids = batch.next_ids[:, answer]
    rope = Rope(draft.shape, answer_positions)
    joined, fed = joined[:, answer], features[:, answer]
    diagonals: list[tuple[torch.Tensor, torch.Tensor]] = []
    for step in range(steps):
        if step > 0:
            rope = Rope(draft.shape, answer_positions + step)
            embeds = F.embedding(shift_left(answer_ids, step), embedding).to(fed.dtype)
            joined = draft.join(embeds, fed)
            diagonals.append(draft.keys_values(joined, rope))
        query = draft.queries(joined, rope)
        hidden = draft.finish(fed, ttt_attention(query, keys, values, bias, diagonals))
        yield hidden
        fed = draft.recycled(hidden)
