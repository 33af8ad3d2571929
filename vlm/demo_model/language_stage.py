"""Later stages: the language model learns to read image tokens, and the tower to be read.

In: a composed model, material and a tower from the first stage. Out: low-rank adapters of the
language model, and in the last stage the tower with them. The loss is next-token cross-entropy at
the answers of whole dialogues, under the real chat template and the real 3-D positions. Beside it
the model's own answers to text-only prompts keep it from forgetting how to talk.

The `read` stage trains the adapters and leaves the tower as it is. The `joint` stage trains both;
the first stage's loss goes on beside it, since it is far cheaper a picture.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase, Qwen2_5_VLForConditionalGeneration

from vlm.demo_model.composition import IMAGE_PAD, VISION_END, VISION_START
from vlm.demo_model.concepts import Concepts, cell_labels, wanted_words
from vlm.demo_model.dialogues import Turn, ask
from vlm.demo_model.material import Material
from vlm.demo_model.sheet import Scene
from vlm.demo_model.tower_stage import SIZES, SceneDrawer, TowerStage, draw_any
from vlm.demo_model.training_loop import SCALES, ParameterGroup, Scale
from vlm.demo_model.vision_tower import MERGE
from vlm.mrope import mrope_positions

SYSTEM_PROMPT = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
_OPENING = f"<|im_start|>system\n{SYSTEM_PROMPT}<|im_end|>\n"
ADAPTED_LAYERS = (
    "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
)  # fmt: skip
ADAPTER_RANK = 16
ADAPTER_SCALE = 2.0
_SIZE_ODDS = (0.05, 0.22, 0.43, 0.06, 0.05, 0.05, 0.03, 0.05, 0.03, 0.03, 0.0)
_MAX_TEXT_TOKENS = 192
_TEXT_EVERY = 5  # one step in so many is text only
_TWO_PICTURES_SHARE = 0.12
_NAMING_WEIGHT = 0.3
_DRAWN_PER_CHOSEN = 6
_TOLD_SHARE = 0.4
_IGNORED = -100
_LENGTH_STEP = 16
_HELD_OUT_SEED = 2**31 + 11
_HELD_OUT_DIALOGUES = 48


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Pictures, and turns about them. `shown_before[i]` pictures precede turn i's question."""

    scenes: tuple[Scene, ...]
    turns: tuple[Turn, ...]
    shown_before: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows padded on the right: attention is causal, so no answer sees its padding."""

    token_ids: Tensor  # (rows, length)
    labels: Tensor  # (rows, length), _IGNORED outside answers
    positions: Tensor  # (3, rows, length)


@dataclass(frozen=True, slots=True)
class TextExample:
    """The language model's own answer to a prompt without pictures."""

    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]


def read_text_examples(paths: Iterable[Path], *, held_out: bool = False) -> list[TextExample]:
    """From JSON lines as `python -m eagle generate-data` writes them: those to train on, or those
    that it holds out."""
    examples = []
    for path in sorted(paths):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["held_out"] == held_out:
                examples.append(TextExample(tuple(row["prompt_ids"]), tuple(row["answer_ids"])))
    return examples


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one step learns from: dialogues or text examples, and scenes for the naming loss.

    Pictures that are `told`, (pictures,) bool, reach the language model as a perfect tower would
    see them: so it learns to read what the tower learns to see later.
    """

    dialogues: tuple[Dialogue, ...]
    told: Tensor
    text: tuple[TextExample, ...]
    naming: list[Scene] | None

    @property
    def scenes(self) -> list[Scene]:
        """Every picture, dialogue by dialogue."""
        return [scene for dialogue in self.dialogues for scene in dialogue.scenes]


@dataclass(frozen=True, slots=True)
class LessonDrawer:
    """Draws lessons; every few of them are text alone."""

    material: Material
    text: Sequence[TextExample]
    scale: Scale
    naming: SceneDrawer | None

    def __call__(self, rng: np.random.Generator) -> Lesson:
        """One lesson."""
        if self.text and rng.integers(_TEXT_EVERY) == 0:
            chosen = rng.integers(len(self.text), size=self.scale.text_rows_per_batch)
            return Lesson((), torch.empty(0), tuple(self.text[i] for i in chosen), None)
        size = SIZES[rng.choice(len(SIZES), p=_SIZE_ODDS)]
        number = max(2, self.scale.tokens_per_batch // (100 + size[0] * size[1]))
        dialogues = _alike_in_length(rng, self.material, size, number)
        num_pictures = sum(len(dialogue.scenes) for dialogue in dialogues)
        told = torch.from_numpy(rng.random(num_pictures) < _TOLD_SHARE)
        return Lesson(tuple(dialogues), told, (), self.naming(rng) if self.naming else None)


def _alike_in_length(
    rng: np.random.Generator, material: Material, size: tuple[int, int], number: int
) -> list[Dialogue]:
    """Of some more dialogues those that lie together by length: less of a batch is padding."""
    drawn = draw_dialogues(rng, material, size, _DRAWN_PER_CHOSEN * number)
    drawn.sort(key=_num_characters)
    start = number * int(rng.integers(_DRAWN_PER_CHOSEN))
    return drawn[start : start + number]


def _num_characters(dialogue: Dialogue) -> int:
    return sum(len(turn.question) + len(turn.answer) for turn in dialogue.turns)


class _Trained(nn.Module):
    def __init__(self, adapters: dict[str, nn.Parameter], naming: nn.Module | None) -> None:
        super().__init__()
        # A parameter's name may hold no dot.
        self.adapters = nn.ParameterDict(
            {name.replace(".", "/"): parameter for name, parameter in adapters.items()}
        )
        self.naming = naming


class LanguageStage:
    """Next-token loss through the language model."""

    learning_rate = 1e-3
    report_seconds = 180.0  # the check costs several steps

    def __init__(
        self,
        model: Qwen2_5_VLForConditionalGeneration,
        material: Material,
        tokenizer: PreTrainedTokenizerBase,
        text: Sequence[TextExample],
        *,
        trains_tower: bool,
        device: torch.device = torch.device("cpu"),  # noqa: B008 - immutable
        compiled: bool = False,
    ) -> None:
        """`trains_tower`: the tower learns too, through the language model and from its names.
        `compiled`: a slow first step, a fifth less time for each one after.
        """
        self._tokenizer = tokenizer
        self._trains_tower = trains_tower
        self._device = device
        self._naming = TowerStage(model.model.visual, material, device)
        naming = self._naming.draw if trains_tower else None
        self._draw = LessonDrawer(material, text, SCALES[device.type], naming)
        # Frozen weights in the type autocast would choose: nothing is converted step by step.
        self._language_model = (
            model.model.language_model.requires_grad_(False).bfloat16().to(device)
        )
        embeddings = self._language_model.embed_tokens.weight.float()
        self._concepts = Concepts.of(tokenizer, embeddings).to(device)
        add_adapters(self._language_model)
        if compiled:
            for layer in self._language_model.layers:
                layer.compile(dynamic=True)
        self._adapters = {
            name: parameter
            for name, parameter in self._language_model.named_parameters()
            if parameter.requires_grad
        }
        self._trained = _Trained(self._adapters, self._naming.trained if trains_tower else None)
        self._image_id = int(model.config.image_token_id)
        rng = np.random.default_rng(_HELD_OUT_SEED)
        self._held_out = draw_dialogues(rng, material, (4, 4), _HELD_OUT_DIALOGUES)

    @property
    def trained(self) -> nn.Module:
        """The adapters, and in the joint stage the tower."""
        return self._trained

    def start_from(self, weights: Mapping[str, Tensor]) -> None:
        """Load an earlier stage's adapters: "layers.0.self_attn.q_proj.lora_A" and so on."""
        for name, parameter in self._adapters.items():
            parameter.data.copy_(weights[name.removesuffix(".default.weight")])

    def go_on_naming(self, weights: Mapping[str, Tensor]) -> None:
        """Load what the first stage learned beside its tower, which is there already."""
        state = self._naming.trained.state_dict()
        beside = {name: weight for name, weight in weights.items() if not name.startswith("tower.")}
        self._naming.trained.load_state_dict({**state, **beside})

    @property
    def draw(self) -> LessonDrawer:
        """Dialogues about pictures of one size, or text alone."""
        return self._draw

    def parameter_groups(self) -> list[ParameterGroup]:
        """The tower comes trained and changes slowly."""
        groups = [ParameterGroup(tuple(self._trained.adapters.parameters()), rate_scale=1.0)]
        if self._trained.naming is not None:
            groups.append(ParameterGroup(tuple(self._trained.naming.parameters()), rate_scale=0.4))
        return groups

    def loss(self, drawn: Lesson) -> tuple[Tensor, int]:
        """Next-token loss of one lesson, and the naming loss where the tower learns too."""
        if drawn.text:
            return self._next_token_loss(self._tokenize_text(drawn.text), None), 0
        loss = self._next_token_loss(self._tokenize(drawn.dialogues), self._image_tokens(drawn))
        if drawn.naming is None:
            return loss, len(drawn.told)
        naming, num_named = self._naming.loss(drawn.naming)
        return loss + _NAMING_WEIGHT * naming, len(drawn.told) + num_named

    def _image_tokens(self, drawn: Lesson) -> Tensor:
        """(pictures, tokens, hidden), seen by the tower or told."""
        with torch.set_grad_enabled(self._trains_tower):
            seen = self._naming.tokens(drawn.scenes)
        words = wanted_words(cell_labels(drawn.scenes)).to(seen)
        told = drawn.told.to(self._device)[:, None, None]
        return torch.where(told, self._concepts.tokens(words), seen)

    @torch.no_grad()
    def held_out_accuracy(self) -> dict[str, float]:
        """First answers of which every token is the likeliest one, and the loss on own text."""
        right: dict[str, list[bool]] = {}
        for start in range(0, len(self._held_out), 8):
            dialogues = [
                Dialogue(d.scenes[:1], d.turns[:1], d.shown_before[:1])
                for d in self._held_out[start : start + 8]
            ]
            batch = self._tokenize(dialogues)
            image = self._naming.tokens([d.scenes[0] for d in dialogues])
            hidden = self._hidden(batch, image)
            for row, dialogue in enumerate(dialogues):
                wanted = batch.labels[row, 1:] != _IGNORED
                best = self._logits(hidden[row, :-1][wanted]).argmax(-1)
                kind = dialogue.turns[0].kind
                same = bool((best == batch.labels[row, 1:][wanted]).all())
                right.setdefault(kind, []).append(same)
        return {kind: float(np.mean(values)) for kind, values in sorted(right.items())}

    def _tokenize_text(self, examples: Sequence[TextExample]) -> Batch:
        rows, labels = [], []
        for example in examples:
            begin = len(example.prompt_ids)
            row = [*example.prompt_ids, *example.answer_ids][: max(_MAX_TEXT_TOKENS, begin + 1)]
            rows.append(row)
            labels.append([_IGNORED] * begin + row[begin:])
        return self._batch(rows, labels, [[] for _ in rows], ())

    def _next_token_loss(self, batch: Batch, image: Tensor | None) -> Tensor:
        wanted = batch.labels[:, 1:] != _IGNORED  # the token before a label predicts it
        hidden = self._hidden(batch, image)[:, :-1][wanted]
        return F.cross_entropy(self._logits(hidden).float(), batch.labels[:, 1:][wanted])

    def _hidden(self, batch: Batch, image: Tensor | None) -> Tensor:
        embeddings = self._language_model.embed_tokens(batch.token_ids).float()
        if image is not None:
            place = (batch.token_ids == self._image_id).unsqueeze(-1)
            embeddings = embeddings.masked_scatter(place, image)
        with torch.autocast(self._device.type, torch.bfloat16):
            hidden: Tensor = self._language_model(
                inputs_embeds=embeddings, position_ids=batch.positions, use_cache=False
            ).last_hidden_state
        return hidden

    def _logits(self, hidden: Tensor) -> Tensor:
        with torch.autocast(self._device.type, torch.bfloat16):
            return F.linear(hidden, self._language_model.embed_tokens.weight)

    def _tokenize(self, dialogues: Sequence[Dialogue]) -> Batch:
        rows, labels, starts = [], [], []
        for dialogue in dialogues:
            row = self._tokenizer.encode(_OPENING)
            label = [_IGNORED] * len(row)
            shown = 0
            for turn, before in zip(dialogue.turns, dialogue.shown_before, strict=True):
                pictures = "".join(image_text(scene) for scene in dialogue.scenes[shown:before])
                asked = self._tokenizer.encode(
                    f"<|im_start|>user\n{pictures}{turn.question}<|im_end|>\n"
                    "<|im_start|>assistant\n"
                )
                answer = self._tokenizer.encode(f"{turn.answer}<|im_end|>")
                row += asked + answer
                label += [_IGNORED] * len(asked) + answer
                end = self._tokenizer.encode("\n")
                row += end
                label += [_IGNORED] * len(end)
                shown = before
            size = dialogue.scenes[0].rows * dialogue.scenes[0].columns
            pads = [at for at, token in enumerate(row) if token == self._image_id]
            rows.append(row)
            labels.append(label)
            starts.append(pads[::size])
        scene = dialogues[0].scenes[0]
        return self._batch(rows, labels, starts, (scene.rows, scene.columns))

    def _batch(
        self,
        rows: list[list[int]],
        labels: list[list[int]],
        starts: list[list[int]],
        size: tuple[int, ...],
    ) -> Batch:
        # A matrix product of a shape not seen before costs a CPU several times the next one.
        length = -(-max(map(len, rows)) // _LENGTH_STEP) * _LENGTH_STEP
        positions = []
        for at in starts:
            grids = [(1, size[0] * MERGE, size[1] * MERGE) for _ in at]
            positions.append(mrope_positions(length, at, grids, MERGE)[0])
        return Batch(
            torch.tensor([row + [0] * (length - len(row)) for row in rows]).to(self._device),
            torch.tensor([row + [_IGNORED] * (length - len(row)) for row in labels]).to(
                self._device
            ),
            torch.stack(positions, dim=1).to(self._device),
        )


def add_adapters(language_model: nn.Module) -> None:
    """Low-rank updates (LoRA, arXiv 2106.09685) beside every linear layer; B starts at zero."""
    config = LoraConfig(
        r=ADAPTER_RANK,
        lora_alpha=round(ADAPTER_SCALE * ADAPTER_RANK),
        target_modules=list(ADAPTED_LAYERS),
    )
    inject_adapter_in_model(config, language_model)
    for parameter in language_model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()


def image_text(scene: Scene) -> str:
    """A picture's place in a prompt."""
    return VISION_START + IMAGE_PAD * (scene.rows * scene.columns) + VISION_END


def draw_dialogues(
    rng: np.random.Generator, material: Material, size: tuple[int, int], number: int
) -> list[Dialogue]:
    """Dialogues of up to five turns, some about a second picture later on."""
    return [_draw_dialogue(rng, material, size) for _ in range(number)]


def _draw_dialogue(rng: np.random.Generator, material: Material, size: tuple[int, int]) -> Dialogue:
    first = draw_any(rng, material, *size)
    turns = ask(rng, first, int(rng.integers(2, 6)))
    if rng.random() >= _TWO_PICTURES_SHARE:
        return Dialogue((first,), tuple(turns), (1,) * len(turns))
    turns = turns[:2]
    second = draw_any(rng, material, *size)
    more = ask(rng, second, 2)
    return Dialogue((first, second), (*turns, *more), (1,) * len(turns) + (2,) * len(more))
