"""Layout and wiring of the Benchmark page; what happens is in `benches`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from vlm.questions import PICTURE_QUESTION
from vlm.ui.assets import asset
from vlm.ui.bench.benches import BenchHandlers
from vlm.ui.bench.form import bundled_categories
from vlm.ui.engine_thread import Engine
from vlm.ui.wiring import AT_ONCE, STREAMING

MAX_NEW_TOKENS = 64  # shorter than in the chat: a race needs two answers a question
SWEPT = (("Depth", "2,4"), ("Top-k", "2,4"), ("Verified tokens", "4,8,16"))


@dataclass(frozen=True, slots=True)
class Bench:
    """The components of the Benchmark page."""

    view: gr.HTML
    notice: gr.HTML
    form: list[gr.components.Component]

    @property
    def outputs(self) -> list[Any]:
        """In the order of `BenchUpdate`."""
        return [self.view, self.notice]


def bench_page(engine: Engine, handlers: BenchHandlers) -> Bench:
    """The form, Run and Stop, and what was measured."""
    with gr.Column(elem_id="ee-bench"):
        gr.HTML(asset("bench_intro.html"), elem_id="ee-bench-intro")
        form = form_fields(engine)
        notice = gr.HTML("", elem_id="ee-bench-notice")
        view = gr.HTML(
            handlers.idle(),
            html_template=asset("bench.html"),
            js_on_load=asset("bench.js"),
            elem_id="ee-bench-view",
        )
    return Bench(view, notice, form)


def form_fields(engine: Engine) -> list[gr.components.Component]:
    """In the order of `BenchForm`."""
    with gr.Column(elem_id="ee-bench-form"):
        with gr.Row(elem_id="ee-bench-choices"):
            kind = gr.Radio(
                [("Base against EAGLE-3", "bench"), ("Sweep of settings", "sweep")],
                value="bench",
                label="Measure",
                elem_id="ee-bench-kind",
            )
            source = gr.Radio(
                [("Bundled", "bundled"), ("My own", "own")],
                value="bundled",
                label="Questions",
                elem_id="ee-bench-source",
            )
        asked = question_fields(takes_pictures=engine.info.no_images_reason is None)
        with gr.Row(elem_id="ee-bench-numbers"):
            numbers = number_fields()
        with gr.Row(elem_id="ee-bench-swept"):
            swept = swept_fields()
    return [kind, source, *asked, *numbers, *swept]


def question_fields(*, takes_pictures: bool) -> list[gr.components.Component]:
    categories = bundled_categories(takes_pictures=takes_pictures)
    chosen = gr.CheckboxGroup(
        [(label, name) for label, name, _ in categories],
        value=[name for _, name, is_usable in categories if is_usable],
        label="Categories",
        elem_id="ee-bench-categories",
    )
    with gr.Row(elem_id="ee-bench-own"):
        files = gr.File(
            label="A question.jsonl in MT-bench's form, with its pictures; or only pictures",
            file_count="multiple",
            type="filepath",
            height=150,
            elem_id="ee-bench-files",
        )
        ask = gr.Textbox(
            PICTURE_QUESTION, label="Question about each picture", elem_id="ee-bench-ask"
        )
    return [chosen, files, ask]


def number_fields() -> list[gr.components.Component]:
    return [
        gr.Number(0, label="Questions a category", info="At most; 0 is all", precision=0),
        gr.Number(MAX_NEW_TOKENS, label="Longest answer", info="Tokens", precision=0),
        gr.Number(1, label="Repeats", info="Races a turn", precision=0, elem_id="ee-bench-repeats"),
    ]


def swept_fields() -> list[gr.components.Component]:
    """Depth, top-k and tokens of the draft tree, and the image-token budget."""
    shape = [
        gr.Textbox(values, label=label, info="Numbers with commas between", max_lines=1)
        for label, values in SWEPT
    ]
    empty = "Empty: as in the settings"
    return [*shape, gr.Textbox("", label="Image tokens a picture", info=empty, max_lines=1)]


def wire_bench(
    page: gr.Blocks,
    bench: Bench,
    controls: list[gr.components.Component],
    handlers: BenchHandlers,
) -> None:
    """Connect the buttons of the page's view with `handlers`."""
    begun = bench.view.run(handlers.run, [*bench.form, *controls], bench.outputs, **AT_ONCE)
    watched = begun.then(handlers.watch, None, bench.view, **STREAMING)
    watched.then(handlers.conclude, None, bench.outputs, **AT_ONCE)
    bench.view.halt(handlers.stop, None, None, **AT_ONCE)
    bench.view.bring(handlers.bring, None, bench.outputs, **AT_ONCE)
    bench.view.put_away(handlers.put_away, None, bench.outputs, **AT_ONCE)
    page.unload(handlers.leave)
