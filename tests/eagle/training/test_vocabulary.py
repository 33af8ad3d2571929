"""The invariants that loaders of draft checkpoints rely on."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from eagle.training.vocabulary import build_vocabulary, coverage

COUNTS = Counter({40: 5, 7: 9, 99: 5, 3: 1, 41: 5})


@pytest.mark.parametrize("size", [1, 3, 5, 20, 100])
def test_maps_agree(size: int) -> None:
    vocabulary = build_vocabulary(COUNTS, size, vocab_size=100)
    ids = vocabulary.target_ids
    assert len(vocabulary.d2t) == size == int(vocabulary.t2d.sum())
    assert bool((vocabulary.d2t >= 0).all())
    assert bool((ids.diff() > 0).all())
    assert torch.equal(vocabulary.t2d.nonzero()[:, 0], ids)


def test_the_most_frequent_are_kept_and_ties_go_to_small_ids() -> None:
    vocabulary = build_vocabulary(COUNTS, 3, vocab_size=100)
    assert vocabulary.target_ids.tolist() == [7, 40, 41]
    assert coverage(COUNTS, vocabulary) == 19 / 25


def test_unseen_tokens_fill_up_from_the_smallest() -> None:
    ids = build_vocabulary(COUNTS, 7, vocab_size=100).target_ids.tolist()
    assert ids == [0, 1, 3, 7, 40, 41, 99]


def test_a_vocabulary_larger_than_the_base_s_is_refused() -> None:
    with pytest.raises(ValueError, match="exceeds"):
        build_vocabulary(COUNTS, 101, vocab_size=100)
