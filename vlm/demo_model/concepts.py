"""What an image token is to say, in words that the language model knows.

In: the language model's embedding table and scenes. Out: for every image token up to four words
(what, colour, which, how many) and the vector that says all of them at once. A language model
reads such a vector where a word would stand, even untouched: given a name's own embedding in place
of every image token it says the right name for 28 of 34 objects.

The tower's merger is a dictionary of these words: each unit of its hidden layer stands for one
word, its last layer holds the words' embeddings (`write_dictionary`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

from vlm.demo_model.objects import OBJECTS
from vlm.demo_model.printing import LETTERS
from vlm.demo_model.scenes import SHAPES
from vlm.demo_model.sheet import Item, Scene
from vlm.demo_model.surfaces import COLORS
from vlm.demo_model.vision_tower import MERGE, PATCH
from vlm.demo_model.wording import NUMBER_WORDS
from vlm.demo_model.words import WORDS

BACKGROUND = "background"
THINGS = tuple(
    dict.fromkeys(
        (*(shown.name for shown in OBJECTS), *SHAPES, *WORDS, *"0123456789", "bar", BACKGROUND)
    )
)
MARKS = ("text", "highest", "lowest", "center")
NUMBERS = NUMBER_WORDS[1:]
GROUPS: tuple[tuple[str, ...], ...] = (THINGS, tuple(COLORS), MARKS, NUMBERS)
GROUP_WEIGHTS = (1.0, 0.7, 0.5, 0.5)
NUM_WORDS = sum(map(len, GROUPS))
FIRING = 6.0
"""What a unit that stands for a word is to give when the word is to be said."""
NONE = -1
NO_LETTER = len(LETTERS)
_THING_INDEX = {name: index for index, name in enumerate(THINGS)}
_COLOR_INDEX = {name: index for index, name in enumerate(COLORS)}


@dataclass(frozen=True, slots=True)
class Concepts:
    """Vectors from the embeddings' mean to each word, as long as the word is to weigh."""

    directions: Tensor  # (NUM_WORDS, hidden), group after group
    mean: Tensor  # (hidden,)

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, embeddings: Tensor) -> "Concepts":
        """`embeddings` is the language model's table (vocabulary, hidden)."""
        mean = embeddings.mean(0)
        directions = []
        length = (embeddings - mean).norm(dim=-1).mean()
        for words, weight in zip(GROUPS, GROUP_WEIGHTS, strict=True):
            # With the space before it a word has the token that it has inside a sentence.
            rows = [embeddings[tokenizer.encode(f" {word}")].mean(0) for word in words]
            away = F.normalize(torch.stack(rows) - mean, dim=-1)
            directions.append(weight * length * away)
        return cls(torch.cat(directions), mean)

    def to(self, device: torch.device) -> "Concepts":
        """The same on another device."""
        return Concepts(self.directions.to(device), self.mean.to(device))

    def tokens(self, words: Tensor) -> Tensor:
        """Image tokens (..., hidden) that say the given `words` (..., NUM_WORDS), 0 or 1 each."""
        return self.mean + words @ self.directions


def write_dictionary(last_layer: nn.Linear, concepts: Concepts) -> None:
    """Let the merger's last layer say the word of every unit that fires."""
    with torch.no_grad():
        last_layer.weight.zero_()
        last_layer.weight[:, :NUM_WORDS] = concepts.directions.T / FIRING
        last_layer.bias.copy_(concepts.mean)


def wanted_words(labels: Tensor) -> Tensor:
    """`labels` as `cell_labels` gives them -> 0 or 1 for every word (..., NUM_WORDS)."""
    wanted = [
        F.one_hot(labels[..., group] + 1, len(words) + 1)[..., 1:]  # NONE is -1
        for group, words in enumerate(GROUPS)
    ]
    return torch.cat(wanted, dim=-1)


def cell_labels(scenes: Sequence[Scene]) -> Tensor:
    """What every image token shows: int64 (scenes, tokens, groups), `NONE` where nothing."""
    return torch.stack([_labels_of(scene) for scene in scenes])


def patch_letters(scenes: Sequence[Scene]) -> Tensor:
    """The letter in each half of a patch: int64 (scenes, patches, 2), an index into `LETTERS`, or
    `NO_LETTER`. Patches in the tower's order, merge block by merge block.
    """
    rows, columns = scenes[0].rows * MERGE, scenes[0].columns * MERGE
    found = torch.full((len(scenes), rows, columns, 2), NO_LETTER)
    for index, scene in enumerate(scenes):
        for item in scene.items:
            for printed in item.letters:
                places = _patches_of(printed.top, printed.bottom, PATCH, rows)
                halves = _patches_of(printed.left, printed.right, PATCH // 2, 2 * columns)
                for half in halves:
                    found[index, places, half // 2, half % 2] = LETTERS.index(printed.letter)
    return _by_merge_block(found)


def patch_centers(scenes: Sequence[Scene]) -> Tensor:
    """1 at the patch that holds the middle of an object or a shape, else 0: float (scenes,
    patches), patches in the tower's order.
    """
    rows, columns = scenes[0].rows * MERGE, scenes[0].columns * MERGE
    found = torch.zeros(len(scenes), rows, columns)
    for index, scene in enumerate(scenes):
        for item in scene.items:
            if item.kind in ("object", "shape"):
                x, y = item.center
                found[index, min(int(y * rows), rows - 1), min(int(x * columns), columns - 1)] = 1
    return _by_merge_block(found)


def _by_merge_block(found: Tensor) -> Tensor:
    """(scenes, rows, columns, ...) of patches -> (scenes, patches, ...)."""
    scenes, rows, columns, *rest = found.shape
    blocks = found.view(scenes, rows // MERGE, MERGE, columns // MERGE, MERGE, *rest)
    return blocks.transpose(2, 3).reshape(scenes, rows * columns, *rest)


def _patches_of(begin: float, end: float, size: int, number: int) -> list[int]:
    """Of `number` patches in a row those whose middle lies between; at least one."""
    middles = [at for at in range(number) if begin <= (at + 0.5) * size < end]
    nearest = min(max(0, int((begin + end) / 2) // size), number - 1)
    return middles or [nearest]


def total_number(scene: Scene) -> int:
    """How many things there are to count, as an index into `NUMBERS`, or `NONE`."""
    return len(scene.items) - 1 if scene.items[0].kind in ("object", "shape", "bar") else NONE


def _labels_of(scene: Scene) -> Tensor:
    # The ground says how many things there are in all: the simplest sum, and seen from everywhere.
    total = total_number(scene)
    labels = [
        (_THING_INDEX[BACKGROUND], _COLOR_INDEX[color], NONE, total) for color in scene.cell_colors
    ]
    counts = scene.counts()
    heights = [item.height for item in scene.items]
    for item in scene.items:
        thing = NONE if item.kind == "letters" else _THING_INDEX[item.name]
        color = NONE if item.color is None else _COLOR_INDEX[item.color]
        number = counts[item.name] - 1 if item.kind in ("object", "shape") else NONE
        middle = middle_cell(scene, item)
        for cell in item.cells:
            mark = _mark(item, heights, is_middle=cell == middle)
            labels[cell] = (thing, color, mark, number)
    return torch.tensor(labels)


def middle_cell(scene: Scene, item: Item) -> int:
    """The image token, of those that show the item, that is nearest to its middle."""
    x, y = item.center[0] * scene.columns - 0.5, item.center[1] * scene.rows - 0.5

    def distance(cell: int) -> float:
        row, column = divmod(cell, scene.columns)
        return (row - y) ** 2 + (column - x) ** 2

    return min(item.cells, key=distance)


def _mark(item: Item, heights: list[float], *, is_middle: bool) -> int:
    if item.kind in ("object", "shape"):
        return MARKS.index("center") if is_middle else NONE
    if item.kind in ("word", "number", "letters"):
        return MARKS.index("text")
    if item.kind == "bar" and item.height == max(heights):
        return MARKS.index("highest")
    if item.kind == "bar" and item.height == min(heights):
        return MARKS.index("lowest")
    return NONE
