"""A measurement under way, as the Benchmark page shows it, and the earlier one beside it.

Comes in: what a visitor does, and the events of his benchmark or sweep. Goes out: the page's value,
whole every time, so that any update mends one that got lost. The engine's events are only counted
here; the figures are those of `vlm.bench_report` and `vlm.sweep`.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import gradio as gr

from vlm.bench import BenchPlan
from vlm.bench_files import parse_report
from vlm.bench_report import BenchReport
from vlm.errors import REFUSALS, ConfigError, VlmError
from vlm.sweep import SweepPlan
from vlm.sweep_files import KIND as SWEEP
from vlm.sweep_files import parse_sweep
from vlm.ui import panels
from vlm.ui.answers import KEEP
from vlm.ui.bench import tables
from vlm.ui.bench.form import BenchForm
from vlm.ui.bench.tallies import Earlier, tally_of
from vlm.ui.controls import Controls
from vlm.ui.engine_thread import EngineThread, Run
from vlm.ui.memory import memory_sentence
from vlm.ui.waits import Wait, wait_of
from vlm.ui.watching import Watching

NUM_FORM_FIELDS = 12
LONGEST_FILE = 8_000_000  # characters; a report of a thousand questions has one


class BenchUpdate(NamedTuple):
    """New values for the Benchmark page."""

    view: Any = KEEP
    notice: Any = KEEP


class BenchHandlers:
    """What a visitor does on the Benchmark page. One object for all visitors."""

    def __init__(self, engine: EngineThread) -> None:
        self._engine = engine
        self._running: Watching[BenchView] = Watching()
        self._desks: dict[str, Desk] = {}

    def run(self, request: gr.Request, *values: Any) -> BenchUpdate:
        """Run was pressed; the form's values, then the drawer's."""
        session = str(request.session_hash)
        try:
            if session in self._running:
                raise ConfigError("The last measurement is still under way: stop it first.")
            info = self._engine.pipeline.info
            if info.draft_name is None:
                reason = "There is nothing to measure against: no draft is loaded."
                raise VlmError(info.misfit_sentence or reason)
            plan = self._plan(values[:NUM_FORM_FIELDS], values[NUM_FORM_FIELDS:])
        except REFUSALS as error:
            return BenchUpdate(notice=panels.notice(str(error)))
        desk = self._desk(session)
        desk.view = BenchView(self._engine, plan)
        self._running.begin(session, desk.view)
        return BenchUpdate(desk.payload(), "")

    async def watch(self, request: gr.Request) -> AsyncGenerator[Any, None]:
        """The measurement as it goes on."""
        session = str(request.session_hash)
        yield KEEP
        async for _ in self._running.follow(session):
            yield self._desk(session).payload()

    def conclude(self, request: gr.Request) -> BenchUpdate:
        """The end of a measurement, whatever it was."""
        session = str(request.session_hash)
        view = self._running.conclude(session)
        if view is None:
            return BenchUpdate()
        return BenchUpdate(self._desk(session).payload(), panels.notice(view.problem()))

    def stop(self, request: gr.Request) -> None:
        """The engine stops within a step; what is measured is kept."""
        self._running.cancel(str(request.session_hash))

    def bring(self, request: gr.Request, event: gr.EventData) -> BenchUpdate:
        """An earlier file was chosen; the browser read it."""
        desk = self._desk(str(request.session_hash))
        name = str(event._data["name"])
        try:
            desk.put_beside(name, loaded(str(event._data["text"]), name))
        except REFUSALS as error:
            return BenchUpdate(notice=panels.notice(str(error)))
        return BenchUpdate(desk.payload(), "")

    def put_away(self, request: gr.Request) -> BenchUpdate:
        """The earlier file is not wanted any more."""
        desk = self._desk(str(request.session_hash))
        desk.earlier = None
        return BenchUpdate(desk.payload(), "")

    def leave(self, request: gr.Request) -> None:
        """The tab was closed."""
        self._running.forget(str(request.session_hash))
        self._desks.pop(str(request.session_hash), None)

    def idle(self) -> dict[str, Any]:
        """The page before the first measurement."""
        return Desk().payload()

    def _desk(self, session: str) -> Desk:
        return self._desks.setdefault(session, Desk())

    def _plan(self, form: tuple[Any, ...], drawer: tuple[Any, ...]) -> BenchPlan | SweepPlan:
        settings = self._engine.pipeline.settings
        asked = BenchForm.from_values(form, settings)
        # The drawer's own check of sampling and limits; its question and length are not used.
        checked = Controls.from_values(drawer).request((), settings)
        return asked.plan(settings, checked.sampling, checked.limits or settings.limits)


class Desk:
    """What lies on one visitor's Benchmark page."""

    def __init__(self) -> None:
        self.view: BenchView | None = None
        self.earlier: Earlier | None = None
        self._earlier_name = ""
        self._earlier_shown = ""

    def put_beside(self, name: str, earlier: Earlier) -> None:
        """Raises `ConfigError` for figures that cannot be shown."""
        try:
            shown = (
                tables.bench_shown(earlier)
                if isinstance(earlier, BenchReport)
                else tables.sweep_shown(earlier)
            )
            if self.view is not None:
                self.view.results(earlier)
        except (ArithmeticError, ValueError) as error:
            raise ConfigError(f"{name} holds figures that cannot be: {error}.") from error
        self.earlier, self._earlier_name, self._earlier_shown = earlier, name, shown

    def payload(self) -> dict[str, Any]:
        there = self.earlier is not None
        beside = {
            "earlier": self._earlier_shown if there else "",
            "earlier_name": self._earlier_name if there else "",
        }
        if self.view is None:
            return IDLE | beside
        return self.view.payload(self.earlier) | beside


IDLE: dict[str, Any] = {
    "run": -1,
    "phase": "idle",
    "phase_text": "",
    "writing": "",
    "done": 0,
    "all": 0,
    "seconds_left": None,
    "announcement": "",
    "now": "",
    "changes": "",
    "files": "",
}


class BenchView:
    """How one measurement looks on the page at any moment."""

    def __init__(self, engine: EngineThread, plan: BenchPlan | SweepPlan) -> None:
        self._engine = engine
        self._tally = tally_of(plan, engine.pipeline)
        self._run: Run[Any] = engine.submit(plan)
        self._pace = Pace()
        self._has_begun = False
        self._is_complete = False
        self._shown: tuple[Any, ...] = ()
        self._results: tuple[Any, dict[str, str]] = (None, {})
        self.is_over = False

    def cancel(self) -> None:
        self._run.cancel()

    def poll(self) -> bool:
        """True where a figure changed. That tokens are being written is shown twice a second, by
        the heartbeat: more would take from what is being measured."""
        # In this order: what the engine put before it finished is then in the queue.
        is_finished, is_cancelled = self._run.is_finished, self._run.is_cancelled
        self._is_complete = is_finished and not is_cancelled and self._run.error is None
        self.is_over = is_finished or is_cancelled
        for event in self._run.drain():
            self._has_begun = True
            self._tally.add(event)
        self._pace.note(self._tally.standing.num_done)
        before, self._shown = self._shown, (self._phase_text(), self._tally.num_results)
        return self._shown != before

    def payload(self, earlier: Earlier | None) -> dict[str, Any]:
        standing = self._tally.standing
        done = standing.num_all if self._is_complete else standing.num_done
        return {
            "run": self._run.number,
            "phase": self._phase(),
            "phase_text": self._phase_text(),
            "writing": standing.writing if self._phase() == "running" else "",
            "done": done,
            "all": standing.num_all,
            "seconds_left": self._pace.seconds_left(done, standing.num_all),
            "announcement": self._announcement(),
            **self.results(earlier),
        }

    def results(self, earlier: Earlier | None) -> dict[str, str]:
        """The figures; made anew only when they changed."""
        key = (self._tally.num_results, self._is_complete, self.is_over, id(earlier))
        if self._results[0] != key:
            found, whole = self._tally.num_results > 0, self._is_complete
            figures = {
                "now": self._tally.shown(is_complete=whole, earlier=earlier),
                "changes": self._tally.changes(is_complete=whole, earlier=earlier),
                "files": self._tally.files(is_complete=whole) if found and self.is_over else "",
            }
            self._results = (key, figures)
        return self._results[1]

    def problem(self) -> str:
        """Why the measurement broke off; empty where it did not."""
        error = self._run.error
        if error is None:
            return ""
        short_of_memory = memory_sentence(error)
        if short_of_memory is not None:
            return f"{short_of_memory} What was measured until then is kept."
        reason = str(error) or type(error).__name__
        if isinstance(error, REFUSALS):
            return reason
        return f"The measurement broke off: {reason} What was measured until then is kept."

    def _phase(self) -> str:
        if self._run.error is not None:
            return "failed"
        if self._is_complete:
            return "done"
        if self._run.is_cancelled:
            return "stopped"
        if self._has_begun:
            return "running"
        return "warming" if self._wait() is None else "waiting"

    def _wait(self) -> Wait | None:
        return wait_of(self._engine, self._run)

    def _phase_text(self) -> str:
        standing, phase, wait = self._tally.standing, self._phase(), self._wait()
        if wait is not None and phase == "waiting":
            return wait.text
        return {
            "waiting": "Waiting for the engine",  # and it has come meanwhile
            "warming": "Reading the first question and warming both up",
            "running": f"{self._tally.unit} {standing.num_done + 1} of {standing.num_all}",
            "done": "Finished",
            "stopped": "Stopped; what was measured until here is kept",
            "failed": "Broken off",
        }[phase]

    def _announcement(self) -> str:
        """What a screen reader says: what is waited for, the start, the end."""
        wait = self._wait()
        if wait is not None and self._phase() == "waiting":
            return wait.announcement
        if not self.is_over:
            return "The measurement has begun." if self._has_begun else ""
        return f"{self._phase_text()}. {self._tally.verdict()}."


class Pace:
    """How long the rest will take, from how long it took so far."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._num_done = 0
        self._seconds = 0.0  # of what is done

    def note(self, num_done: int) -> None:
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if num_done != self._num_done:
            self._num_done = num_done
            self._seconds = now - self._began

    def seconds_left(self, num_done: int, num_all: int) -> float | None:
        """None until something is done."""
        if self._began is None or self._num_done == 0:
            return None
        since = time.monotonic() - self._began - self._seconds
        each = self._seconds / self._num_done
        return max(0.0, each * (num_all - num_done) - min(since, each))


def loaded(text: str, name: str) -> Earlier:
    """A report or a sweep from a file. Raises `ConfigError`."""
    if len(text) > LONGEST_FILE:
        raise ConfigError(
            f"{name} has {len(text)} characters, and at most {LONGEST_FILE} are read: is it a "
            f"benchmark's JSON?"
        )
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name} is not JSON, so it cannot be compared with: {error}.") from error
    is_sweep = isinstance(values, dict) and str(values.get("format")).startswith(SWEEP)
    return parse_sweep(text, name) if is_sweep else parse_report(text, name)
