"""What the address shows before the page is there."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from vlm.ui import server
from vlm.ui.loading_page import LoadingPage


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with server.bind("127.0.0.1", 0) as bound:
        yield bound


def get(listener: socket.socket, path: str) -> tuple[int, str, dict[str, str]]:
    host, port = listener.getsockname()
    deadline = time.monotonic() + 20
    while True:
        connection = HTTPConnection(host, port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode(), dict(response.headers)
        except ConnectionError:  # the thread has not begun to listen
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        finally:
            connection.close()


@pytest.mark.parametrize("path", ["/", "/?kiosk=1", "/healthz", "/gradio_api/info"])
def test_every_address_says_that_it_is_still_to_come(listener: socket.socket, path: str) -> None:
    with LoadingPage(listener):
        status, text, headers = get(listener, path)
    assert status == 503
    assert "EagleEye is loading" in text
    assert headers["retry-after"] == "2"
    assert "default-src 'self'" in headers["content-security-policy"]


def test_progress_is_told_line_by_line(listener: socket.socket) -> None:

    with LoadingPage(listener) as page:
        page.report("Loading the base, 16.6 GB")
        page.report("Warming up")
        status, text, _ = get(listener, "/loading.json")
    state = json.loads(text)
    assert status == 200
    assert [line["text"] for line in state["lines"]] == ["Loading the base, 16.6 GB", "Warming up"]
    began = [line["began_seconds"] for line in state["lines"]]
    assert 0 <= began[0] <= began[1] <= state["seconds"]


def test_who_asks_when_it_has_ended_waits_for_the_server_that_follows(
    listener: socket.socket,
) -> None:
    with LoadingPage(listener):
        get(listener, "/")
    with socket.create_connection(listener.getsockname(), timeout=5) as waiting:
        waiting.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(5) == b"GET /"
