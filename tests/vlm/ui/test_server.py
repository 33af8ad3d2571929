"""The server around the page: its socket, its upload folder, its headers."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from vlm.errors import ConfigError
from vlm.ui import server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EAGLEEYE_HOME", str(tmp_path))
    for name in ("GRADIO_TEMP_DIR", "GRADIO_ANALYTICS_ENABLED"):
        monkeypatch.setenv(name, "set by the test, restored afterwards")
    return tmp_path


def test_a_port_in_use_is_one_sentence() -> None:
    with server.bind("127.0.0.1", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}.*--port"):
            server.bind("127.0.0.1", port)


def test_an_address_that_is_none_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="--host"):
        server.bind("not an address", 0)


def test_the_address_is_shown_as_a_browser_takes_it() -> None:
    with server.bind("127.0.0.1", 0) as listener:
        assert server.page_url(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_uploads_get_a_private_folder_that_is_empty_at_the_start(home: Path) -> None:
    with server.bind("127.0.0.1", 0) as listener:
        folder = server.prepare_environment(listener)
        (folder / "left_behind.png").write_bytes(b"picture")
        assert server.prepare_environment(listener) == folder
    assert list(folder.iterdir()) == []
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.is_relative_to(home)
    assert os.environ["GRADIO_TEMP_DIR"] == str(folder)
    assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"


def test_every_response_carries_the_headers() -> None:
    sent: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"text"})

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(server.SecurityHeaders(application)({"type": "http"}, None, send))  # type: ignore[arg-type]
    headers = dict(sent[0]["headers"])
    assert headers[b"a"] == b"b"
    assert b"default-src 'self'" in headers[b"content-security-policy"]
    assert b"http:" not in headers[b"content-security-policy"]
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"referrer-policy"] == b"no-referrer"
    assert sent[1] == {"type": "http.response.body", "body": b"text"}
