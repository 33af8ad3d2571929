"""First stage: the tower learns to write words into image tokens, without a language model.

In: material to draw from. Out: a tower in whose merger each unit of the hidden layer fires where
an image token shows what the unit's word says (see `concepts`). A picture costs a small part here
of what it costs through the language model.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import (
    Qwen2_5_VisionTransformerPretrainedModel as VisionTower,
)

from vlm.demo_model.concepts import (
    BACKGROUND,
    FIRING,
    GROUPS,
    MARKS,
    NO_LETTER,
    NONE,
    NUM_WORDS,
    THINGS,
    cell_labels,
    middle_cell,
    patch_centers,
    patch_letters,
    total_number,
    wanted_words,
)
from vlm.demo_model.material import Material
from vlm.demo_model.objects import OBJECTS
from vlm.demo_model.printing import draw_letters, draw_lines, draw_number, draw_word
from vlm.demo_model.scenes import SceneMaker, draw_chart, draw_objects, draw_shapes, draw_these
from vlm.demo_model.sheet import Scene
from vlm.demo_model.training_loop import SCALES, ParameterGroup, Scale, batches_of
from vlm.demo_model.vision_tower import run_blocks, to_pixel_values

Size = tuple[int, int]
"""Rows and columns of image tokens."""

SIZES: tuple[Size, ...] = (
    (2, 2), (3, 3), (4, 4), (3, 4), (4, 3), (4, 5), (5, 4), (5, 5), (6, 6), (8, 8), (16, 16),
)  # fmt: skip
SIZE_ODDS = (0.05, 0.17, 0.40, 0.06, 0.05, 0.06, 0.04, 0.07, 0.05, 0.04, 0.01)
_SCENE_ODDS = (0.26, 0.27, 0.14, 0.20, 0.07, 0.06)
_LETTERS_ODDS = 0.06  # of scenes that only this stage draws
_LINES_ODDS = 0.2
_GROUP_LOSS_WEIGHTS = (1.0, 0.5, 0.4, 0.5)
_BACKGROUND_WEIGHT = 0.3
_FIRING_WEIGHT = 0.02
_MISSED_WEIGHT = 4.0  # a word left out is worse than one too many
_LETTER_WEIGHT = 0.5
_CENTER_WEIGHT = 1.0
_NO_CENTER_WEIGHT = 0.05
_NO_LETTER_WEIGHT = 0.05
_HELD_OUT_SEED = 2**31 + 7
_HELD_OUT_SIZE = (4, 4)
_HELD_OUT_SCENES = 256


class _Trained(nn.Module):
    def __init__(self, tower: VisionTower) -> None:
        super().__init__()
        self.tower = tower
        # Not shipped. Letters are to be seen before they can be put together to words, and things
        # one by one before they can be counted.
        width = tower.config.hidden_size
        self.letters = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * (NO_LETTER + 1)))
        self.centers = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))


@dataclass(frozen=True, slots=True)
class SceneDrawer:
    """Scenes of one size for one step; a batch has as many image tokens whatever the size."""

    material: Material
    scale: Scale

    def __call__(self, rng: np.random.Generator) -> list[Scene]:
        """Scenes of every kind."""
        rows, columns = SIZES[rng.choice(len(SIZES), p=SIZE_ODDS)]
        number = max(1, self.scale.image_tokens_per_batch // (rows * columns))
        return [self._draw_one(rng, rows, columns) for _ in range(number)]

    def _draw_one(self, rng: np.random.Generator, rows: int, columns: int) -> Scene:
        kind = rng.random()
        if kind < _LETTERS_ODDS:
            return draw_letters(rng, self.material, rows, columns)
        if kind < _LETTERS_ODDS + _LINES_ODDS:
            return draw_lines(rng, self.material, rows, columns)
        return draw_any(rng, self.material, rows, columns)


class TowerStage:
    """Cross-entropy at the units of the merger's hidden layer, token by token.

    Within a group of words the right one is to be the likeliest; each word by itself is to be said
    or not.
    """

    learning_rate = 1.5e-3
    report_seconds = 60.0

    def __init__(
        self,
        tower: VisionTower,
        material: Material,
        device: torch.device = torch.device("cpu"),  # noqa: B008 - immutable
        *,
        compiled: bool = False,
    ) -> None:
        """`compiled`: slow first steps (a minute for each of the picture sizes, once), faster ones
        after.
        """
        self._compiled = compiled
        self._trained = _Trained(tower).to(device)
        self._device = device
        self._draw = SceneDrawer(material, SCALES[device.type])
        rng = np.random.default_rng(_HELD_OUT_SEED)
        self._held_out = {
            name: [draw(rng, material, *_HELD_OUT_SIZE) for _ in range(_HELD_OUT_SCENES)]
            for name, draw in SCENE_KINDS.items()
        }
        self._held_out_letters = [
            draw_letters(rng, material, *_HELD_OUT_SIZE) for _ in range(_HELD_OUT_SCENES)
        ]

    @property
    def trained(self) -> nn.Module:
        """The tower, and what looks for letters and middles beside it."""
        return self._trained

    @property
    def draw(self) -> SceneDrawer:
        """A batch of scenes of one size."""
        return self._draw

    def parameter_groups(self) -> list[ParameterGroup]:
        """Everything at one rate."""
        return [ParameterGroup(tuple(self._trained.parameters()), rate_scale=1.0)]

    def loss(self, drawn: list[Scene]) -> tuple[Tensor, int]:
        """Words, and halfway letters and middles, of one batch."""
        halfway, merged = self._run_blocks(drawn)
        labels = cell_labels(drawn).to(self._device)
        words = word_loss(self._scores(merged), labels)
        parts = self._letter_loss(halfway, drawn) + self._center_loss(halfway, drawn)
        return words + parts, len(drawn)

    def _scores(self, merged: Tensor) -> Tensor:
        """Of every word, (scenes, tokens, NUM_WORDS): positive where it is to be said."""
        with torch.autocast(self._device.type, torch.bfloat16):
            hidden: Tensor = self._trained.tower.merger.mlp[0](merged)
        return hidden[..., :NUM_WORDS].float()

    def _letters(self, halfway: Tensor) -> Tensor:
        """Scores (scenes, patches, 2, letters and none) of the letter in each half of a patch."""
        with torch.autocast(self._device.type, torch.bfloat16):
            scores: Tensor = self._trained.letters(halfway)
        return scores.float().view(*halfway.shape[:2], 2, NO_LETTER + 1)

    def _letter_loss(self, halfway: Tensor, scenes: list[Scene]) -> Tensor:
        """Which letter is where, or none."""
        letters = self._letters(halfway)
        wanted = patch_letters(scenes).to(self._device)
        weights = letters.new_ones(NO_LETTER + 1)
        weights[NO_LETTER] = _NO_LETTER_WEIGHT
        return _LETTER_WEIGHT * F.cross_entropy(letters.flatten(0, 2), wanted.flatten(), weights)

    def _center_loss(self, halfway: Tensor, scenes: list[Scene]) -> Tensor:
        """Where the middles of objects and shapes are."""
        with torch.autocast(self._device.type, torch.bfloat16):
            scores = self._trained.centers(halfway).squeeze(-1)
        wanted = patch_centers(scenes).to(self._device)
        weights = torch.where(wanted > 0, 1.0, _NO_CENTER_WEIGHT)
        each = F.binary_cross_entropy_with_logits(scores.float(), wanted, weights, reduction="sum")
        return _CENTER_WEIGHT * each / weights.sum()

    @torch.no_grad()
    def held_out_accuracy(self) -> dict[str, float]:
        """By kind of scene: items of which the tokens together say the right word loudest."""
        found: dict[str, float] = {}
        for name, scenes in self._held_out.items():
            right: dict[str, list[bool]] = defaultdict(list)
            for batch in batches_of(scenes, 64):
                _, merged = self._run_blocks(batch)
                said = F.gelu(self._scores(merged))
                for said_of, labels, scene in zip(said, cell_labels(batch), batch, strict=True):
                    for kind, said_right in _judge(scene, said_of, labels):
                        right[name + kind].append(said_right)
            found |= {kind: float(np.mean(values)) for kind, values in right.items()}
        return found | {"letters": self._letter_recall()}

    def _letter_recall(self) -> float:
        """Letters of which the right one is likeliest where they stand."""
        scenes = self._held_out_letters
        halfway, _ = self._run_blocks(scenes)
        likeliest = self._letters(halfway).argmax(-1)
        wanted = patch_letters(scenes).to(self._device)
        printed = wanted != NO_LETTER
        return float((likeliest == wanted)[printed].float().mean())

    def tokens(self, scenes: list[Scene]) -> Tensor:
        """What the tower writes, (scenes, tokens, hidden), for scenes of one size."""
        _, merged = self._run_blocks(scenes)
        with torch.autocast(self._device.type, torch.bfloat16):
            tokens: Tensor = self._trained.tower.merger.mlp(merged)
        return tokens.float()

    def _run_blocks(self, scenes: list[Scene]) -> tuple[Tensor, Tensor]:
        pixels = np.stack([scene.pixels for scene in scenes])
        pixel_values = to_pixel_values(pixels, self._device)
        with torch.autocast(self._device.type, torch.bfloat16):
            return run_blocks(
                self._trained.tower, pixel_values, *pixels.shape[1:3], compiled=self._compiled
            )


def word_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """`scores` (scenes, tokens, NUM_WORDS) against `labels` as `cell_labels` gives them."""
    background = labels[..., 0] == THINGS.index(BACKGROUND)
    weights = torch.where(background, _BACKGROUND_WEIGHT, 1.0)
    weights = weights / weights.sum()
    wanted = wanted_words(labels).to(scores.dtype)
    each = F.binary_cross_entropy_with_logits(
        scores, wanted, reduction="none", pos_weight=scores.new_tensor(_MISSED_WEIGHT)
    ).sum(-1)
    too_far = (wanted * (scores - FIRING) ** 2).sum(-1)
    loss = (weights * (each + _FIRING_WEIGHT * too_far)).sum()
    sizes = [len(words) for words in GROUPS]
    for group, scores_of in enumerate(torch.split(scores, sizes, dim=-1)):
        said = labels[..., group] != NONE
        if bool(said.any()):
            likeliest = F.cross_entropy(scores_of[said], labels[..., group][said], reduction="none")
            loss = loss + _GROUP_LOSS_WEIGHTS[group] * (weights[said] * likeliest).sum()
    return loss


def _judge(scene: Scene, said: Tensor, labels: Tensor) -> Iterator[tuple[str, bool]]:
    """Of every item: is each of its words said, and is its middle found? And how many in all?"""
    things, colors, marks, numbers = torch.split(said, [len(words) for words in GROUPS], dim=-1)
    for item in scene.items:
        cells = list(item.cells)
        thing, color, mark, number = (int(label) for label in labels[cells[0]])
        yield "", int(things[cells].sum(0).argmax()) == thing
        if color != NONE:
            yield " color", int(colors[cells].sum(0).argmax()) == color
        if number != NONE:
            yield " count", int(numbers[cells].sum(0).argmax()) == number
        if item.kind in ("object", "shape"):
            loudest = int(marks[cells, MARKS.index("center")].argmax())
            yield " middle", cells[loudest] == middle_cell(scene, item)
        elif mark != NONE:
            yield " mark", int(marks[cells].sum(0).argmax()) == mark
    ground = labels[:, 0] == THINGS.index(BACKGROUND)
    total = total_number(scene)
    if total != NONE and bool(ground.any()):
        yield " total", int(numbers[ground].sum(0).argmax()) == total


def draw_single(rng: np.random.Generator, material: Material, rows: int, columns: int) -> Scene:
    """One object, any."""
    return draw_these(rng, material, [OBJECTS[rng.integers(len(OBJECTS))]], rows, columns)


SCENE_KINDS: dict[str, SceneMaker] = {
    "object": draw_single,
    "objects": draw_objects,
    "shapes": draw_shapes,
    "word": draw_word,
    "number": draw_number,
    "chart": draw_chart,
}
_MAKERS = tuple(SCENE_KINDS.values())


def draw_any(rng: np.random.Generator, material: Material, rows: int, columns: int) -> Scene:
    """A scene of any kind that there is room for."""
    if rows * columns <= 4:
        return draw_single(rng, material, rows, columns)
    odds = np.array(_SCENE_ODDS) / sum(_SCENE_ODDS)
    return _MAKERS[rng.choice(len(_MAKERS), p=odds)](rng, material, rows, columns)


def last_layer(tower: VisionTower) -> nn.Linear:
    """The layer that writes the image tokens."""
    last = tower.merger.mlp[2]
    assert isinstance(last, nn.Linear)
    return last
