"""The kiosk for public screens: its files, and what its script asks of the server.

Comes in: requests of any number of screens. Goes out: static files, small JSON, and streams of
JSON Lines (`vlm.ui.kiosk.runs`). A page of its own without Gradio, so that it goes on when this
server is gone. It takes one picture at a time, keeps it in memory, and knows no conversation.
All handlers run in the server's event loop.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from visual_encoder.image_loading import open_image
from vlm.compare import CompareRequest
from vlm.errors import EngineLost
from vlm.requests import ChatMessage, GenerationRequest
from vlm.ui.assets import PAGE_FOLDER
from vlm.ui.engine_thread import EngineThread, Run
from vlm.ui.examples import Example
from vlm.ui.kiosk.http import Handler, KioskFiles, guarded, read_body, read_json
from vlm.ui.kiosk.options import KioskOptions
from vlm.ui.kiosk.replays import Replay
from vlm.ui.kiosk.runs import Answer, Race, RunStream
from vlm.ui.kiosk.staff import Figures, StaffGate
from vlm.ui.kiosk.visits import Asked, Refusal, Visit, Visits

KIOSK_FOLDER = Path(__file__).parents[3] / "assets" / "kiosk"
MAX_PICTURE_BYTES = 20 * 2**20
MAX_QUESTION_CHARACTERS = 300
# For a picture of one's own, where visitors do not type.
QUESTIONS = ("What is this?", "What can you see?", "Describe the picture.")
# For a base without eyes.
TEXT_QUESTIONS = (
    "Why is the sky blue?",
    "Tell me about eagles.",
    "How do planes fly?",
    "What is a rainbow?",
    "Why do cats purr?",
    "Tell me a short story.",
)
T = TypeVar("T")

logger = logging.getLogger(__name__)


class Kiosk:
    """One object for all screens. `renew` ends the engine's process, so that it is loaded anew."""

    def __init__(
        self,
        engine: EngineThread,
        examples: tuple[Example, ...],
        replays: tuple[Replay, ...],
        options: KioskOptions,
        renew: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._info = engine.pipeline.info
        self._examples = examples if self._info.no_images_reason is None else ()
        self._replays = replays
        self._options = options
        self._renew = renew
        self._restart: Run[Any] | None = None
        self._gate = StaffGate(options.pin)
        self._figures = Figures()
        self._visits = Visits(options.visits_per_minute, options.questions_per_minute)
        self._id = secrets.token_hex(8)  # another one after every start
        self._version = version_of(KIOSK_FOLDER, PAGE_FOLDER / "views")
        self.router = self._make_router()

    def _make_router(self) -> APIRouter:
        router = APIRouter()
        handlers: tuple[tuple[str, str, Handler], ...] = (
            ("GET", "/kiosk/", self.index),
            ("GET", "/kiosk/favicon.svg", self.favicon),
            ("GET", "/kiosk/config", self.config),
            ("GET", "/kiosk/hello", self.hello),
            ("GET", "/kiosk/cards/{number:int}", self.card_picture),
            ("GET", "/kiosk/replays/{number:int}/{part}", self.replay_file),
            ("POST", "/kiosk/visits", self.begin),
            ("DELETE", "/kiosk/visits/{visit}", self.end),
            ("PUT", "/kiosk/visits/{visit}/picture", self.take_picture),
            ("POST", "/kiosk/visits/{visit}/answer", self.answer),
            ("POST", "/kiosk/visits/{visit}/race", self.race),
            ("POST", "/kiosk/visits/{visit}/stop", self.stop),
            ("POST", "/kiosk/staff/figures", self.staff_figures),
            ("POST", "/kiosk/staff/restart", self.staff_restart),
        )
        for method, path, handler in handlers:
            router.add_route(path, guarded(handler), methods=[method])
        router.mount("/kiosk/files", KioskFiles(directory=KIOSK_FOLDER))
        router.mount("/kiosk/views", KioskFiles(directory=PAGE_FOLDER / "views"))
        if (fonts := font_folder()) is not None:
            router.mount("/kiosk/fonts", KioskFiles(directory=fonts))
        return router

    async def index(self, request: Request) -> Response:
        return FileResponse(KIOSK_FOLDER / "index.html")

    async def favicon(self, request: Request) -> Response:
        return FileResponse(PAGE_FOLDER / "favicon.svg")

    async def config(self, request: Request) -> Response:
        """Everything that a screen needs to know, once."""
        options = self._options
        takes_pictures = self._info.no_images_reason is None
        cards = [
            {"question": example.question, "picture": f"/kiosk/cards/{number}"}
            for number, example in enumerate(self._examples)
        ]
        return JSONResponse(
            {
                "version": self._version,
                "cards": cards or [{"question": text} for text in TEXT_QUESTIONS],
                "questions": QUESTIONS,
                "replays": [f"/kiosk/replays/{number}" for number in range(len(self._replays))],
                "takes_pictures": takes_pictures,
                "takes_files": takes_pictures and not options.no_upload,
                "max_picture_bytes": MAX_PICTURE_BYTES,
                "free_text": options.free_text,
                "max_question_characters": MAX_QUESTION_CHARACTERS,
                "can_race": self._info.draft_name is not None,
                "has_staff": options.pin is not None,
                "max_tokens_per_step": self._engine.pipeline.settings.draft_step + 1,
                "idle_seconds": options.idle_seconds,
                "warning_seconds": options.warning_seconds,
                "attract_seconds": options.attract_seconds,
            }
        )

    async def hello(self, request: Request) -> Response:
        """Is anybody there? Also how a screen says that its visitor is."""
        return JSONResponse(
            {
                "id": self._id,
                "version": self._version,
                "is_ready": self._is_ready(),
                "visit": self._visits.is_under_way(request.headers.get("x-visit", "")),
            }
        )

    async def card_picture(self, request: Request) -> Response:
        return FileResponse(pick(self._examples, request.path_params["number"]).image)

    async def replay_file(self, request: Request) -> Response:
        replay = pick(self._replays, request.path_params["number"])
        parts = {"trace": replay.trace, "picture": replay.picture}
        if request.path_params["part"] not in parts:
            raise Refusal(404, "There is no such file.")
        return FileResponse(parts[request.path_params["part"]])

    async def begin(self, request: Request) -> Response:
        visit = self._visits.begin()
        self._figures.visitors += 1
        return JSONResponse({"visit": visit.id})

    async def end(self, request: Request) -> Response:
        self._visits.end(request.path_params["visit"])
        return Response(status_code=204)

    async def take_picture(self, request: Request) -> Response:
        """The body is the picture. It takes the place of the last one."""
        visit = self._visit(request)
        picture = await read_body(request, MAX_PICTURE_BYTES)
        open_image(picture)
        # The visit may have ended while the picture was on its way.
        self._visits.get(visit.id).picture = picture
        return Response(status_code=204)

    async def answer(self, request: Request) -> Response:
        visit = self._visit(request)
        asked = self._asked(visit, await read_json(request))
        self._make_way(visit)
        visit.asked = asked
        run = self._engine.submit(self._generation_request(asked))
        visit.run = run
        return RunStream(self._engine, run, Answer(self._figures), self._note_fault)

    async def race(self, request: Request) -> Response:
        """The last question again, both ways."""
        visit = self._visit(request)
        if visit.asked is None:
            raise Refusal(409, "Ask something first.")
        self._make_way(visit)
        run = self._engine.submit(CompareRequest(self._generation_request(visit.asked)))
        visit.run = run
        return RunStream(self._engine, run, Race(self._figures), self._note_fault)

    async def stop(self, request: Request) -> Response:
        self._visit(request).stop()
        return Response(status_code=204)

    async def staff_figures(self, request: Request) -> Response:
        self._gate.check((await read_json(request)).get("pin"))
        here = {"visits_under_way": len(self._visits), "is_ready": self._is_ready()}
        return JSONResponse({**self._figures.to_json(), **here})

    async def staff_restart(self, request: Request) -> Response:
        """End all visits and load the engine anew."""
        self._gate.check((await read_json(request)).get("pin"))
        self.restart()
        return Response(status_code=204)

    def restart(self) -> None:
        self._visits.end_all()
        self._renew()
        message = ChatMessage("user", "Hello")
        self._restart = self._engine.submit(GenerationRequest((message,), max_new_tokens=4))

    def _is_ready(self) -> bool:
        """Not while the engine is loaded anew. Where that failed, it is tried again."""
        if self._restart is None:
            return True
        if self._restart.is_finished and self._restart.error is not None:
            logger.error("the engine could not be restarted", exc_info=self._restart.error)
            self.restart()
        return self._restart.is_finished

    def _visit(self, request: Request) -> Visit:
        return self._visits.get(request.path_params["visit"])

    def _make_way(self, visit: Visit) -> None:
        """One run at a time, and not too many of them. Raises `Refusal`."""
        if visit.is_busy:
            raise Refusal(409, "The last answer is still being written: stop it first.")
        if not visit.limit.take():
            raise Refusal(429, "That was quick! Please wait a moment before the next question.")

    def _asked(self, visit: Visit, body: dict[str, Any]) -> Asked:
        """A card by number, a prepared question by number, or text where visitors may type."""
        if "card" in body and self._examples:
            example = pick(self._examples, body["card"])
            return Asked(example.question, example.image)
        if "card" in body:
            return Asked(pick(TEXT_QUESTIONS, body["card"]), None)
        if "question" in body:
            return Asked(pick(QUESTIONS, body["question"]), visit.picture)
        text = body.get("text")
        if not self._options.free_text or not isinstance(text, str) or not text.strip():
            raise Refusal(400, "Choose one of the questions.")
        return Asked(text.strip()[:MAX_QUESTION_CHARACTERS], visit.picture)

    def _generation_request(self, asked: Asked) -> GenerationRequest:
        settings = self._engine.pipeline.settings
        images = () if asked.image is None else (asked.image,)
        return GenerationRequest(
            (ChatMessage("user", asked.text, images),),
            sampling=settings.sampling,
            max_new_tokens=min(self._options.max_new_tokens, settings.max_new_tokens),
            use_eagle=self._info.draft_name is not None,
            ignore_eos=settings.ignore_eos,
        )

    def _note_fault(self, error: Exception) -> None:
        logger.error("a visitor's run failed", exc_info=error)
        self._figures.count_error(error)
        if isinstance(error, EngineLost) and self._is_ready():
            self.restart()


def pick(items: tuple[T, ...], number: object) -> T:
    if type(number) is not int or not 0 <= number < len(items):
        raise Refusal(404, "There is no such choice.")
    return items[number]


def version_of(*folders: Path) -> str:
    """Changes with any file of the kiosk, so that screens know when to load themselves anew."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def font_folder() -> Path | None:
    """IBM Plex Sans, as Gradio ships it."""
    spec = find_spec("gradio")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "templates/frontend/static/fonts/IBMPlexSans"
    return folder if folder.is_dir() else None
