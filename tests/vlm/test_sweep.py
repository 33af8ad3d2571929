"""The sweep: every possible combination once, the best named, stopped or complete."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.vlm.conftest import SMALL
from tests.vlm.test_pipeline import picture
from visual_encoder.types import ImageTokenLimits
from vlm.__main__ import main
from vlm.errors import ConfigError, VlmError
from vlm.pipeline import VlmPipeline
from vlm.prepared import PreparedPrompt
from vlm.questions import Question
from vlm.requests import GenerationRequest
from vlm.sweep import (
    SweepEvent,
    SweepMeasurement,
    SweepPlan,
    SweepProgress,
    SweepSkipped,
    sweep,
)
from vlm.sweep_files import parse_sweep, setting, sweep_json, sweep_markdown
from vlm.sweep_report import (
    SweepBuilder,
    SweptOn,
    differing_sweeps,
    sweep_changes,
    sweep_report,
)
from vlm.trace import TraceImage


def summed_up(pipeline: VlmPipeline, plan: SweepPlan, events: list[SweepEvent]) -> SweptOn:
    builder = SweepBuilder(plan, pipeline)
    for event in events:
        builder.add(event)
    return builder.swept(is_complete=True)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> SweepPlan:
    path = tmp_path_factory.mktemp("sweep") / "a.png"
    picture(300, 200).save(path)
    questions = (Question("1", "talk", ("one?",)), Question("2", "picture", ("two?",), (path,)))
    return SweepPlan(questions, (1, 3), (2, 4), (4, 9), image_tokens=(4, 20), max_new_tokens=6)


def test_combinations_that_cannot_be_drafted_are_left_out(plan: SweepPlan) -> None:
    assert (2, 1) not in {(tree.draft_top_k, tree.draft_step) for tree in plan.trees}
    assert len(plan.trees) == 5  # of eight: one level holds as many nodes as top-k
    assert plan.num_runs == 2 * 2 * (5 + 2)
    with pytest.raises(ConfigError, match="No combination"):
        replace(plan, draft_steps=(1,), draft_top_ks=(1,))


def test_every_setting_is_measured_on_every_question(
    tiny_pipeline: VlmPipeline, plan: SweepPlan
) -> None:
    events = list(sweep(tiny_pipeline, plan))
    measurements = [event for event in events if isinstance(event, SweepMeasurement)]
    assert len(measurements) == 2 * 2 * 5
    assert all(item.is_identical for item in measurements)
    progress = [event for event in events if isinstance(event, SweepProgress)]
    assert progress[-1].num_done == plan.num_runs - 1
    report = sweep_report(measurements)
    assert len(report.cells) == 10
    assert all(cell.num_prompts == cell.num_identical == 2 for cell in report.cells)
    speedups = [cell.decode_speedup.median for cell in report.cells if cell.decode_speedup]
    assert report.best_decode == speedups.index(max(speedups))
    markdown = sweep_markdown(summed_up(tiny_pipeline, plan, events))
    assert setting(report.cells[report.best_decode]) in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("| 1, 4 |")]
    assert [row.endswith("| n/a |") for row in rows] == [True, True], "9 nodes cannot be drafted"
    assert tiny_pipeline.draft is not None
    assert tiny_pipeline.draft.shape == tiny_pipeline.settings.tree, "the pipeline keeps its tree"


@pytest.mark.parametrize(
    ("image_tokens", "held"),
    [((), [(8, 12)]), ((9, 20), [(8, 9), (8, 20)]), ((4,), [(4, 4)])],
)
def test_the_plans_limits_hold_but_for_what_is_varied(
    tiny_pipeline: VlmPipeline,
    plan: SweepPlan,
    image_tokens: tuple[int, ...],
    held: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[TraceImage] = []
    prepare = VlmPipeline.prepare

    def note(self: VlmPipeline, request: GenerationRequest) -> PreparedPrompt:
        prepared = prepare(self, request)
        found.extend(prepared.images)
        return prepared

    monkeypatch.setattr(VlmPipeline, "prepare", note)
    one = replace(
        plan,
        questions=plan.questions[1:],
        draft_steps=(3,),
        draft_top_ks=(2,),
        verify_tree_sizes=(4,),
        image_tokens=image_tokens,
        limits=ImageTokenLimits(8, 40, 12),
    )
    swept = summed_up(tiny_pipeline, one, list(sweep(tiny_pipeline, one)))
    assert [(image.min_tokens, image.max_tokens) for image in found] == held
    assert all(image.num_tokens <= image.max_tokens for image in found)
    assert swept.conditions.limits == one.limits


def test_a_stopped_sweep_keeps_what_is_done(tiny_pipeline: VlmPipeline, plan: SweepPlan) -> None:
    events = sweep(tiny_pipeline, plan)
    measurements: list[SweepMeasurement] = []
    for event in events:
        if isinstance(event, SweepMeasurement):
            measurements.append(event)
        if len(measurements) == 5:
            break
    events.close()  # type: ignore[attr-defined]
    assert not tiny_pipeline.lock.locked()
    assert len(sweep_report(measurements).cells) == 5
    assert sweep_report([]).best_decode is None
    assert "Nothing was measured" in sweep_markdown(summed_up(tiny_pipeline, plan, []))


def test_two_sweeps_are_compared_with_what_else_differs(
    tiny_pipeline: VlmPipeline, plan: SweepPlan
) -> None:
    now = summed_up(tiny_pipeline, plan, list(sweep(tiny_pipeline, plan)))
    assert all(change.eagle_speed_ratio == 1 for change in sweep_changes(now, now))
    assert differing_sweeps(now, now) == ()
    conditions = replace(now.conditions, base="another", questions=("2", "5"), max_new_tokens=9)
    cells = replace(now.report, cells=now.report.cells[3:])
    before = replace(now, conditions=conditions, report=cells)
    changes = sweep_changes(before, now)
    assert changes[0].name == "depth 3, top-k 4, 4 verified tokens, 4 image tokens"
    assert len(changes) == len(now.report.cells) - 3
    assert differing_sweeps(before, now) == (
        "base: another before, base now.",
        "max_new_tokens: 9 before, 6 now.",
        "questions: 1 in both sweeps, 2 in one only.",
    )


def test_what_is_refused_is_skipped_with_its_reason(
    tiny_pipeline: VlmPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One question that was too long ended the whole sweep. Nor may it take the warm-up."""
    warmed: list[int] = []
    monkeypatch.setattr("vlm.sweep.warm_up", lambda *_: warmed.append(1))
    questions = tuple(
        Question(n, "talk", (t,)) for n, t in (("1", "x" * 400), ("2", "b"), ("3", "c"))
    )
    plan = SweepPlan(questions, (2,), (2,), (4, 5), image_tokens=(4, 20), max_new_tokens=4)
    events = list(sweep(tiny_pipeline, plan))
    skipped = tuple(event for event in events if isinstance(event, SweepSkipped))
    assert [(item.question, item.image_tokens) for item in skipped] == [("1", 4), ("1", 20)]
    measured = [event for event in events if isinstance(event, SweepMeasurement)]
    assert [item.question for item in measured] == ["2"] * 4 + ["3"] * 4
    done = [event.num_done for event in events if isinstance(event, SweepProgress)]
    assert (done[0], done[-1]) == (8, plan.num_runs - 1)
    assert warmed == [1]
    swept = summed_up(tiny_pipeline, plan, events)
    assert swept.skipped == skipped
    assert "Skipped 1, 20 image tokens: The prompt has" in sweep_markdown(swept)
    assert parse_sweep(sweep_json(swept), "s.json") == swept


def test_an_error_keeps_what_is_measured_and_its_own_status(
    pair: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(pipeline: VlmPipeline, plan: SweepPlan) -> Iterator[SweepEvent]:
        for event in sweep(pipeline, plan):
            yield event
            if isinstance(event, SweepMeasurement):
                raise VlmError("The device is lost.")

    monkeypatch.setattr("vlm.bench_command.sweep", failing)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    argv = ["bench", "--base", pair[0], "--draft", pair[1], "--max-new-tokens", "6", *options]
    assert main([*argv, "--sweep-tree-sizes", "4,8", "--out", str(tmp_path / "s.json")]) == 2
    swept = parse_sweep((tmp_path / "s.json").read_text(encoding="utf-8"), "s.json")
    assert (len(swept.report.cells), swept.is_complete) == (1, False)
    assert "The device is lost." in capsys.readouterr().err


def test_from_the_shell(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    argv = ["bench", "--base", pair[0], "--draft", pair[1], "--max-new-tokens", "6", *options]
    argv += ["--limit", "1", "--sweep-tree-sizes", "4,8", "--out", str(tmp_path / "s.json")]
    assert main(argv) == 0
    assert "Fastest decoding: `--draft-step 4" in capsys.readouterr().out
    text = (tmp_path / "s.json").read_text(encoding="utf-8")
    swept = parse_sweep(text, "s.json")
    assert sweep_json(swept) == text
    conditions = swept.conditions
    assert (conditions.base, conditions.draft, conditions.questions) == ("base", "draft", ("1",))
    assert conditions.limits.max_image_tokens_per_image == 30
    with pytest.raises(ConfigError, match=r"s\.json cannot be read as a sweep"):
        parse_sweep(text.replace("mean_acceptance_length", "length"), "s.json")
    with pytest.raises(ConfigError, match=r"sweep/1, and this version reads eagleeye.sweep/2"):
        parse_sweep(text.replace("sweep/2", "sweep/1"), "s.json")
    assert main([*argv, "--repeats", "2"]) == 2
    assert "takes no --against" in capsys.readouterr().err
