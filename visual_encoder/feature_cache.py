"""Features of pictures already seen, so that the same picture in the next turn costs nothing.

Wraps an engine: patches in, features out, as before. A picture is known by the hash of its
normalised pixels, its grid and the engine, so the same file at another size is another picture.
Pictures do not see each other inside the tower; hence each can be kept by itself. The least
recently used go first when the bytes kept exceed the bound.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass

import torch

from visual_encoder.types import (
    EncoderInfo,
    ImagePatches,
    VisionFeatures,
    VisualEncoder,
    check_patches,
)


@dataclass(frozen=True, slots=True)
class PictureKey:
    """Which features: of these pixels, laid out so, from this engine in this number format."""

    pixels_sha256: bytes
    grid: tuple[int, int, int]
    engine: str
    device: str
    dtype: str


class FeatureCache:
    """Embeddings by picture, at most `max_bytes` of them."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._entries: OrderedDict[PictureKey, torch.Tensor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: PictureKey) -> bool:
        return key in self._entries

    def get(self, key: PictureKey) -> torch.Tensor | None:
        """The embeddings, which thereby become the most recently used."""
        embeddings = self._entries.get(key)
        if embeddings is not None:
            self._entries.move_to_end(key)
        return embeddings

    def put(self, key: PictureKey, embeddings: torch.Tensor) -> None:
        """Keep embeddings; those larger than the whole cache are not kept."""
        if key in self._entries or embeddings.nbytes > self.max_bytes:
            return
        self._entries[key] = embeddings
        self.num_bytes += embeddings.nbytes
        while self.num_bytes > self.max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.num_bytes -= oldest.nbytes


class CachingEncoder:
    """An engine that remembers; only pictures it does not know reach the engine, in one call."""

    def __init__(self, encoder: VisualEncoder, cache: FeatureCache) -> None:
        self._encoder = encoder
        self._cache = cache

    @property
    def name(self) -> str:
        return self._encoder.name

    @property
    def info(self) -> EncoderInfo:
        return self._encoder.info

    def encode(self, patches: ImagePatches) -> VisionFeatures:
        """See `VisualEncoder.encode`; `is_cached` tells the pictures that cost nothing."""
        check_patches(patches)
        started = time.perf_counter()
        pictures = split_images(patches)
        keys = [self._key(picture) for picture in pictures]
        known = [self._cache.get(key) for key in keys]
        new = {
            key: picture
            for key, picture, embeddings in zip(keys, pictures, known, strict=True)
            if embeddings is None
        }
        fresh = self._encode_new(new)
        rows = [
            fresh[key] if embeddings is None else embeddings
            for key, embeddings in zip(keys, known, strict=True)
        ]
        return VisionFeatures(
            embeddings=torch.cat(rows),
            grid_thw=patches.grid_thw,
            engine=self.name,
            seconds=time.perf_counter() - started,
            is_cached=tuple(embeddings is not None for embeddings in known),
        )

    def knows(self, picture: ImagePatches) -> bool:
        """Whether the features of this one picture are kept."""
        return self._key(picture) in self._cache

    def _encode_new(self, new: dict[PictureKey, ImagePatches]) -> dict[PictureKey, torch.Tensor]:
        if not new:
            return {}
        together = ImagePatches(
            pixel_values=torch.cat([picture.pixel_values for picture in new.values()]),
            grid_thw=tuple(grid for picture in new.values() for grid in picture.grid_thw),
            resized_sizes=tuple(size for p in new.values() for size in p.resized_sizes),
        )
        features = self._encoder.encode(together)
        rows = torch.split(features.embeddings, list(together.num_image_tokens))
        fresh = {key: row.clone() for key, row in zip(new, rows, strict=True)}
        for key, row in fresh.items():
            self._cache.put(key, row)
        return fresh

    def _key(self, picture: ImagePatches) -> PictureKey:
        pixels = picture.pixel_values.contiguous().numpy()
        return PictureKey(
            pixels_sha256=hashlib.sha256(pixels.data).digest(),
            grid=picture.grid_thw[0],
            engine=self.info.engine,
            device=self.info.device,
            dtype=self.info.dtype,
        )


def split_images(patches: ImagePatches) -> tuple[ImagePatches, ...]:
    """The pictures of a request one by one, as views."""
    lengths = [t * h * w for t, h, w in patches.grid_thw]
    pixels_of = torch.split(patches.pixel_values, lengths)
    pieces = zip(pixels_of, patches.grid_thw, patches.resized_sizes, strict=True)
    return tuple(ImagePatches(pixels, (grid,), (size,)) for pixels, grid, size in pieces)
