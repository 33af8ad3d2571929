"""HTTP around the kiosk: its address, its headers, bodies with a limit, refusals as sentences."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from visual_encoder.errors import ImageRefused
from vlm.ui.kiosk.visits import Refusal

MAX_JSON_BYTES = 10_000
# Stricter than the page's: no inline script or style, nothing but this server's own files, and the
# browser itself refuses strings as HTML.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; "
    "base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
    "Cache-Control": "no-cache",
}

Handler = Callable[[Request], Awaitable[Response]]


class KioskAddress:
    """ASGI middleware: the kiosk at `/`, always or for `/?kiosk=1`."""

    def __init__(self, app: ASGIApp, *, always: bool) -> None:
        self._app = app
        self._always = always

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/" and self._is_meant(scope):
            scope = {**scope, "path": "/kiosk/", "raw_path": b"/kiosk/"}
        await self._app(scope, receive, send)

    def _is_meant(self, scope: Scope) -> bool:
        return self._always or b"kiosk=1" in scope["query_string"].split(b"&")


class KioskFiles(StaticFiles):
    """Files with the kiosk's headers; without them a browser would keep old scripts."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        return with_headers(super().file_response(*args, **kwargs))


def guarded(handler: Handler) -> Handler:
    """The handler with the kiosk's headers; what it refuses becomes a sentence in JSON."""

    async def guard(request: Request) -> Response:
        try:
            refuse_other_sites(request)
            response = await handler(request)
        except Refusal as refusal:
            response = JSONResponse({"sentence": str(refusal)}, refusal.status)
        except ImageRefused as refusal:
            response = JSONResponse({"sentence": str(refusal)}, 415)
        return with_headers(response)

    return guard


def with_headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def refuse_other_sites(request: Request) -> None:
    """A page of another site, open in a browser on this machine, must not act here."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise Refusal(403, "Requests come from the kiosk's own page only.")


async def read_body(request: Request, limit: int) -> bytes:
    """Never more than `limit` bytes in memory. Raises `Refusal` for more."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise Refusal(413, f"The picture is larger than {limit // 2**20} MB.")
    except ClientDisconnect as error:
        raise Refusal(400, "The picture did not arrive.") from error
    return bytes(body)


async def read_json(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(await read_body(request, MAX_JSON_BYTES))
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Refusal(400, "The request cannot be read.")
    return body
