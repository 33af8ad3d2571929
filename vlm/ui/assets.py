"""The page's own scripts and styles, from `assets/page`."""

from __future__ import annotations

from pathlib import Path

PAGE_FOLDER = Path(__file__).parents[2] / "assets" / "page"

# The views of a trace: shared with the saved replay, which takes both from the page it was saved
# on, and with nothing of Gradio in them. In this order: each builds on those before it.
VIEW_SCRIPTS = tuple(
    f"views/{name}.js" for name in ("trace", "steps", "bars", "tokens", "tree", "charts", "replay")
)
VIEW_STYLES = ("views/views.css",)
PAGE_SCRIPTS = (
    "runs.js",
    "answers.js",
    "tabs.js",
    "connection.js",
    "help.js",
    "bench_table.js",
    "heat_map.js",
)
# The rules for narrow screens come last and win.
PAGE_STYLES = (
    "page.css",
    "chat.css",
    "panel.css",
    "compare.css",
    "bench.css",
    "learn.css",
    "encoder_view.css",
    "drawer.css",
    "narrow.css",
)


def asset(*names: str) -> str:
    """The files' contents, one after another."""
    return "\n".join((PAGE_FOLDER / name).read_text(encoding="utf-8") for name in names)


def page_head() -> str:
    """Scripts and styles for the head of the document.

    Not Gradio's `css=`, which rewrites selectors, those in @media differently.
    """
    return "\n".join(
        (
            f'<style id="ee-view-styles">{asset(*VIEW_STYLES)}</style>',
            f"<style>{asset(*PAGE_STYLES)}</style>",
            f'<script id="ee-view-scripts">{inert(asset(*VIEW_SCRIPTS))}</script>',
            f"<script>{inert(asset(*PAGE_SCRIPTS))}</script>",
        )
    )


def inert(script: str) -> str:
    """A script whose own strings cannot end the element that it stands in."""
    return script.replace("</", "<\\/")
