"""First stage: the tower learns which word a picture stands for, without a language model.

In: artwork and the language model's word embeddings. Out: a tower each of whose tokens
points towards the embedding of the object's name. The untouched language model already
reads such tokens: given the name's own embedding in place of every image token it says the
right word for 28 of 34 objects, so little is left for the second stage to teach.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import (
    Qwen2_5_VisionTransformerPretrainedModel as VisionTower,
)

from vlm.demo_model.artwork import Artwork
from vlm.demo_model.objects import OBJECTS
from vlm.demo_model.scenes import BACKGROUND_COLORS, Scene, draw_scene
from vlm.demo_model.training_loop import ParameterGroup, batches_of
from vlm.demo_model.vision_tower import PATCH, run_tower, to_pixel_values

# A batch has about this many patches, whatever its picture size: 64 pictures of 112 pixels.
_PATCHES_PER_BATCH = 4096
# Small pictures teach most per second. Large ones come into their own in the second stage:
# what was learned on small ones carries over only in part.
_SIZES = (84, 112, 140, 168, 196, 224)
SMALL_SIZE_ODDS = (0.40, 0.34, 0.10, 0.06, 0.05, 0.05)
LARGE_SIZE_ODDS = (0.15, 0.20, 0.10, 0.10, 0.10, 0.35)
_COLOR_WEIGHT = 0.3
_PURITY_WEIGHT = 2.0
_HELD_OUT_SEED = 2**31 + 7


class _Trained(nn.Module):
    def __init__(self, tower: VisionTower) -> None:
        super().__init__()
        self.tower = tower
        self.log_temperature = nn.Parameter(torch.tensor(2.7))


class TowerStage:
    """Cross-entropy over cosine similarities with the names' mean word embeddings.

    It is taken of the mean token and of every token, and a second term asks each token to
    hold nothing but the name and a little of the background's colour.
    """

    learning_rate = 2e-3
    report_seconds = 30.0

    def __init__(
        self,
        tower: VisionTower,
        artworks: Sequence[Artwork],
        tokenizer: PreTrainedTokenizerBase,
        embeddings: Tensor,
        own_bias: Tensor | None = None,
        size_odds: Sequence[float] = SMALL_SIZE_ODDS,
    ) -> None:
        """`own_bias` stands in for the tower's last bias where that serves another purpose."""
        self._trained = _Trained(tower)
        self._own_bias = own_bias
        self._size_odds = size_odds
        self._artworks = artworks
        words = [shown.name for shown in OBJECTS]
        self._names = _word_directions(words, tokenizer, embeddings)
        self._colors = _word_directions(list(BACKGROUND_COLORS), tokenizer, embeddings)
        self._held_out = held_out_scenes(artworks, num_scenes=268, size=112)

    @property
    def trained(self) -> nn.Module:
        """The tower and the temperature of its loss."""
        return self._trained

    def parameter_groups(self) -> list[ParameterGroup]:
        """Everything at one rate."""
        return [ParameterGroup(tuple(self._trained.parameters()), rate_scale=1.0)]

    def loss(self, rng: np.random.Generator) -> tuple[Tensor, int]:
        """Names, and with a small weight the background's colour, of one batch."""
        size = int(rng.choice(_SIZES, p=self._size_odds))
        num_pictures = _PATCHES_PER_BATCH // (size // PATCH) ** 2
        shown = rng.integers(len(OBJECTS), size=num_pictures)
        scenes = [draw_scene(rng, self._artworks, OBJECTS[i], size, size) for i in shown]
        tokens = self._tokens(scenes)
        each = F.normalize(tokens, dim=-1)
        mean = F.normalize(tokens.mean(1), dim=-1)
        temperature = self._trained.log_temperature.exp()
        classes = torch.from_numpy(shown)
        every_class = classes.repeat_interleave(tokens.shape[1])
        colors = torch.stack([_color_shares(scene) for scene in scenes])
        wanted = F.normalize(self._names[classes] + _COLOR_WEIGHT * colors @ self._colors, dim=-1)
        loss = (
            F.cross_entropy(temperature * mean @ self._names.T, classes)
            + F.cross_entropy(temperature * (each @ self._names.T).flatten(0, 1), every_class)
            + _COLOR_WEIGHT * F.cross_entropy(temperature * mean @ self._colors.T, colors)
            + _PURITY_WEIGHT * (1 - (each * wanted[:, None]).sum(-1)).mean()
        )
        return loss, num_pictures

    @torch.no_grad()
    def held_out_accuracy(self) -> float:
        """Names that come out nearest on scenes no training step draws."""
        right = 0
        for scenes in batches_of(self._held_out, 67):
            nearest = (self._tokens(scenes).mean(1) @ self._names.T).argmax(-1).tolist()
            right += sum(
                OBJECTS[i] == scene.shown for i, scene in zip(nearest, scenes, strict=True)
            )
        return right / len(self._held_out)

    def _tokens(self, scenes: list[Scene]) -> Tensor:
        pixels = np.stack([scene.pixels for scene in scenes])
        with torch.autocast("cpu", torch.bfloat16):
            tokens = run_tower(self._trained.tower, to_pixel_values(pixels), *pixels.shape[1:3])
        if self._own_bias is not None:
            tokens = tokens - last_layer(self._trained.tower).bias + self._own_bias
        return tokens


def held_out_scenes(artworks: Sequence[Artwork], num_scenes: int, size: int) -> list[Scene]:
    """The same scenes on every call, every object in turn."""
    rng = np.random.default_rng(_HELD_OUT_SEED)
    return [
        draw_scene(rng, artworks, OBJECTS[i % len(OBJECTS)], size, size) for i in range(num_scenes)
    ]


def last_layer(tower: VisionTower) -> nn.Linear:
    """The layer that writes the image tokens."""
    last = tower.merger.mlp[2]
    assert isinstance(last, nn.Linear)
    return last


def write_in_embedding_scale(tower: VisionTower, scenes: list[Scene], embeddings: Tensor) -> None:
    """Give the tower's output the length and the mean of word embeddings.

    The first stage looks at directions around the embeddings' mean only; the language model
    also minds how long a vector is.
    """
    pixels = np.stack([scene.pixels for scene in scenes])
    with torch.no_grad():
        tokens = run_tower(tower, to_pixel_values(pixels), *pixels.shape[1:3])
        mean = embeddings.mean(0)
        scale = (embeddings - mean).norm(dim=-1).mean() / tokens.norm(dim=-1).mean()
        last = last_layer(tower)
        last.weight.mul_(scale)
        last.bias.mul_(scale).add_(mean)


def _word_directions(
    words: list[str], tokenizer: PreTrainedTokenizerBase, embeddings: Tensor
) -> Tensor:
    """Unit vectors (words, hidden) from the embeddings' mean to each word's own mean."""
    # With the space before it a word has the token it has inside a sentence.
    rows = [embeddings[tokenizer.encode(f" {word}")].mean(0) for word in words]
    return F.normalize(torch.stack(rows) - embeddings.mean(0), dim=-1)


def _color_shares(scene: Scene) -> Tensor:
    shares = torch.zeros(len(BACKGROUND_COLORS))
    for color in scene.background:
        shares[list(BACKGROUND_COLORS).index(color)] = 1 / len(scene.background)
    return shares
