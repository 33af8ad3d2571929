"""What every engine must do, whichever it is: one suite, run over all that are installed."""

from __future__ import annotations

import pytest
import torch

from tests.visual_encoder.conftest import TinyCheckpoint
from tests.visual_encoder.tiny_tower import (
    REQUESTS,
    VISION,
    random_patches,
    reference_embeddings,
)
from visual_encoder import ImagePatches, VisualEncoder, VisualEncoderError
from visual_encoder.types import GridTHW

TOLERANCE = 1e-5  # activations reach 2; 2e-6 was measured


@pytest.mark.parametrize("grid_thw", REQUESTS, ids=str)
def test_embeddings_equal_those_of_transformers(
    encoder: VisualEncoder, tiny: TinyCheckpoint, grid_thw: GridTHW
) -> None:
    patches = random_patches(grid_thw)
    features = encoder.encode(patches)
    expected = reference_embeddings(tiny.tower, patches)
    assert features.embeddings.dtype == torch.float32
    assert features.embeddings.shape == (sum(patches.num_image_tokens), VISION["out_hidden_size"])
    assert expected.abs().max() > 0.5
    assert (features.embeddings - expected).abs().max() < TOLERANCE


def test_an_image_does_not_see_its_neighbours(encoder: VisualEncoder) -> None:
    first, second = random_patches(((1, 10, 14),), seed=1), random_patches(((1, 8, 6),), seed=2)
    together = ImagePatches(
        torch.cat((first.pixel_values, second.pixel_values)),
        first.grid_thw + second.grid_thw,
        first.resized_sizes + second.resized_sizes,
    )
    alone = [encoder.encode(patches).embeddings for patches in (first, second)]
    assert torch.allclose(encoder.encode(together).embeddings, torch.cat(alone), atol=1e-5)


def test_a_second_call_gives_the_same_bits(encoder: VisualEncoder) -> None:
    patches = random_patches(((1, 10, 14),))
    first = encoder.encode(patches).embeddings.clone()
    encoder.encode(random_patches(((1, 4, 4),)))
    assert torch.equal(encoder.encode(patches).embeddings, first)


def test_features_name_engine_grids_and_time(encoder: VisualEncoder) -> None:
    patches = random_patches(((1, 4, 4), (1, 2, 6)))
    features = encoder.encode(patches)
    assert features.engine == encoder.name == encoder.info.engine
    assert features.grid_thw == patches.grid_thw
    assert features.num_image_tokens == (4, 3)
    assert features.seconds > 0
    assert encoder.info.hidden_size == features.embeddings.shape[1]
    assert encoder.info.dtype == "float32"


def test_encoding_leaves_the_patches_alone(encoder: VisualEncoder) -> None:
    patches = random_patches(((1, 4, 4),))
    before = patches.pixel_values.clone()
    encoder.encode(patches)
    assert torch.equal(patches.pixel_values, before)


@pytest.mark.parametrize("grid_thw", [((1, 4, 6),), ((1, 3, 4), (1, 1, 4)), ((1, 0, 4),), ()])
def test_patches_that_contradict_their_grids_are_an_error(
    encoder: VisualEncoder, grid_thw: GridTHW
) -> None:
    patches = random_patches(((1, 4, 4),))
    with pytest.raises(ValueError, match="grids"):
        encoder.encode(ImagePatches(patches.pixel_values, grid_thw, patches.resized_sizes))


def test_errors_share_one_base() -> None:
    import visual_encoder.errors as errors

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert all(issubclass(kind, VisualEncoderError) for kind in kinds)
