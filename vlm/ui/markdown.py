"""Text from outside made harmless for a chat that renders Markdown.

The chat sanitises HTML and the page's Content-Security-Policy forbids foreign pictures; this is
the layer before both, so that what a model writes is seen as it wrote it.
"""

from __future__ import annotations

import html
import re

# Markdown shows code as it is, so code is left alone: fenced blocks, open to the end of the text
# while they stream in, and spans within a line.
CODE = re.compile(r"(^ {0,3}```.*?(?:^ {0,3}```|\Z)|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def safe_markdown(text: str) -> str:
    """Markdown whose HTML is shown as text and whose pictures become links."""
    parts = CODE.split(text)
    # `split` with one group alternates between prose (even) and code (odd).
    return "".join(part if index % 2 else _safe_prose(part) for index, part in enumerate(parts))


def verbatim(text: str) -> str:
    """Text as it was typed: neither Markdown nor HTML."""
    # One line of HTML, because a blank line would end the block and Markdown would begin again.
    escaped = html.escape(text).replace("\r", "").replace("\n", "&#10;")
    return f'<div class="ee-verbatim">{escaped}</div>'


def _safe_prose(text: str) -> str:
    return text.replace("<", "&lt;").replace("![", "\\![")
