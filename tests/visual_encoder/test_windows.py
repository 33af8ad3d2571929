"""Index tensors and rotary angles against their definitions, for any grids."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen2_5_VLConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLVisionRotaryEmbedding
from transformers.vision_utils import get_vision_position_ids

from tests.visual_encoder.tiny_tower import VISION
from visual_encoder import VisionConfig
from visual_encoder.types import GridTHW, count_image_tokens
from visual_encoder.windows import grid_tensors, rotary_angles

CONFIG = VisionConfig.from_dict(VISION)

grids = st.lists(
    st.tuples(
        st.integers(1, 2),
        st.integers(1, 12).map(lambda side: 2 * side),
        st.integers(1, 12).map(lambda side: 2 * side),
    ),
    min_size=1,
    max_size=3,
).map(tuple)


def places(grid_thw: GridTHW) -> list[tuple[int, int, int, int]]:
    """(image, frame, window row, window column) of every token, from the definition."""
    return [
        (image, frame, row // 4, column // 4)
        for image, (frames, height, width) in enumerate(grid_thw)
        for frame in range(frames)
        for row in range(height // 2)
        for column in range(width // 2)
    ]


@settings(max_examples=60, deadline=None)
@given(grids)
def test_windows_hold_exactly_their_tokens(grid_thw: GridTHW) -> None:
    tensors = grid_tensors(grid_thw, CONFIG)
    token_places = places(grid_thw)
    num_tokens = sum(count_image_tokens(grid_thw))
    assert sorted(tensors.window_index.tolist()) == list(range(num_tokens))
    assert torch.equal(tensors.window_index[tensors.reverse_index], torch.arange(num_tokens))
    windows = []
    for patches, valid in zip(tensors.window_gather, tensors.window_valid, strict=True):
        tokens = tensors.window_index[patches[valid][::4] // 4].tolist()
        windows.append({token_places[token] for token in tokens})
        assert len(tokens) * 4 == valid.sum()
        assert not (~valid).any() or (patches[~valid] == patches[0]).all()
    assert all(len(window) == 1 for window in windows)
    assert len(set.union(*windows)) == len(windows)


@settings(max_examples=60, deadline=None)
@given(grids)
def test_slots_undo_the_gathering(grid_thw: GridTHW) -> None:
    tensors = grid_tensors(grid_thw, CONFIG)
    patches = torch.arange(len(tensors.cos))
    spread = patches[tensors.window_gather].flatten()
    assert torch.equal(spread[tensors.window_slot], patches)


@settings(max_examples=60, deadline=None)
@given(grids)
def test_frames_are_marked_in_both_forms(grid_thw: GridTHW) -> None:
    tensors = grid_tensors(grid_thw, CONFIG)
    lengths = [h * w for t, h, w in grid_thw for _ in range(t)]
    assert tensors.cu_seqlens.diff().tolist() == lengths
    expected = [frame for frame, length in enumerate(lengths) for _ in range(length)]
    assert tensors.frame_ids.tolist() == expected
    token_frames = [place[:2] for place in places(grid_thw)]
    ordered = [token_frames[token] for token in tensors.window_index.tolist()]
    assert ordered == sorted(ordered), "window order keeps frames together and in order"


def test_rotary_angles_equal_those_of_transformers() -> None:
    grid = torch.tensor([[1, 10, 14], [2, 4, 6]])
    config = Qwen2_5_VLConfig(vision_config=VISION).vision_config
    reference = Qwen2_5_VLVisionRotaryEmbedding(config)
    cos, sin = reference(torch.zeros(1), get_vision_position_ids(grid, 2))
    ours = rotary_angles(grid, CONFIG)
    half = CONFIG.head_dim // 2
    assert torch.equal(cos[:, :half], cos[:, half:]), "both halves turn by the same angles"
    assert torch.allclose(ours[0], cos[:, :half], atol=1e-6)
    assert torch.allclose(ours[1], sin[:, :half], atol=1e-6)
