"""What the page's address shows while the models load: what is being loaded, and for how long.

Comes in: the socket that the page will be served on, and lines of progress. Goes out: a small page
that opens the real one by itself. It stops answering before the real server starts; a browser
that asks in between waits in the socket's queue.
"""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from vlm.ui.assets import asset
from vlm.ui.server import SecurityHeaders

if TYPE_CHECKING:
    from fastapi import FastAPI

STATE_PATH = "/loading.json"
# A launcher that waits for the server must not take this page for it.
NOT_YET = 503


@dataclass(frozen=True, slots=True)
class LoadingLine:
    """One line of progress, and when it came, in seconds since loading began."""

    text: str
    began_seconds: float


class LoadingPage:
    """Answers in a thread of its own; use as a context manager. `report` from any thread."""

    def __init__(self, listener: socket.socket) -> None:
        import uvicorn

        self._lines: list[LoadingLine] = []
        self._began = time.monotonic()
        config = uvicorn.Config(self._app(), log_level="warning", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        # The server closes the socket that it was given; the page still needs its own.
        sockets = [listener.dup()]
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": sockets}, daemon=True
        )

    def __enter__(self) -> LoadingPage:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        self._thread.join()

    def report(self, text: str) -> None:
        """Show another line; the one before it is done."""
        self._lines.append(LoadingLine(text, self._seconds()))

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _app(self) -> FastAPI:
        from fastapi import FastAPI
        from fastapi.responses import HTMLResponse

        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        app.add_middleware(SecurityHeaders)
        page = asset("loading.html")

        @app.get(STATE_PATH)
        def state() -> dict[str, object]:
            return {"seconds": self._seconds(), "lines": list(self._lines)}

        @app.get("/{path:path}")
        def loading(path: str) -> HTMLResponse:
            headers = {"Retry-After": "2", "Cache-Control": "no-store"}
            return HTMLResponse(page, NOT_YET, headers)

        return app
