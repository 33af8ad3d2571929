"""A kiosk over a scripted engine, with a client in front of it, for the tests of its server."""

from __future__ import annotations

import io
import json
from typing import Any

from fastapi.testclient import TestClient
from PIL import Image

from tests.vlm.ui.fakes import FakePipeline
from vlm.ui import server
from vlm.ui.engine_thread import EngineThread
from vlm.ui.examples import load_examples
from vlm.ui.kiosk.kiosk import Kiosk
from vlm.ui.kiosk.options import KioskOptions
from vlm.ui.kiosk.replays import load_replays

PIN = "2468"


class Stand:
    """A kiosk over a scripted engine, and a client in front of it."""

    def __init__(self, **options: Any) -> None:
        self.pipeline = FakePipeline()
        self.num_renewals = 0
        self._options = {"pin": PIN, **options}

    def __enter__(self) -> Stand:
        self.engine = EngineThread(self.pipeline)
        options = KioskOptions(**self._options)
        self.kiosk = Kiosk(self.engine, load_examples(), load_replays(), options, self.renew)
        self.client = TestClient(server.create_kiosk_app(self.kiosk)).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.__exit__(None, None, None)
        self.engine.close()

    def renew(self) -> None:
        self.num_renewals += 1

    def begin(self) -> str:
        visit: str = self.client.post("/kiosk/visits").json()["visit"]
        return visit

    def lines(self, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        response = self.client.post(path, json=body)
        assert response.status_code == 200, response.text
        return [json.loads(line) for line in response.text.splitlines()]

    def answer(self, visit: str, **asked: Any) -> list[dict[str, Any]]:
        return self.lines(f"/kiosk/visits/{visit}/answer", asked)

    def put(self, visit: str, picture: bytes) -> Any:
        return self.client.put(f"/kiosk/visits/{visit}/picture", content=picture)

    def figures(self, pin: object = PIN) -> Any:
        return self.client.post("/kiosk/staff/figures", json={"pin": pin})


def png() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(file, "PNG")
    return file.getvalue()


def kinds(lines: list[dict[str, Any]]) -> list[str]:
    return [line["type"] for line in lines]
