"""How often the bundled model answers rightly, question by question, as the page would ask it.

In: the weights in an assets folder and pictures that no training step drew. Out: counts with 95 %
Wilson intervals, and a page of samples. Every answer comes out of the same pipeline that serves the
page, greedy, with the draft.
"""

import base64
import html
import io
import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn import functional as F

from visual_encoder.types import ImageTokenLimits
from vlm.config import Settings
from vlm.demo_model.artwork import HELD_OUT_SETS
from vlm.demo_model.compose import bundled_pair
from vlm.demo_model.composition import compose_model
from vlm.demo_model.dialogues import Turn, ask
from vlm.demo_model.language_stage import TextExample, draw_dialogues, read_text_examples
from vlm.demo_model.material import Material, held_out_material, training_material
from vlm.demo_model.objects import OBJECTS
from vlm.demo_model.scenes import draw_these
from vlm.demo_model.sheet import Scene
from vlm.demo_model.tower_stage import SCENE_KINDS
from vlm.demo_model.train import TrainingFiles
from vlm.demo_model.vision_tower import DEMO_VISION_CONFIG
from vlm.demo_model.weights import read_adapter_updates
from vlm.events import GenerationFinished
from vlm.loading import load_pipeline
from vlm.pipeline import VlmPipeline
from vlm.requests import ChatMessage, GenerationRequest

logger = logging.getLogger(__name__)

_SEED = 2**31 + 101
_SIZE = (4, 4)
_BUDGETS = (4, 16, 64, 256)
_MAX_NEW_TOKENS = 60


@dataclass(frozen=True, slots=True)
class Question:
    """One picture and what is asked about it, after `earlier` questions of the conversation."""

    scene: Scene
    scene_kind: str
    turn: Turn
    earlier: tuple["Question", ...] = ()

    @property
    def kind(self) -> str:
        """What it is counted as. Questions about words and numbers stand apart."""
        if self.earlier:
            same = any(before.scene is self.scene for before in self.earlier)
            return "later turn" if same else "second picture"
        if self.turn.kind in ("read", "name", "describe"):
            return f"{self.turn.kind} ({self.scene_kind})"
        return self.turn.kind


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with the model's answer."""

    question: Question
    answer: str
    mean_acceptance_length: float | None

    @property
    def is_right(self) -> bool:
        """Whether the answer says what it must."""
        return self.question.turn.is_right(self.answer)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """`right` of `total`."""

    right: int
    total: int

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Wilson score interval of the share."""
        return wilson_interval(self.right, self.total)

    def __str__(self) -> str:
        low, high = self.interval
        share = 100 * self.right / self.total
        return f"{share:.1f} % ({self.right} of {self.total}; {100 * low:.1f} to {100 * high:.1f})"


def wilson_interval(right: int, total: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share."""
    z = 1.959964
    share = right / total
    center = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return (center - spread) / scale, (center + spread) / scale


def draw_questions(
    material: Material, per_kind: int, size: tuple[int, int] = _SIZE, seed: int = _SEED
) -> list[Question]:
    """`per_kind` first questions about each kind of scene; single objects run through them all."""
    rng = np.random.default_rng(seed)
    questions = []
    for scene_kind, draw in SCENE_KINDS.items():
        for _ in range(per_kind):
            scene = draw(rng, material, *size)
            questions += [Question(scene, scene_kind, turn) for turn in ask(rng, scene, 1)]
    return questions


def naming_questions(
    material: Material, size: tuple[int, int] = _SIZE, seed: int = _SEED
) -> list[Question]:
    """ "What is this?" about every object once."""
    rng = np.random.default_rng(seed)
    questions = []
    for shown in OBJECTS:
        scene = draw_these(rng, material, [shown], *size)
        turn = Turn("naming", "What is this?", "", ((shown.name, *shown.synonyms),))
        questions.append(Question(scene, "object", turn))
    return questions


def conversation_questions(
    material: Material, number: int, size: tuple[int, int] = _SIZE, seed: int = _SEED
) -> list[Question]:
    """The last questions of conversations of several turns, some about a second picture."""
    questions = []
    for dialogue in draw_dialogues(np.random.default_rng(seed), material, size, number):
        asked: list[Question] = []
        for turn, shown in zip(dialogue.turns, dialogue.shown_before, strict=True):
            asked.append(Question(dialogue.scenes[shown - 1], "", turn, tuple(asked)))
        if asked[-1].earlier:
            questions.append(asked[-1])
            questions += [one for one in asked[1:-1] if one.kind == "second picture"]
    return questions


def answer_all(
    pipeline: VlmPipeline, questions: Iterable[Question], limits: ImageTokenLimits | None = None
) -> Iterator[Answered]:
    """Greedy answers, in order."""
    return (_answer_one(pipeline, question, limits) for question in questions)


def _answer_one(
    pipeline: VlmPipeline, question: Question, limits: ImageTokenLimits | None
) -> Answered:
    """Asks what comes earlier first: the conversation holds the model's own answers."""
    messages: tuple[ChatMessage, ...] = ()
    for earlier in question.earlier:
        messages = _with_question(messages, earlier)
        text = _generate(pipeline, messages, limits).stats.text
        messages = (*messages, ChatMessage("assistant", text))
    stats = _generate(pipeline, _with_question(messages, question), limits).stats
    return Answered(question, stats.text, stats.mean_acceptance_length)


def _with_question(
    messages: tuple[ChatMessage, ...], question: Question
) -> tuple[ChatMessage, ...]:
    shown = any(before.scene is question.scene for before in question.earlier)
    pictures = () if shown else (Image.fromarray(question.scene.pixels),)
    return (*messages, ChatMessage("user", question.turn.question, pictures))


def _generate(
    pipeline: VlmPipeline, messages: tuple[ChatMessage, ...], limits: ImageTokenLimits | None
) -> GenerationFinished:
    request = GenerationRequest(messages, max_new_tokens=_MAX_NEW_TOKENS, limits=limits)
    *_, last = pipeline.run(request)
    assert isinstance(last, GenerationFinished)
    return last


def by_kind(answered: Sequence[Answered]) -> dict[str, Accuracy]:
    """Accuracy by kind of question."""
    counted: dict[str, list[bool]] = {}
    for one in answered:
        counted.setdefault(one.question.kind, []).append(one.is_right)
    return {kind: Accuracy(sum(said), len(said)) for kind, said in sorted(counted.items())}


def evaluate(files: TrainingFiles, per_kind: int, out: Path) -> None:
    """Measure everything that docs/demo-model.md reports; write `out`.json and `out`.html."""
    pipeline = load_bundled(files)
    sets = {"trained artwork and fonts": training_material(files.artwork_cache)}
    for name in HELD_OUT_SETS:
        sets[f"{name}, held-out fonts"] = held_out_material(name, files.artwork_cache)
    report: dict[str, Any] = {"seed": _SEED, "per_kind": per_kind, "sets": {}}
    for name, material in sets.items():
        naming = _answer(pipeline, naming_questions(material), f"{name}, naming")
        others = _answer(pipeline, draw_questions(material, per_kind), f"{name}, questions")
        talks = conversation_questions(material, per_kind)
        later = _answer(pipeline, talks, f"{name}, conversations")
        report["sets"][name] = _as_json(by_kind([*naming, *others, *later]))
        if name == next(iter(sets)):
            write_samples(others, out.with_suffix(".html"))
            lengths = [one.mean_acceptance_length for one in others if one.mean_acceptance_length]
            report["mean_acceptance_length"] = float(np.mean(lengths))
    report["budgets"] = _as_json(_by_budget(pipeline, next(iter(sets.values()))))
    if files.text:
        report["text_perplexity"] = text_perplexity(files)
    out.with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    logger.info("wrote %s and %s", out.with_suffix(".json"), out.with_suffix(".html"))


def text_perplexity(files: TrainingFiles) -> dict[str, float]:
    """Of the language model's own answers to text-only prompts, without and with the adapter."""
    rows = read_text_examples(files.text, held_out=True)
    model = compose_model(files.gguf(), DEMO_VISION_CONFIG)
    language_model = model.model.language_model
    before = _perplexity(language_model, rows)
    with torch.no_grad():
        for name, update in read_adapter_updates(files.assets).items():
            language_model.get_parameter(name).add_(update)
    after = _perplexity(language_model, rows)
    return {"before": before, "after": after, "ratio": after / before}


@torch.no_grad()
def _perplexity(language_model: Any, examples: Sequence[TextExample]) -> float:
    total, number = 0.0, 0
    for example in examples:
        ids = torch.tensor([[*example.prompt_ids, *example.answer_ids]])
        begin = len(example.prompt_ids)
        hidden = language_model(input_ids=ids).last_hidden_state[0, begin - 1 : -1]
        logits = F.linear(hidden, language_model.embed_tokens.weight)
        total += float(F.cross_entropy(logits, ids[0, begin:], reduction="sum"))
        number += len(example.answer_ids)
    return math.exp(total / number)


def write_samples(answered: Sequence[Answered], path: Path, number: int = 24) -> None:
    """A page of pictures with question, answer and verdict, spread over all kinds of scene."""
    cells = []
    for index in np.linspace(0, len(answered) - 1, number).astype(int):
        one = answered[index]
        buffer = io.BytesIO()
        Image.fromarray(one.question.scene.pixels).save(buffer, "png")
        data = base64.b64encode(buffer.getvalue()).decode()
        mark = "right" if one.is_right else "wrong"
        cells.append(
            f'<figure class="{mark}"><img src="data:image/png;base64,{data}" alt="">'
            f"<figcaption><b>{html.escape(one.question.turn.question)}</b><br>"
            f"{html.escape(one.answer)}<br><i>{mark}</i></figcaption></figure>"
        )
    path.write_text(_SAMPLES_PAGE.replace("{cells}", "\n".join(cells)), encoding="utf-8")


_SAMPLES_PAGE = """<!doctype html><meta charset="utf-8"><title>Samples</title>
<style>body{font:15px system-ui;display:grid;grid-template-columns:repeat(6,1fr);gap:12px}
figure{margin:0;padding:8px;border:2px solid #2a7}figure.wrong{border-color:#c33}
img{width:100%;image-rendering:pixelated}</style>
{cells}
"""


def load_bundled(files: TrainingFiles) -> VlmPipeline:
    """The pair made of the assets folder, as the page would load it."""
    weights = None if files.base_weights is None else str(files.base_weights)
    base, draft = bundled_pair(weights, logger.info, files.assets)
    settings = Settings(base=str(base), draft=str(draft), threads=torch.get_num_threads())
    return load_pipeline(settings, logger.info)


def _answer(
    pipeline: VlmPipeline,
    questions: Sequence[Question],
    title: str,
    limits: ImageTokenLimits | None = None,
) -> list[Answered]:
    answered = []
    for number, one in enumerate(answer_all(pipeline, questions, limits), 1):
        answered.append(one)
        if number % 100 == 0:
            logger.info("%s: %d of %d answered", title, number, len(questions))
    for kind, accuracy in by_kind(answered).items():
        logger.info("%s, %s: %s", title, kind, accuracy)
    return answered


def _by_budget(pipeline: VlmPipeline, material: Material) -> dict[str, Accuracy]:
    """The same large pictures of every object, under a growing budget of image tokens."""
    questions = naming_questions(material, size=(16, 16))
    found = {}
    for budget in _BUDGETS:
        limits = replace(ImageTokenLimits(), max_image_tokens_per_image=budget)
        answered = _answer(pipeline, questions, f"{budget} image tokens", limits)
        found[str(budget)] = Accuracy(sum(one.is_right for one in answered), len(answered))
    return found


def _as_json(accuracies: Mapping[str, Accuracy]) -> dict[str, Any]:
    return {
        kind: {**asdict(accuracy), "interval": accuracy.interval}
        for kind, accuracy in accuracies.items()
    }
