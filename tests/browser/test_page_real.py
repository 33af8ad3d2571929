"""Compare, the linked views, a sweep and visitors who leave, over the bundled models."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.actions import answers, ask, bars, panel_figure, wait_for_answer
from tests.browser.conftest import OpenPage
from tests.browser.test_benchmark import CATEGORIES, benchmark
from vlm.sweep_files import parse_sweep
from vlm.trace import Trace, read_traces
from vlm.trace_check import check_trace

MINUTE = 60_000
NUM_TOKENS = 40
LEFT_SECONDS = 5


def shortened(page: Page) -> Page:
    """A page whose answers have `NUM_TOKENS` tokens: the server's own never end by themselves."""
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_label("Max new tokens").fill(str(NUM_TOKENS))
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    return page


def saved_traces(page: Page, button: str, path: Path) -> tuple[Trace, ...]:
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    download.value.save_as(path)
    traces = read_traces(path)
    for trace in traces:
        assert not check_trace(trace)
    return traces


def race(page: Page, question: str) -> None:
    page.get_by_role("button", name="Compare", exact=True).click()
    box = page.locator("#ee-compare-composer textarea")
    box.fill(question)
    box.press("Enter")


def test_seams_bars_tree_and_the_saved_trace_tell_the_same(
    open_page: OpenPage, real_server: str, tmp_path: Path
) -> None:
    page = shortened(open_page(real_server))
    page.evaluate("document.querySelector('.ee-panel').dataset.mark = 'same'")
    ask(page, "Tell me about eagles.")
    wait_for_answer(page)
    (trace,) = saved_traces(page, "Save trace", tmp_path / "answer.jsonl")
    assert len(trace.token_ids) == NUM_TOKENS
    assert answers(page).first.inner_text().split() == trace.end.text.split()
    expect(bars(page)).to_have_count(len(trace.steps))
    per_step = trace.end.summary.mean_acceptance_length
    expect(panel_figure(page, "per_step")).to_have_text(f"{per_step:.2f}")
    page.get_by_role("button", name="Tokens", exact=True).click()
    seams = page.locator("#ee-chat .ee-answer-view .ee-step")
    expect(seams).to_have_count(len(trace.steps))
    chosen = next(step for step in trace.steps if step.tree is not None)
    seams.nth(chosen.index).click()
    expect(page.locator(".ee-panel .ee-bar.ee-chosen")).to_have_attribute(
        "data-step", str(chosen.index)
    )
    assert chosen.tree is not None
    nodes = page.locator(".ee-inspector .ee-node-accepted")
    expect(nodes).to_have_count(chosen.num_accepted)
    expect(page.locator(".ee-panel[data-mark=same]")).to_have_count(1)


def test_a_race_of_the_bundled_pair_is_identical(
    open_page: OpenPage, real_server: str, tmp_path: Path
) -> None:
    page = shortened(open_page(real_server))
    race(page, "Why is the sky blue?")
    expect(page.locator(".ee-race[data-phase=done]")).to_be_visible(timeout=MINUTE)
    expect(page.locator("[data-figure=verdict]")).to_have_text(
        f"IDENTICAL {NUM_TOKENS}/{NUM_TOKENS}"
    )
    base, eagle = saved_traces(page, "Save both traces", tmp_path / "race.jsonl")
    assert (base.run.mode, eagle.run.mode) == ("base", "eagle")
    assert base.token_ids == eagle.token_ids
    expect(page.locator(".ee-race .ee-lane").nth(1).locator(".ee-bar")).to_have_count(
        len(eagle.steps)
    )
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the replay").click()
    path = tmp_path / "race.html"
    download.value.save_as(path)
    assert "IDENTICAL" in path.read_text(encoding="utf-8")
    assert eagle.run.id in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("left_behind", ["answer", "race"])
def test_who_closes_the_tab_leaves_the_engine_to_the_next(
    open_page: OpenPage, real_server: str, left_behind: str
) -> None:
    """What is left behind would go on for 600 tokens, a race for twice as many: the bundled pair
    writes fewer than 100 a second."""
    leaving, next_one = open_page(real_server), open_page(real_server)
    if left_behind == "answer":
        ask(leaving, "Tell me about rivers.")
    else:
        race(leaving, "Tell me about rivers.")
    expect(bars(leaving).nth(3)).to_be_attached(timeout=MINUTE)
    leaving.close()
    closed = time.monotonic()
    ask(next_one, "Tell me about clouds.")
    expect(bars(next_one).nth(2)).to_be_attached(timeout=MINUTE)
    assert time.monotonic() - closed < LEFT_SECONDS
    next_one.get_by_role("button", name="Stop", exact=True).click()
    wait_for_answer(next_one)


def test_a_small_sweep_of_the_bundled_pair(
    open_page: OpenPage, real_server: str, tmp_path: Path
) -> None:
    page = open_page(real_server)
    benchmark(page, leaving_out=CATEGORIES)
    page.get_by_label("Sweep of settings").check()
    for label, value in (
        ("Questions a category", "1"),
        ("Longest answer", "12"),
        ("Depth", "2"),
        ("Top-k", "2"),
        ("Verified tokens", "3, 4"),
    ):
        page.locator("#ee-bench").get_by_label(label).fill(value)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".ee-bench[data-phase=done]")).to_be_visible(timeout=2 * MINUTE)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save JSON").click()
    path = tmp_path / "sweep.json"
    download.value.save_as(path)
    swept = parse_sweep(path.read_text(encoding="utf-8"), path.name)
    assert len(swept.report.cells) == 2
    expect(page.locator(".ee-heat-best")).to_contain_text("best")
