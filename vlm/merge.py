"""Image embeddings into the prompt: from token ids and vision features to a `MergedPrompt`."""

from __future__ import annotations

import torch

from eagle.types import MergedPrompt
from visual_encoder.types import VisionFeatures
from vlm.errors import VlmError
from vlm.language_model import LanguageModel
from vlm.mrope import mrope_positions
from vlm.prompt import TokenizedPrompt

MERGE_SIZE = 2  # patches of one token along each side, in every Qwen2.5-VL


def text_prompt(prompt: TokenizedPrompt, model: LanguageModel) -> MergedPrompt:
    """A prompt without pictures: both models read the same embeddings, positions just count."""
    input_ids = torch.tensor(prompt.token_ids, device=model.device)
    embeds = model.embed(input_ids)
    positions = torch.arange(len(input_ids), device=model.device).expand(3, -1)
    return MergedPrompt(input_ids, embeds, embeds, positions, rope_delta=0)


def merge(
    prompt: TokenizedPrompt,
    features: VisionFeatures,
    model: LanguageModel,
    *,
    image_token_id: int,
    merged_draft_embeddings: bool,
) -> MergedPrompt:
    """Scatter the features over the placeholders.

    The draft reads the placeholders' plain embedding unless `merged_draft_embeddings`: the
    picture reaches it through the target's hidden states. Raises `VlmError` when the numbers of
    placeholders and of features differ.
    """
    input_ids = torch.tensor(prompt.token_ids, device=model.device)
    plain = model.embed(input_ids)
    slots = input_ids.eq(image_token_id)
    num_slots, num_features = int(slots.sum()), features.embeddings.shape[0]
    if num_slots != num_features:
        raise VlmError(f"The prompt has {num_slots} image tokens for {num_features} features.")
    merged = plain.clone()
    merged[slots] = features.embeddings.to(merged.device, merged.dtype)
    positions, rope_delta = mrope_positions(
        len(prompt.token_ids), prompt.image_starts, features.grid_thw, MERGE_SIZE
    )
    draft_embeds = merged if merged_draft_embeddings else plain
    return MergedPrompt(input_ids, merged, draft_embeds, positions.to(model.device), rope_delta)
