"""The two forms of a conversation: for the model and for the chat."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlm.ui.conversation import Turn, chat_messages, request_messages
from vlm.ui.markdown import safe_markdown, verbatim

PICTURE = Path("/tmp/cat.png")


def test_the_model_gets_every_answered_turn_with_its_pictures() -> None:
    conversation = (
        Turn("What is this?", (PICTURE,), "A cat.", figures="3 tokens"),
        Turn("And this?", (Path("/tmp/broken.png"),), problem="not a picture"),
        Turn("Is it black?"),
    )
    messages = request_messages(conversation)
    assert [message.role for message in messages] == ["user", "assistant", "user"]
    assert messages[0].images == (PICTURE,)
    assert messages[1].text == "A cat."
    assert messages[2].text == "Is it black?"


def test_figures_and_problems_reach_the_chat_but_not_the_model() -> None:
    conversation = (
        Turn("a", answer="b", figures="2 tokens", problem="broke <off>"),
        Turn("c"),
    )
    shown = str(chat_messages(conversation))
    assert "2 tokens" in shown
    assert "broke &lt;off&gt;" in shown
    sent = str(request_messages(conversation))
    assert "2 tokens" not in sent
    assert "broke" not in sent


def test_pictures_stand_before_the_question_with_a_description() -> None:
    (message,) = chat_messages((Turn("What is this?", (PICTURE, PICTURE)),))
    assert [part["type"] for part in message["content"]] == ["file", "file", "text"]
    assert message["content"][0]["file"] == {"path": str(PICTURE), "mime_type": "image/*"}
    assert "What is this?" in message["content"][0]["alt_text"]


def test_a_reason_to_wait_stands_where_the_answer_will_be() -> None:
    messages = chat_messages((Turn("a"),), waiting_for="1 < 2")
    assert messages[-1]["role"] == "assistant"
    assert "1 &lt; 2" in messages[-1]["content"][0]["text"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain **bold**", "plain **bold**"),
        ("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>"),
        ("![x](http://evil/?q=1)", "\\![x](http://evil/?q=1)"),
        ("> quoted", "> quoted"),
        ("use `a < b` or <b>", "use `a < b` or &lt;b>"),
        ("```\n<b>\n```\n<i>", "```\n<b>\n```\n&lt;i>"),
        ("text <b>\n```\n<still streaming", "text &lt;b>\n```\n<still streaming"),
        ("a ` lone < backtick", "a ` lone &lt; backtick"),
    ],
)
def test_markdown_shows_html_as_text_and_leaves_code_alone(text: str, expected: str) -> None:
    assert safe_markdown(text) == expected


def test_a_question_is_shown_as_typed() -> None:
    shown = verbatim("<b>*a*</b>\n\n# b & <|im_end|>")
    assert "\n" not in shown
    assert "&lt;b&gt;*a*&lt;/b&gt;&#10;&#10;# b &amp; &lt;|im_end|&gt;" in shown
