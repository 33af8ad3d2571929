"""The values that cross the boundary of `eagle`: prompts, sampling, tree shapes, steps.

Everything is immutable. Shapes: n prompt tokens, T tree nodes (root included), H hidden size of the
target. `eagle` knows token ids and hidden states; it has never seen a picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from eagle.errors import EagleConfigError

FinishReason = Literal["eos", "stop", "length"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How a token is chosen from logits.

    `temperature` 0 (or below 1e-5) is greedy and ignores the rest; `top_k` 0 and `top_p` 1 are off.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise EagleConfigError(f"--temperature must be 0 or more, got {self.temperature}.")
        if not 0 < self.top_p <= 1:
            raise EagleConfigError(f"--top-p must be above 0 and at most 1, got {self.top_p}.")
        if self.top_k < 0:
            raise EagleConfigError(f"--top-k must be 0 (off) or more, got {self.top_k}.")

    @property
    def is_greedy(self) -> bool:
        return self.temperature < 1e-5


@dataclass(frozen=True, slots=True)
class TreeShape:
    """Size of the draft tree, in TensorRT-Edge-LLM's terms.

    `draft_step` is the number of levels below the root, `draft_top_k` the branching per node,
    `verify_tree_size` the nodes that one target pass verifies, root included.
    """

    draft_top_k: int = 4
    draft_step: int = 4
    verify_tree_size: int = 8

    def __post_init__(self) -> None:
        if self.draft_top_k < 1 or self.draft_step < 1:
            raise EagleConfigError(
                f"--draft-top-k and --draft-step must be at least 1, "
                f"got {self.draft_top_k} and {self.draft_step}."
            )
        if not 2 <= self.verify_tree_size <= self.pool_size + 1:
            raise EagleConfigError(
                f"--verify-tree-size must lie between 2 and {self.pool_size + 1}, the root and all "
                f"candidates of --draft-top-k {self.draft_top_k} and --draft-step "
                f"{self.draft_step}; got {self.verify_tree_size}."
            )

    @property
    def pool_size(self) -> int:
        """Candidates drafted before the best are kept: k at level 1, k*k at each further level."""
        return self.draft_top_k + (self.draft_step - 1) * self.draft_top_k**2


@dataclass(frozen=True, slots=True)
class MergedPrompt:
    """A prompt ready for prefill: what the target reads, what the draft reads, and where it stands.

    For a prompt of text the two embeddings are the same; where other inputs (image features) were
    merged into `inputs_embeds`, `draft_embeds` may hold the plain embedding of the placeholder.
    """

    input_ids: torch.Tensor  # (n,) int64
    inputs_embeds: torch.Tensor  # (n, H)
    draft_embeds: torch.Tensor  # (n, H)
    position_ids: torch.Tensor  # (3, n) int64: temporal, height, width
    rope_delta: int  # position of cache row r of generated text = r + rope_delta, on all axes

    def __len__(self) -> int:
        return int(self.input_ids.shape[0])


@dataclass(frozen=True, slots=True)
class StepTree:
    """The draft tree of one step and what became of it: small plain data.

    Nodes as in `DraftTree`. Probabilities are conditional, of a node after its parent, each model's
    own without sampling options; the root, which is part of the text already, has 1. `target_token`
    is what the target added after the last accepted node, `target_rank` its place in what the draft
    expected there: 1 for the most likely, None where the draft had not looked further.
    """

    token_ids: tuple[int, ...]
    parents: tuple[int, ...]  # parents[0] is -1
    draft_probabilities: tuple[float, ...]
    target_probabilities: tuple[float, ...]
    path: tuple[int, ...]  # accepted nodes, root first
    target_token: int
    target_probability: float
    target_rank: int | None


@dataclass(frozen=True, slots=True)
class DecodeStep:
    """What one forward pass of the target gave; the contract with pages, logs and benchmarks.

    Step 0 is the prefill and carries the first token. `len(token_ids) == num_accepted + 1` unless
    the stop rule cut the step; then `num_accepted` counts the draft tokens that were kept. The
    seconds together are the time that the step took.
    """

    index: int
    token_ids: tuple[int, ...]
    num_drafted: int
    num_accepted: int
    draft_seconds: float  # refill and growing the tree
    verify_seconds: float  # the target's forward pass; of step 0 its prefill
    finish_reason: FinishReason | None = None
    sample_seconds: float = 0.0  # choosing a token, or the accepted path
    other_seconds: float = 0.0  # cache, stop rule, recording
    draft_prefill_seconds: float = 0.0  # the draft's reading of the prompt, in step 1
    tree: StepTree | None = None  # recorded on request, of steps with a draft
