"""The benchmark: the same rows for page and shell, stopped or complete, and back from a file."""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vlm.conftest import SMALL
from tests.vlm.test_pipeline import picture
from vlm.__main__ import main
from vlm.bench import BenchEvent, BenchPlan, BenchProgress, BenchRow, BenchSkipped, bench
from vlm.bench_command import until_interrupted
from vlm.bench_files import read_report, to_csv, to_json, to_markdown, write_report
from vlm.bench_report import (
    BenchReport,
    ReportBuilder,
    changes,
    differing_conditions,
    pooled,
    quantile,
)
from vlm.compare import CompareEvent, CompareRequest, compare
from vlm.errors import ConfigError
from vlm.metrics import Acceptance
from vlm.pipeline import VlmPipeline
from vlm.questions import Question, find_questions, read_questions

QUESTIONS = (
    Question("1", "talk", ("one?", "and then?")),
    Question("2", "talk", ("two?",)),
    Question("3", "other", ("three?",)),
)
PLAN = BenchPlan(QUESTIONS, repeats=2, max_new_tokens=6, ignore_eos=True)


def measured(pipeline: VlmPipeline, plan: BenchPlan, rows: int | None = None) -> BenchReport:
    builder = ReportBuilder(plan, pipeline)
    events = bench(pipeline, plan)
    for event in events:
        builder.add(event)
        if len(builder.rows) == rows:
            events.close()  # type: ignore[attr-defined]
            return builder.report(is_complete=False)
    return builder.report(is_complete=True)


@pytest.fixture(scope="module")
def report(tiny_pipeline: VlmPipeline) -> BenchReport:
    return measured(tiny_pipeline, PLAN)


def test_every_turn_is_a_row(report: BenchReport) -> None:
    assert [(row.question, row.turn) for row in report.rows] == [
        ("1", 1),
        ("1", 2),
        ("2", 1),
        ("3", 1),
    ]
    assert all(row.verdict.is_identical for row in report.rows)
    assert all(len(row.decode_speedups) == 2 for row in report.rows)
    assert report.rows[1].num_prompt_tokens > report.rows[0].num_prompt_tokens


def test_groups_sum_up_their_rows(report: BenchReport) -> None:
    assert [group.name for group in report.groups] == ["talk", "other", "all"]
    everything = report.groups[-1]
    assert everything.num_prompts == everything.num_identical == 4
    assert everything.num_tokens == 24
    speedups = [ratio for row in report.rows for ratio in row.decode_speedups]
    assert everything.decode_speedup is not None
    assert everything.decode_speedup.median == pytest.approx(statistics.median(speedups))
    steps = sum(row.acceptance.num_spec_steps for row in report.rows)
    accepted = sum(row.acceptance.num_accepted_draft_tokens for row in report.rows)
    assert everything.mean_acceptance_length == pytest.approx(1 + accepted / steps)


def test_progress_counts_comparisons(tiny_pipeline: VlmPipeline) -> None:
    progress = [e for e in bench(tiny_pipeline, PLAN) if isinstance(e, BenchProgress)]
    assert {event.num_races for event in progress} == {PLAN.num_races} == {8}
    assert [event.num_done for event in progress] == sorted(event.num_done for event in progress)
    assert progress[-1].num_done == 7
    # The first comparison begins with the base, the second with EAGLE-3.
    assert [next(e.mode for e in progress if e.num_done == n) for n in (0, 1)] == ["base", "eagle"]


def test_a_stopped_run_keeps_its_rows(tiny_pipeline: VlmPipeline) -> None:
    report = measured(tiny_pipeline, PLAN, rows=2)
    assert not tiny_pipeline.lock.locked()
    assert not report.is_complete
    assert len(report.rows) == 2
    assert "Stopped before the end." in to_markdown(report)
    assert read_back(report) == report


def read_back(report: BenchReport) -> BenchReport:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "r.json"
        write_report(path, report)
        return read_report(path)


def test_what_cannot_be_asked_is_skipped_with_its_reason(tiny_pipeline: VlmPipeline) -> None:
    plan = replace(PLAN, questions=(Question("9", "talk", ("x" * 400, "more")), QUESTIONS[1]))
    events = list(bench(tiny_pipeline, plan))
    (skipped,) = [event for event in events if isinstance(event, BenchSkipped)]
    assert "at most 200 fit" in skipped.reason
    assert [event.question for event in events if isinstance(event, BenchRow)] == ["2"]


def test_a_skipped_question_does_not_take_the_warm_up(
    tiny_pipeline: VlmPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer of the next one would pay for all first allocations."""
    warmed: list[bool] = []

    def noted(pipeline: VlmPipeline, asked: CompareRequest) -> Iterator[CompareEvent]:
        warmed.append(asked.warm_up)
        return compare(pipeline, asked)

    monkeypatch.setattr("vlm.bench.compare", noted)
    questions = (Question("9", "talk", ("x" * 400,)), *QUESTIONS[1:])
    for _ in bench(tiny_pipeline, replace(PLAN, questions=questions, repeats=1)):
        pass
    assert warmed == [True, True, False]


def test_files_hold_the_report(report: BenchReport, tmp_path: Path) -> None:
    assert read_back(report) == report
    assert json.loads(to_json(report))["groups"][-1]["num_prompts"] == 4
    lines = to_csv(report).splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert [row["question"] for row in rows] == ["1", "1", "2", "3"]
    assert float(rows[0]["base_decode_tokens_per_second"]) > 0
    markdown = to_markdown(report)
    assert "| all | 24 |" in markdown
    assert "4/4" in markdown
    assert report.conditions.environment.torch_version in markdown


def test_quarters_that_round_to_one_figure_are_left_out(report: BenchReport) -> None:
    """The table said "25.3 (25.3 to 25.3)" where a category had a single answer."""
    row = report.rows[0]
    rates = (25.31, 25.34, 25.38, 25.44)
    sides = [replace(row.base, decode_tokens_per_second=rate) for rate in rates]
    alike = replace(report, rows=tuple(replace(row, base=side) for side in sides[:2]))
    apart = replace(report, rows=tuple(replace(row, base=side) for side in sides))
    assert "| 25.3 |" in to_markdown(alike)
    assert "| 25.4 (25.3 to 25.4) |" in to_markdown(apart)


def test_a_csv_begins_with_what_was_measured_on_what(report: BenchReport) -> None:
    """Its rows alone told neither model, nor machine, nor day."""
    facts = dict(
        line.removeprefix("# ").split(": ", 1)
        for line in to_csv(report).splitlines()
        if line.startswith("# ")
    )
    assert (facts["Base"], facts["Draft"]) == ("base", "draft")
    assert facts["Numbers"] == "float32 on cpu"
    assert facts["Decoding"] == "greedy, at most 6 tokens, past the end"
    assert facts["Measured"][:10] == report.conditions.started[:10]
    assert (facts["Questions"], facts["Repeats"]) == ("3", "2")
    assert facts["Image tokens"] == "4 to 30 a picture, 60 together"
    stopped = to_csv(replace(report, is_complete=False))
    assert ("# Stopped before the end." in stopped, "Stopped" in to_csv(report)) == (True, False)


def test_an_earlier_report_is_compared(report: BenchReport, tiny_pipeline: VlmPipeline) -> None:
    assert all(change.eagle_speed_ratio == 1 for change in changes(report, report))
    assert differing_conditions(report, report) == ()
    half = replace(report.conditions, dtype="bfloat16")
    fewer = replace(report, rows=report.rows[:3], conditions=half)
    assert [change.name for change in changes(fewer, report)] == ["talk", "all"]
    sentences = differing_conditions(fewer, report)
    assert sentences[0] == "dtype: bfloat16 before, float32 now."
    assert "1 turns are in one report only" in sentences[1]


def test_wrong_files_are_one_sentence(report: BenchReport, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("{}")
    with pytest.raises(ConfigError, match=r"form None.*reads eagleeye.bench/2"):
        read_report(path)
    path.write_text(to_json(report).replace('"num_done"', "").replace('"rows"', '"lines"'))
    with pytest.raises(ConfigError, match="lacks the field 'rows'"):
        read_report(path)
    with pytest.raises(ConfigError, match="must end in"):
        write_report(tmp_path / "r.xlsx", report)
    with pytest.raises(ConfigError, match="does not exist"):
        write_report(tmp_path / "no" / "r.json", report)


def test_plans_are_checked() -> None:
    with pytest.raises(ConfigError, match="--repeats must be at least 1, got 0"):
        replace(PLAN, repeats=0)
    with pytest.raises(ConfigError, match="no questions"):
        replace(PLAN, questions=())


def test_questions_of_every_source(tmp_path: Path) -> None:
    bundled = find_questions(None)
    assert len({question.id for question in bundled}) == len(bundled) == 24
    assert all(image.is_file() for question in bundled for image in question.images)
    picture().save(tmp_path / "b.png")
    picture().save(tmp_path / "a.JPG", format="jpeg")
    (tmp_path / "notes.txt").write_text("no picture")
    found = find_questions(tmp_path, "What is it?")
    assert [question.id for question in found] == ["a.JPG", "b.png"]
    assert found[0].turns == ("What is it?",)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigError, match="holds no pictures"):
        find_questions(empty)


def test_files_of_another_form_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text('{"turns": ["a", "b"], "category": "c"}\n\n{"turns": ["d"]}\n')
    assert [question.turns for question in read_questions(path)] == [("a", "b"), ("d",)]
    for wrong in ('{"prompt": "x"}\n', "[]", '{"turns": []}', '{"turns": "abc"}', "{"):
        path.write_text(wrong)
        with pytest.raises(ConfigError, match="line 1 cannot be read as a question"):
            read_questions(path)
    path.write_text("\n")
    with pytest.raises(ConfigError, match="holds no questions"):
        read_questions(path)


def test_from_the_shell(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture().save(tmp_path / "one.png")
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    out = tmp_path / "report.json"
    argv = ["bench", "--questions", str(tmp_path), "--base", pair[0], "--draft", pair[1], *options]
    argv += ["--max-new-tokens", "6", "--ignore-eos", "--out", str(out)]
    assert main(argv) == 0
    assert "| pictures | 6 |" in capsys.readouterr().out
    assert main([*argv, "--against", str(out)]) == 0
    assert "now ÷ before" in capsys.readouterr().out
    assert main([*argv, "--limit", "0"]) == 2
    assert "--limit must be at least 1, got 0" in capsys.readouterr().err


def test_an_error_keeps_what_is_measured_and_its_own_status(
    pair: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(pipeline: VlmPipeline, plan: BenchPlan) -> Iterator[BenchEvent]:
        for event in bench(pipeline, plan):
            if isinstance(event, BenchRow) and event.question == "12":
                raise RuntimeError("device lost")
            yield event

    monkeypatch.setattr("vlm.bench_command.bench", failing)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    argv = ["bench", "--base", pair[0], "--draft", pair[1], "--max-new-tokens", "4", *options]
    out = tmp_path / "report.json"
    with pytest.raises(RuntimeError, match="device lost"):
        main([*argv, "--out", str(out)])
    report = read_report(out)
    assert report.rows
    assert not report.is_complete
    assert "Stopped before the end." in capsys.readouterr().out


def test_ctrl_c_keeps_what_is_done() -> None:
    taken: list[int] = []

    def take(number: int) -> None:
        if number == 2:
            raise KeyboardInterrupt
        taken.append(number)

    assert not until_interrupted(range(5), take)
    assert taken == [0, 1]
    assert until_interrupted(range(2), taken.append)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(0, 1))
def test_quantiles_are_numpys(values: list[float], share: float) -> None:
    assert quantile(values, share) == pytest.approx(np.quantile(values, share), abs=1e-6)


def test_pooling_counts_every_step_once() -> None:
    first = Acceptance(2.0, 0.1, (1, 1, 1), 3, 3, 21)
    second = Acceptance(1.0, 0.0, (2,), 2, 0, 14)
    together = pooled([first, second])
    assert together.acceptance_histogram == (3, 1, 1)
    assert together.mean_acceptance_length == pytest.approx(1 + 3 / 5)
    assert together.num_draft_tokens == 35
    assert pooled([]).mean_acceptance_length is None
