"""The look that Gradio itself can be given; the rest is `assets/page/page.css`.

Fonts are those that Gradio ships, so that no request leaves the machine.
"""

from __future__ import annotations

import gradio as gr
from gradio.themes import Base, colors
from gradio.themes.utils.fonts import LocalFont

# Amber, an eagle's eye: the one accent. It marks what the draft contributed and what acts.
AMBER = colors.Color(
    name="eagle",
    c50="#fdf8ee",
    c100="#faedd2",
    c200="#f3d9a4",
    c300="#ebc071",
    c400="#e3a544",
    c500="#d18a24",
    c600="#b06d17",
    c700="#8c5315",
    c800="#704217",
    c900="#5c3717",
    c950="#351c09",
)


def eagle_theme() -> Base:
    theme = Base(
        primary_hue=AMBER,
        secondary_hue=AMBER,
        neutral_hue=gr.themes.colors.stone,
        radius_size=gr.themes.sizes.radius_lg,
        text_size=gr.themes.sizes.text_md,
        # The semibold file that Gradio ships lacks most letters; 600 falls to the bold one.
        font=(LocalFont("IBM Plex Sans", weights=(400, 700)), "system-ui", "sans-serif"),
        font_mono=(LocalFont("IBM Plex Mono"), "ui-monospace", "monospace"),
    )
    return theme.set(
        body_background_fill="#f7f6f3",
        body_background_fill_dark="#141312",
        body_text_color="#26241f",
        body_text_color_dark="#ebe8e1",
        body_text_color_subdued="#6a655b",
        body_text_color_subdued_dark="#a39d91",
        background_fill_primary="#ffffff",
        background_fill_primary_dark="#1c1b19",
        background_fill_secondary="#f7f6f3",
        background_fill_secondary_dark="#141312",
        border_color_primary="#e4e0d8",
        border_color_primary_dark="#34312c",
        block_title_text_color="*body_text_color_subdued",
        block_background_fill="transparent",
        block_background_fill_dark="transparent",
        block_border_width="0px",
        block_shadow="none",
        block_shadow_dark="none",
        input_background_fill="#ffffff",
        input_background_fill_dark="#1c1b19",
        input_border_color="#d8d3c8",
        input_border_color_dark="#3d3a34",
        link_text_color="#8c5315",
        link_text_color_dark="#ebc071",
        button_primary_background_fill="#26241f",
        button_primary_background_fill_dark="#ebe8e1",
        button_primary_background_fill_hover="#45413a",
        button_primary_background_fill_hover_dark="#ffffff",
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="#1c1b19",
        button_secondary_background_fill="transparent",
        button_secondary_background_fill_dark="transparent",
        button_secondary_background_fill_hover="#efece5",
        button_secondary_background_fill_hover_dark="#2a2825",
        button_secondary_border_color="#d8d3c8",
        button_secondary_border_color_dark="#3d3a34",
    )
