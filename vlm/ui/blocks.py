"""Layout and wiring of the page; what happens is in `handlers`, how it looks in `assets/page`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from vlm.ui import panels
from vlm.ui.assets import asset
from vlm.ui.bench.benches import BenchHandlers
from vlm.ui.bench.page import Bench, bench_page, wire_bench
from vlm.ui.controls import Controls
from vlm.ui.encoder_view import EncoderView
from vlm.ui.engine_thread import EngineThread
from vlm.ui.examples import Example
from vlm.ui.handlers import Handlers
from vlm.ui.races import RaceHandlers
from vlm.ui.wiring import AT_ONCE, STREAMING

if TYPE_CHECKING:
    from vlm.pipeline import PipelineInfo

TITLE = "EagleEye"
# Gradio turns longer pastes into a text file, which a composer for pictures then refuses.
MAX_PASTED_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True)
class RaceParts:
    """The components of the Compare page."""

    view: gr.HTML
    composer: gr.MultimodalTextbox
    notice: gr.HTML
    order: gr.Radio

    @property
    def outputs(self) -> list[Any]:
        """In the order of `RaceUpdate`."""
        return [self.view, self.composer, self.notice]


@dataclass(frozen=True, slots=True)
class Parts:
    """The components that events read or write."""

    conversation: gr.State
    chat: gr.Chatbot
    panel: gr.HTML
    composer: gr.MultimodalTextbox
    notice: gr.HTML
    chip: gr.HTML
    race: RaceParts
    encoder: gr.HTML
    bench: Bench
    cards: gr.HTML
    new_chat: gr.Button
    use_eagle: gr.Checkbox
    controls: list[gr.components.Component]

    @property
    def outputs(self) -> list[Any]:
        """In the order of `PageUpdate`."""
        return [self.conversation, self.chat, self.panel, self.composer, self.notice]


def build_page(engine: EngineThread, examples: tuple[Example, ...]) -> gr.Blocks:
    """The page over a running engine."""
    handlers, races, benches = (
        Handlers(engine, examples),
        RaceHandlers(engine),
        BenchHandlers(engine),
    )
    page = gr.Blocks(title=TITLE, fill_width=True, fill_height=True, analytics_enabled=False)
    with page:
        parts = lay_out(engine, examples, handlers, races, benches)
        wire_chat(page, parts, handlers)
        wire_race(page, parts, races)
        wire_encoder(parts, EncoderView(engine))
        wire_bench(page, parts.bench, parts.controls, benches)
    # Closed, so that nobody can go round the queue through the API.
    page.queue(api_open=False)
    return page


def lay_out(
    engine: EngineThread,
    examples: tuple[Example, ...],
    handlers: Handlers,
    races: RaceHandlers,
    benches: BenchHandlers,
) -> Parts:
    info = engine.pipeline.info
    controls = Controls.from_settings(
        engine.pipeline.settings, has_draft=info.draft_name is not None
    )
    chip, new_chat = header(panels.model_chip(info, use_eagle=controls.use_eagle))
    with gr.Row(elem_id="ee-main"):
        with gr.Column(elem_id="ee-chat-column"):
            cards = gr.HTML(
                panels.welcome(examples, info), js_on_load=asset("cards.js"), elem_id="ee-cards"
            )
            chat = conversation_log()
            notice = gr.HTML("", elem_id="ee-notice")
            encoder = encoder_part()
            composer = composer_box("ee-composer", takes_pictures=info.no_images_reason is None)
        with gr.Column(elem_id="ee-side-column"):
            panel = gr.HTML(
                handlers.idle_panel(controls.use_eagle),
                html_template=asset("panel.html"),
                js_on_load=asset("panel.js"),
                elem_id="ee-panel",
            )
    learn_page()
    race = compare_page(races, takes_pictures=info.no_images_reason is None)
    bench = bench_page(engine.pipeline, benches)
    use_eagle, numbers = drawer(controls, info)
    return Parts(
        conversation=gr.State(()),
        chat=chat,
        panel=panel,
        composer=composer,
        notice=notice,
        chip=chip,
        race=race,
        encoder=encoder,
        bench=bench,
        cards=cards,
        new_chat=new_chat,
        use_eagle=use_eagle,
        controls=[use_eagle, *numbers],
    )


def header(chip_html: str) -> tuple[gr.HTML, gr.Button]:
    with gr.Row(elem_id="ee-header"):
        gr.HTML(asset("brand.html"), elem_id="ee-brand")
        gr.HTML(asset("nav.html"), elem_id="ee-nav")
        chip = gr.HTML(chip_html, elem_id="ee-chip")
        new_chat = gr.Button("New chat", size="sm", elem_id="ee-new-chat")
        gr.Button("Settings", size="sm", elem_id="ee-settings-button")
        gr.Button("Theme", size="sm", elem_id="ee-theme-button")
        gr.Button("Keys", size="sm", elem_id="ee-help-button")
    return chip, new_chat


def conversation_log() -> gr.Chatbot:
    return gr.Chatbot(
        label="Conversation",
        show_label=False,
        layout="bubble",
        height="100%",
        buttons=["copy"],
        feedback_options=None,
        allow_tags=False,
        elem_id="ee-chat",
    )


def compare_page(races: RaceHandlers, *, takes_pictures: bool) -> RaceParts:
    """One question, both ways, one after the other."""
    with gr.Column(elem_id="ee-compare"):
        gr.HTML(asset("compare_intro.html"), elem_id="ee-compare-intro")
        notice = gr.HTML("", elem_id="ee-compare-notice")
        composer = composer_box("ee-compare-composer", takes_pictures=takes_pictures)
        order = gr.Radio(
            [("base first", "AB"), ("EAGLE-3 first", "BA"), ("both twice, medians", "ABBA")],
            value="AB",
            label="Order",
            elem_id="ee-compare-order",
        )
        view = gr.HTML(
            races.idle(),
            html_template=asset("compare.html"),
            js_on_load=asset("compare.js"),
            elem_id="ee-race",
        )
    return RaceParts(view, composer, notice, order)


def learn_page() -> None:
    """One recorded step, told in parts."""
    with gr.Column(elem_id="ee-learn"):
        gr.HTML(
            asset("learn.jsonl"),
            html_template=asset("learn.html"),
            js_on_load=asset("learn.js"),
            elem_id="ee-story",
        )


def encoder_part() -> gr.HTML:
    """The pictures in the composer as the encoder gets them."""
    return gr.HTML(
        {},
        html_template=asset("encoder_view.html"),
        js_on_load=asset("encoder_view.js"),
        elem_id="ee-encoder",
    )


def composer_box(elem_id: str, *, takes_pictures: bool) -> gr.MultimodalTextbox:
    placeholder = "Ask about a picture…" if takes_pictures else "Ask a question…"
    return gr.MultimodalTextbox(
        show_label=False,
        placeholder=placeholder,
        file_types=["image"],
        file_count="multiple",
        sources=["upload"] if takes_pictures else [],
        max_plain_text_length=MAX_PASTED_CHARACTERS,
        max_lines=8,
        elem_id=elem_id,
    )


def drawer(
    controls: Controls, info: PipelineInfo
) -> tuple[gr.Checkbox, list[gr.components.Component]]:
    """The settings: EAGLE-3 and the numbers, in the order of `Controls`."""
    with gr.Column(elem_id="ee-drawer"):
        with gr.Row(elem_id="ee-drawer-head"):
            gr.HTML("<h2>Settings</h2>")
            gr.Button("Close", size="sm", elem_id="ee-drawer-close")
        use_eagle = gr.Checkbox(
            controls.use_eagle,
            label="EAGLE-3",
            info=panels.switch_note(info),
            interactive=info.draft_name is not None,
        )
        gr.HTML("<h3>Sampling</h3>")
        temperature = gr.Slider(
            0, 2, controls.temperature, step=0.05, label="Temperature", info="0 is greedy"
        )
        top_p = gr.Slider(0.05, 1, controls.top_p, step=0.05, label="Top-p", info="1 is off")
        top_k = whole_number("Top-k", controls.top_k, "0 is off")
        seed = whole_number("Seed", controls.seed)
        longest = whole_number("Max new tokens", controls.max_new_tokens, "Longest answer")
        gr.HTML("<h3>Image tokens</h3><p>One token is 28 × 28 pixels.</p>")  # noqa: RUF001
        limits = [
            whole_number("At least, a picture", controls.min_image_tokens),
            whole_number("At most, all pictures", controls.max_image_tokens),
            whole_number("At most, a picture", controls.max_image_tokens_per_image),
        ]
    return use_eagle, [temperature, top_p, top_k, longest, seed, *limits]


def whole_number(label: str, value: int, info: str | None = None) -> gr.Number:
    return gr.Number(value, label=label, info=info, precision=0)


def wire_chat(page: gr.Blocks, parts: Parts, handlers: Handlers) -> None:
    """Connect what a visitor does in the chat with `handlers`."""
    state = [parts.conversation, *parts.controls]
    questions = [
        parts.composer.submit(handlers.ask, [parts.composer, *state], parts.outputs, **AT_ONCE),
        parts.cards.pick(handlers.ask_example, state, parts.outputs, **AT_ONCE),
        parts.chat.retry(handlers.regenerate, state, parts.outputs, **AT_ONCE),
    ]
    answers = [
        question.then(handlers.watch, None, [parts.chat, parts.panel], **STREAMING)
        for question in questions
    ]
    for answer in answers:
        answer.then(handlers.conclude, None, parts.outputs, **AT_ONCE)
    parts.composer.stop(handlers.stop, None, None, **AT_ONCE)
    parts.new_chat.click(handlers.clear, parts.use_eagle, parts.outputs, cancels=answers, **AT_ONCE)
    parts.use_eagle.change(
        handlers.show_mode, parts.use_eagle, [parts.chip, parts.panel], **AT_ONCE
    )
    page.unload(handlers.leave)


def wire_encoder(parts: Parts, view: EncoderView) -> None:
    """Connect what waits in the composer, and the limits, with `view`."""
    *_, per_image = parts.controls
    inputs = [parts.composer, parts.conversation, *parts.controls]
    parts.encoder.look(view.look, inputs, [parts.encoder, per_image], **AT_ONCE)


def wire_race(page: gr.Blocks, parts: Parts, races: RaceHandlers) -> None:
    """Connect the Compare page, and "Race it" under an answer, with `races`."""
    race = parts.race
    begun = [
        race.composer.submit(
            races.ask, [race.composer, race.order, *parts.controls], race.outputs, **AT_ONCE
        ),
        parts.panel.race(
            races.ask_again,
            [parts.conversation, race.order, *parts.controls],
            race.outputs,
            **AT_ONCE,
        ),
    ]
    for question in begun:
        watched = question.then(races.watch, None, race.view, **STREAMING)
        watched.then(races.conclude, None, race.outputs, **AT_ONCE)
    race.composer.stop(races.stop, None, None, **AT_ONCE)
    page.unload(races.leave)
