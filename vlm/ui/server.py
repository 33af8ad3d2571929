"""The web server around the page: a private upload folder, response headers, one socket.

Everything that keeps a visitor's data on this machine and off other visitors' screens is here.
`prepare_environment` must run before Gradio is imported, so this module imports it late.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlm.cache_folder import cache_folder
from vlm.errors import ConfigError

if TYPE_CHECKING:
    import gradio as gr
    from fastapi import FastAPI
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from vlm.ui.kiosk.kiosk import Kiosk

MAX_UPLOAD = "20mb"
# gr.HTML compiles its templates in the browser ('unsafe-eval') and Gradio's own page has inline
# scripts and styles. Nothing may come from another host, least of all a picture that an answer
# names: its address could carry the conversation away.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data: blob:",
        "style-src 'self' 'unsafe-inline'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "form-action 'self'",
        "frame-ancestors 'self'",
        "object-src 'none'",
        "base-uri 'self'",
    )
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class SecurityHeaders:
    """ASGI middleware that adds `SECURITY_HEADERS` to every response, streams included.

    A header that the response has already, with a stricter value of its own, stays.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._headers = [
            (name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                more = [header for header in self._headers if header[0] not in own]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        await self._app(scope, receive, send_with_headers)


def bind(host: str, port: int) -> socket.socket:
    """The server's socket; port 0 is any free one. Raises `ConfigError` when it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Cannot listen on {host}:{port} ({error.strerror}): choose another --host or --port."
        ) from error
    return listener


def page_url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def prepare_environment(listener: socket.socket) -> Path:
    """Switch telemetry off and give uploads a private, empty folder. Returns that folder.

    The folder is named after the address, which only one process can hold: what it contains was
    left behind by an earlier one.
    """
    host, port = listener.getsockname()[:2]
    uploads = cache_folder() / "uploads" / f"{host.replace(':', '.')}-{port}"
    shutil.rmtree(uploads, ignore_errors=True)
    uploads.mkdir(parents=True, mode=0o700)
    os.environ["GRADIO_TEMP_DIR"] = str(uploads)
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    return uploads


def create_kiosk_app(kiosk: Kiosk) -> FastAPI:
    """The kiosk and nothing else as an ASGI application: no page, no settings, no uploads."""
    app = _bare_app()
    _add_kiosk(app, kiosk, always=True)
    return app


def create_app(page: gr.Blocks, pictures: Path, kiosk: Kiosk | None = None) -> FastAPI:
    """The page and, at `/?kiosk=1`, the kiosk; files in `pictures` are served too."""
    import gradio as gr

    from vlm.ui.assets import PAGE_FOLDER, asset, page_head
    from vlm.ui.theme import eagle_theme

    app = _bare_app()
    if kiosk is not None:
        _add_kiosk(app, kiosk, always=False)
    gr.set_static_paths([pictures])
    process = uuid.uuid4().hex  # another one: the page's session is gone

    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        return {"server": process}

    options: dict[str, Any] = {
        "theme": eagle_theme(),
        "head": page_head(),
        "js": asset("page.js"),
        "favicon_path": str(PAGE_FOLDER / "favicon.svg"),
        "footer_links": [],
        "run_history": False,
        "enable_monitoring": False,
        "show_error": False,
        "ssr_mode": False,
        "mcp_server": False,
        "pwa": False,
        "max_file_size": MAX_UPLOAD,
    }
    gr.mount_gradio_app(app, page, path="/", **options)
    return app


def _bare_app() -> FastAPI:
    from fastapi import FastAPI

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(SecurityHeaders)
    return app


def _add_kiosk(app: FastAPI, kiosk: Kiosk, *, always: bool) -> None:
    from vlm.ui.kiosk.http import KioskAddress

    app.add_middleware(KioskAddress, always=always)
    app.include_router(kiosk.router)


def _was_not_cut_off(record: logging.LogRecord) -> bool:
    """Whether a record tells of anything else than a browser's stream that the end cut off."""
    cut_off = record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not cut_off and "graceful shutdown" not in record.getMessage()


def serve(app: FastAPI, listener: socket.socket) -> None:
    """Answer requests until the process is told to stop."""
    import uvicorn

    logging.getLogger("uvicorn.error").addFilter(_was_not_cut_off)
    # Open streams of browsers would otherwise keep the process from ending.
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
