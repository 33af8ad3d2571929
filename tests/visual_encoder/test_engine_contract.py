"""What every engine must do, whichever it is: one suite, run over all that are installed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.visual_encoder.conftest import (
    CPU_ENGINES,
    TinyCheckpoint,
    engine_id,
    skip_where_missing,
)
from tests.visual_encoder.tiny_tower import (
    REQUESTS,
    VISION,
    random_patches,
    reference_embeddings,
)
from visual_encoder import ImagePatches, VisualEncoder, VisualEncoderError, create_encoder
from visual_encoder.reference_tower import ReferenceTower
from visual_encoder.types import GridTHW

FLOAT32_ERROR = 1e-4  # largest difference of a value; activations reach 3
BFLOAT16_ERROR = 2e-2  # relative, of all values together (L2)


def check_parity(embeddings: torch.Tensor, expected: torch.Tensor, dtype: str) -> None:
    error = embeddings - expected
    if dtype == "float32":
        assert error.abs().max() <= FLOAT32_ERROR
    else:
        assert 0 < error.norm() / expected.norm() <= BFLOAT16_ERROR


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
    check_parity(features.embeddings, expected, encoder.info.dtype)


@pytest.mark.parametrize("engine", CPU_ENGINES, ids=engine_id)
@pytest.mark.parametrize("tower", ["bundled_tower", "big_pattern_tower"])
def test_forty_grids_on_the_bundled_tower_and_on_one_of_the_big_pattern(
    request: pytest.FixtureRequest,
    references: dict[str, list[torch.Tensor]],
    engine_cache: Path,
    tower: str,
    engine: tuple[str, torch.dtype],
) -> None:
    skip_where_missing(*engine)
    model_dir: Path = request.getfixturevalue(tower)
    if tower not in references:
        reference = ReferenceTower(model_dir)
        references[tower] = [reference.encode(random_patches(grids)) for grids in REQUESTS]
    assert len(references[tower]) == 40
    name, dtype = engine
    encoder = create_encoder(name, model_dir, dtype=dtype, threads=1, cache_dir=engine_cache)
    for grids, expected in zip(REQUESTS, references[tower], strict=True):
        assert expected.abs().max() > 0.1
        check_parity(encoder.encode(random_patches(grids)).embeddings, expected, encoder.info.dtype)


@pytest.fixture(scope="module")
def references() -> dict[str, list[torch.Tensor]]:
    """transformers' answers to all requests, by tower, computed when first wanted."""
    return {}


def test_the_reference_is_transformers_own_tower(tiny: TinyCheckpoint) -> None:
    patches = random_patches(((1, 10, 14), (1, 4, 6)))
    loaded = ReferenceTower(tiny.directory).encode(patches)
    assert torch.equal(loaded, reference_embeddings(tiny.tower, patches))


def test_an_image_does_not_see_its_neighbours(encoder: VisualEncoder) -> None:
    first, second = random_patches(((1, 10, 14),), seed=1), random_patches(((1, 8, 6),), seed=2)
    together = ImagePatches(
        torch.cat((first.pixel_values, second.pixel_values)),
        first.grid_thw + second.grid_thw,
        first.resized_sizes + second.resized_sizes,
    )
    other = random_patches(((1, 10, 14),), seed=3)
    changed = ImagePatches(
        torch.cat((other.pixel_values, second.pixel_values)),
        together.grid_thw,
        together.resized_sizes,
    )
    num_first = first.num_image_tokens[0]
    after = [encoder.encode(patches).embeddings[num_first:] for patches in (together, changed)]
    assert torch.equal(after[0], after[1])
    alone = encoder.encode(second).embeddings
    check_parity_or_equal(after[0], alone, encoder.info.dtype)


def check_parity_or_equal(embeddings: torch.Tensor, expected: torch.Tensor, dtype: str) -> None:
    if not torch.equal(embeddings, expected):
        check_parity(embeddings, expected, dtype)


def test_a_second_call_gives_the_same_bits(encoder: VisualEncoder) -> None:
    patches = random_patches(((1, 10, 14),))
    first = encoder.encode(patches).embeddings
    before = first.clone()
    encoder.encode(random_patches(((1, 4, 4),)))
    assert torch.equal(first, before), "a later request must not write into an earlier answer"
    assert torch.equal(encoder.encode(patches).embeddings, before)


def test_features_name_engine_grids_and_time(encoder: VisualEncoder) -> None:
    patches = random_patches(((1, 4, 4), (1, 2, 6)))
    features = encoder.encode(patches)
    assert features.engine == encoder.name == encoder.info.engine
    assert features.grid_thw == patches.grid_thw
    assert features.num_image_tokens == (4, 3)
    assert features.seconds > 0
    assert encoder.info.hidden_size == features.embeddings.shape[1]
    assert encoder.info.reason == "chosen by name"


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
