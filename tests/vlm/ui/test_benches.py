"""The Benchmark page: what a visitor does there, and the values that follow."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.vlm.ui.bench_visitor import FORM, VISITOR, begin, bring, run_on, texts
from tests.vlm.ui.fakes import INFO, FakePipeline
from visual_encoder.types import ImageTokenLimits
from vlm.bench_files import parse_report, to_csv, to_json, to_markdown, write_report
from vlm.sweep_files import parse_sweep, sweep_json, sweep_markdown
from vlm.ui.answers import KEEP
from vlm.ui.bench.benches import BenchHandlers, Pace
from vlm.ui.controls import Controls
from vlm.ui.engine_thread import EngineThread


def test_categories_are_measured_and_the_figures_fill_up(
    benches: BenchHandlers, pipeline: FakePipeline
) -> None:
    pipeline.step_seconds = 0.02
    updates = run_on(benches, begin(benches, pipeline))
    last = updates[-1].view
    assert (last["phase"], last["done"], last["all"]) == ("done", 5, 5)
    shown = json.loads(last["now"])
    assert [group["name"] for group in shown["groups"]] == ["story", "code", "all"]
    assert shown["groups"][-1]["num_identical"] == 5
    assert dict(shown["facts"])["Base"] == "tiny-base"
    assert last["announcement"] == "Finished. 5 of 5 answers identical."
    live = [item.view for item in updates[:-1] if item.view is not KEEP]
    assert live[0]["now"] == live[0]["files"] == ""
    writing = r"(story|code), question 1\d, turn 1: (the base alone|base \+ EAGLE-3) is writing"
    assert any(re.match(writing, item["writing"]) for item in live)
    assert any(item["now"] not in ("", last["now"]) for item in live)
    assert any(item["seconds_left"] is not None for item in live)


def test_the_saved_files_are_those_of_the_shell(
    benches: BenchHandlers, pipeline: FakePipeline, tmp_path: Path
) -> None:
    saved = texts(run_on(benches, begin(benches, pipeline))[-1].view)
    report = parse_report(saved["json"], "r.json")
    assert report.is_complete
    assert saved == {"json": to_json(report), "csv": to_csv(report), "md": to_markdown(report)}
    for ending, text in saved.items():
        write_report(tmp_path / f"r.{ending}", report)
        assert (tmp_path / f"r.{ending}").read_text(encoding="utf-8") == text


def test_the_drawers_sampling_and_the_pages_length_are_used(
    engine: EngineThread, pipeline: FakePipeline
) -> None:
    benches = BenchHandlers(engine)
    drawer = replace(
        Controls.from_settings(pipeline.settings, has_draft=True),
        temperature=0.5,
        max_image_tokens_per_image=32,
    )
    first = benches.run(VISITOR, *(FORM | {"max_new_tokens": 7}).values(), *drawer.values())
    run_on(benches, first)
    request = pipeline.requests[0]
    assert (request.max_new_tokens, request.sampling.temperature) == (7, 0.5)
    assert request.limits is not None
    assert request.limits.max_image_tokens_per_image == 32


def test_a_sweep_uses_the_drawers_limits_and_saves_them(
    engine: EngineThread, pipeline: FakePipeline
) -> None:
    """They were the program's own, and so said the file."""
    benches = BenchHandlers(engine)
    limits = ImageTokenLimits(8, 96, 48)
    settings = Controls.from_settings(pipeline.settings, has_draft=True)
    drawer = replace(settings, **asdict(limits)).values()
    for budgets in ("", "16,64"):
        form = FORM | {"kind": "sweep", "image_tokens": budgets}
        last = run_on(benches, benches.run(VISITOR, *form.values(), *drawer))[-1].view
        assert pipeline.sweeps[-1].limits == limits
        saved = texts(last)
        assert parse_sweep(saved["json"], "s.json").conditions.limits == limits
        assert "image tokens 8 to 48 a picture, 96 together" in saved["md"]


def test_stop_keeps_what_is_done(benches: BenchHandlers, pipeline: FakePipeline) -> None:
    pipeline.step_seconds = 0.02
    last = run_on(benches, begin(benches, pipeline), stop_after=1)[-1]
    assert last.view["phase"] == "stopped"
    report = parse_report(texts(last.view)["json"], "r.json")
    assert not report.is_complete
    assert 1 <= len(report.rows) < 5
    assert json.loads(last.view["now"])["groups"][0]["name"] == "story"


def test_an_error_midway_is_said_and_the_rows_are_kept(
    benches: BenchHandlers, pipeline: FakePipeline
) -> None:
    def fail(index: int) -> None:
        if len(pipeline.requests) == 3:
            raise RuntimeError("device lost.")

    pipeline.before_step = fail
    last = run_on(benches, begin(benches, pipeline))[-1]
    assert "The measurement broke off: device lost." in last.notice
    assert last.view["phase"] == "failed"
    assert len(parse_report(texts(last.view)["json"], "r.json").rows) == 1


def test_want_of_memory_names_what_to_lower_and_the_rows_are_kept(
    benches: BenchHandlers, pipeline: FakePipeline
) -> None:
    def fail(index: int) -> None:
        if len(pipeline.requests) == 3:
            raise MemoryError

    pipeline.before_step = fail
    last = run_on(benches, begin(benches, pipeline))[-1]
    assert "leave large trees out of a sweep" in last.notice
    assert "What was measured until then is kept." in last.notice
    assert len(parse_report(texts(last.view)["json"], "r.json").rows) == 1


def test_what_is_skipped_stands_with_its_reason(
    benches: BenchHandlers, pipeline: FakePipeline, tmp_path: Path
) -> None:
    path = tmp_path / "question.jsonl"
    path.write_text('{"turns": ["Refuse this."]}\n{"turns": ["Hello"]}\n', encoding="utf-8")
    last = run_on(benches, begin(benches, pipeline, source="own", files=[str(path)]))[-1]
    (skipped,) = json.loads(last.view["now"])["skipped"]
    assert skipped == {
        "question": "1",
        "turn": 1,
        "reason": "The prompt is too long: at most 200 fit.",
    }


def test_a_sweep_goes_on_behind_a_question_that_was_refused(
    benches: BenchHandlers, pipeline: FakePipeline, tmp_path: Path
) -> None:
    path = tmp_path / "question.jsonl"
    path.write_text('{"turns": ["Refuse this."]}\n{"turns": ["Hello"]}\n', encoding="utf-8")
    own = {"kind": "sweep", "source": "own", "files": [str(path)]}
    last = run_on(benches, begin(benches, pipeline, **own, image_tokens="16,64"))[-1].view
    assert last["phase"] == "done"
    facts = dict(json.loads(last["now"])["facts"])
    assert facts["Skipped 1, 16 image tokens"] == "The prompt is too long: at most 200 fit."
    assert "Skipped 1, 64 image tokens" in facts
    measured = [cell for cell in cells(last["now"]) if cell["state"] == "measured"]
    assert measured
    assert all(cell["num_prompts"] == 1 for cell in measured)


def test_a_second_measurement_waits_for_the_first(
    benches: BenchHandlers, pipeline: FakePipeline
) -> None:
    pipeline.step_seconds = 0.02
    begin(benches, pipeline)
    assert "stop it first" in begin(benches, pipeline).notice
    benches.leave(VISITOR)


def test_a_closed_tab_frees_the_engine_and_forgets_everything(
    benches: BenchHandlers, engine: EngineThread, pipeline: FakePipeline
) -> None:
    pipeline.step_seconds = 0.02
    begin(benches, pipeline)
    benches.leave(VISITOR)
    deadline = time.monotonic() + 5
    while not engine.is_idle:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert benches.put_away(VISITOR).view == benches.idle()


def test_without_a_draft_there_is_nothing_to_measure_against() -> None:
    pipeline = FakePipeline(info=replace(INFO, draft_name=None))
    with EngineThread(pipeline) as engine:
        assert "no draft is loaded" in begin(BenchHandlers(engine), pipeline).notice
        pipeline.info = replace(pipeline.info, draft_problem="It was made for another base.")
        assert "It was made for another base." in begin(BenchHandlers(engine), pipeline).notice


def test_an_earlier_report_stands_beside_with_ratios(
    benches: BenchHandlers, pipeline: FakePipeline
) -> None:
    earlier = texts(run_on(benches, begin(benches, pipeline))[-1].view)["json"]
    loaded = bring(benches, "before.json", earlier).view
    assert json.loads(loaded["earlier"])["groups"] == json.loads(loaded["now"])["groups"]
    assert all(row["base_speed_ratio"] == 1 for row in json.loads(loaded["changes"])["rows"])
    again = run_on(benches, begin(benches, pipeline, categories=["code"], repeats=2))[-1].view
    changes = json.loads(again["changes"])
    assert [row["name"] for row in changes["rows"]] == ["code", "all"]
    assert "repeats: 1 before, 2 now." in changes["conditions"]
    assert again["earlier_name"] == "before.json"
    away = benches.put_away(VISITOR).view
    assert away["earlier"] == away["changes"] == ""
    assert away["now"] == again["now"]


def test_a_file_that_is_no_report_is_refused(
    benches: BenchHandlers, pipeline: FakePipeline
) -> None:
    good = texts(run_on(benches, begin(benches, pipeline))[-1].view)["json"]
    values = json.loads(good)
    values["rows"][0]["decode_speedups"] = [float("nan")]
    impossible = json.loads(good)
    impossible["rows"][0]["acceptance"]["num_spec_steps"] = 0
    for other in impossible["rows"][1:]:
        other["acceptance"]["num_spec_steps"] = 0
    for text, sentence in (
        ("hello", "a.json is not JSON"),
        ("[1]", "a.json has the form None"),
        ('{"format": "eagleeye.bench/9"}', "eagleeye.bench/9"),
        ('{"format": "eagleeye.bench/1"}', "and this version reads eagleeye.bench/2"),
        ('{"format": "eagleeye.bench/2"}', "lacks the field"),
        ('{"format": "eagleeye.sweep/1"}', "a.json cannot be read as a sweep: it has the form"),
        ('{"format": "eagleeye.sweep/2"}', "a.json cannot be read as a sweep: SweptOn lacks"),
        (json.dumps(values), "a.json holds figures that cannot be"),
        (json.dumps(impossible), "a.json holds figures that cannot be"),
        ("[" * 100_000, "a.json is not JSON"),
        (" " * 8_000_001, "at most 8000000 are read"),
    ):
        update = bring(benches, "a.json", text)
        assert sentence in update.notice, text[:40]
        assert update.view is KEEP


def cells(text: str) -> list[dict[str, Any]]:
    rows = [row for item in json.loads(text)["maps"] for row in item["rows"]]
    return [cell for row in rows for cell in row["cells"]]


def test_a_sweep_is_a_map_with_its_best_setting(
    benches: BenchHandlers, pipeline: FakePipeline
) -> None:
    pipeline.step_seconds = 0.02
    begun = begin(benches, pipeline, kind="sweep", image_tokens="16,64")
    updates = run_on(benches, begun)
    states = [cell["state"] for cell in cells(begun.view["now"])]
    assert states == ["empty", "impossible", "empty", "empty"] * 2  # 8 tokens need a deeper tree
    last = updates[-1].view
    best = [cell for cell in cells(last["now"]) if cell.get("best")]
    assert [(cell["setting"], cell["best"]) for cell in best] == [
        (
            "--draft-step 2 --draft-top-k 2 --verify-tree-size 4 --max-image-tokens-per-image 16",
            ["decode", "end_to_end"],
        )
    ]
    live = [item.view["writing"] for item in updates[:-1] if item.view is not KEEP]
    assert any(
        re.match(r"question \d+, (16|64) image tokens: .* is writing", text) for text in live
    )
    saved = texts(last)
    swept = parse_sweep(saved["json"], "s.json")
    assert saved == {
        "json": sweep_json(swept),
        "md": sweep_markdown(swept),
    }
    beside = bring(benches, "s.json", saved["json"]).view
    assert all(
        cell["before"]["decode_speedup"] == cell["decode_speedup"]
        for cell in cells(beside["now"])
        if cell["state"] == "measured"
    )
    assert len(cells(beside["earlier"])) == 8
    assert dict(json.loads(beside["earlier"])["facts"])["Base"] == "tiny-base"
    changes = json.loads(beside["changes"])
    assert [row["eagle_speed_ratio"] for row in changes["rows"]] == [1] * 6
    assert changes["conditions"] == []
    other = saved["json"].replace('"tiny-draft"', '"another"')
    changes = json.loads(bring(benches, "s.json", other).view["changes"])
    assert changes["conditions"] == ["draft: another before, tiny-draft now."]


def test_a_sweep_with_a_best_setting_that_is_not_there_is_refused(
    benches: BenchHandlers, pipeline: FakePipeline
) -> None:
    last = run_on(benches, begin(benches, pipeline, kind="sweep"))[-1].view
    values = json.loads(texts(last)["json"])
    values["report"]["best_decode"] = 99
    assert "number 99, which does not exist" in bring(benches, "s.json", json.dumps(values)).notice


def test_the_time_left_follows_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("vlm.ui.bench.benches.time.monotonic", lambda: now[0])
    pace = Pace()
    pace.note(0)
    assert pace.seconds_left(0, 4) is None
    now[0] = 10.0
    pace.note(1)
    assert pace.seconds_left(1, 4) == 30.0
    now[0] = 14.0
    assert pace.seconds_left(1, 4) == 26.0
    now[0] = 90.0
    assert pace.seconds_left(1, 4) == 20.0
