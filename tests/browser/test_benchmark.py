"""The Benchmark page: from Run to the saved file, an earlier file beside it, a sweep."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import NARROW, OpenPage
from vlm.bench_files import read_report, to_csv, to_json, to_markdown
from vlm.sweep_files import parse_sweep

MEASURED_MILLISECONDS = 60_000
CATEGORIES = ("picture", "picture talk", "explain", "story", "list", "rewrite", "reckon", "chat")


def benchmark(page: Page, *, leaving_out: tuple[str, ...] = CATEGORIES) -> Page:
    """The page with the categories that are wanted; of the bundled set, only "code" by default."""
    page.get_by_role("button", name="Benchmark", exact=True).click()
    for name in leaving_out:
        page.get_by_role("checkbox", name=re.compile(rf"^{name} \(")).uncheck()
    return page


def run(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".ee-bench:not([data-phase=done])")).to_be_visible()


def finished(page: Page, phase: str = "done") -> None:
    shown = page.locator(f".ee-bench[data-phase={phase}]")
    expect(shown).to_be_visible(timeout=MEASURED_MILLISECONDS)


def row(page: Page, name: str) -> Locator:
    return page.locator(".ee-bench-now .ee-table").get_by_role("row", name=re.compile(f"^{name} "))


def save(page: Page, form: str, path: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Save {form}").click()
    download.value.save_as(path)
    return path


def load(page: Page, path: Path) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Load an earlier JSON").click()
    chooser.value.set_files(path)


def test_categories_fill_the_table_and_are_saved(
    open_page: OpenPage, scripted_server: str, tmp_path: Path
) -> None:
    page = benchmark(open_page(scripted_server), leaving_out=CATEGORIES[:3] + CATEGORIES[4:])
    run(page)
    expect(page.locator(".ee-bench-phase")).to_contain_text("of 5")
    expect(page.locator(".ee-bench-writing")).to_contain_text("is writing")
    expect(row(page, "story")).to_be_visible(timeout=MEASURED_MILLISECONDS)
    finished(page)
    expect(row(page, "all")).to_contain_text("5/5")
    assert page.locator(".ee-bench-now thead th").all_text_contents() == [
        "",
        "tokens",
        "tok/s base",
        "tok/s EAGLE-3",
        "\u00d7",
        "\u00d7 end to end",
        "tokens a step",
        "by position",
        "first token, ms",
        "per token, ms",
        "identical",
    ]
    assert row(page, "code").get_by_role("cell").first.inner_text() == "130"
    expect(page.locator(".ee-bench-facts")).to_contain_text("tiny-base")
    expect(page.locator(".ee-bench [role=status]")).to_have_text(
        "Finished. 5 of 5 answers identical."
    )
    report = read_report(save(page, "JSON", tmp_path / "r.json"))
    assert [group.name for group in report.groups] == ["story", "code", "all"]
    for form, text in (
        ("JSON", to_json(report)),
        ("CSV", to_csv(report)),
        ("Markdown", to_markdown(report)),
    ):
        assert save(page, form, tmp_path / form).read_bytes() == text.encode()


def test_escape_stops_midway_and_what_is_done_is_kept(
    open_page: OpenPage, scripted_server: str, tmp_path: Path
) -> None:
    page = benchmark(open_page(scripted_server), leaving_out=())
    run(page)
    expect(row(page, "picture")).to_be_visible(timeout=MEASURED_MILLISECONDS)
    expect(page.locator(".ee-bench-left")).to_contain_text("left")
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    finished(page, "stopped")
    expect(page.locator(".ee-bench-phase")).to_contain_text("what was measured until here is kept")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_focused()
    report = read_report(save(page, "JSON", tmp_path / "r.json"))
    assert not report.is_complete
    assert 1 <= len(report.rows) < 28
    run(page)  # the engine is free
    expect(page.locator(".ee-bench-phase")).to_contain_text("Race 1 of 28")
    page.get_by_role("button", name="Stop", exact=True).click()
    finished(page, "stopped")


def test_an_earlier_file_stands_beside_with_ratios(
    open_page: OpenPage, scripted_server: str, tmp_path: Path
) -> None:
    page = benchmark(open_page(scripted_server))
    run(page)
    finished(page)
    earlier = save(page, "JSON", tmp_path / "before.json")
    other = benchmark(open_page(scripted_server))
    load(other, earlier)
    beside = other.locator(".ee-bench-earlier")
    expect(beside).to_contain_text("Earlier: before.json")
    expect(beside.get_by_role("row", name=re.compile("^all "))).to_contain_text("2/2")
    expect(other.locator(".ee-bench-changes")).to_be_hidden()
    run(other)
    finished(other)
    changes = other.locator(".ee-bench-changes .ee-table")
    expect(changes.get_by_role("columnheader").nth(1)).to_have_text("base, now \u00f7 before")
    ratio = changes.get_by_role("row", name=re.compile("^code ")).get_by_role("cell").first
    assert 0.5 < float(ratio.inner_text()) < 2
    other.get_by_role("button", name="Put it away").click()
    expect(beside).to_be_hidden()
    expect(other.locator(".ee-bench-changes")).to_be_hidden()
    expect(row(other, "all")).to_be_visible()


def test_what_cannot_be_used_is_a_sentence(
    open_page: OpenPage, scripted_server: str, tmp_path: Path
) -> None:
    page = benchmark(open_page(scripted_server), leaving_out=())
    notice = page.locator("#ee-bench-notice")
    page.get_by_label("Repeats").fill("0")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(notice).to_contain_text("Repeats must be at least 1, got 0.")
    page.get_by_label("Repeats").fill("1")
    report = tmp_path / "hostile.json"
    report.write_text('{"format": "<img src=x onerror=alert(1)>"}', encoding="utf-8")
    load(page, report)
    expect(notice).to_contain_text("hostile.json has the form <img src=x")
    page.get_by_label("My own").check()
    questions = tmp_path / "question.jsonl"
    questions.write_text('{"turns": ["Hello"]}\n{"turn": ["Hello"]}\n', encoding="utf-8")
    page.locator("#ee-bench-files input[type=file]").set_input_files(questions)
    expect(page.locator("#ee-bench-files")).to_contain_text("question")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(notice).to_contain_text("question.jsonl, line 2 cannot be read as a question")
    expect(page.locator(".ee-bench[data-phase=idle]")).to_be_visible()


def test_own_questions_with_pictures_and_what_was_skipped(
    open_page: OpenPage, scripted_server: str, tmp_path: Path, picture: Path
) -> None:
    page = benchmark(open_page(scripted_server), leaving_out=())
    page.get_by_label("My own").check()
    questions = tmp_path / "question.jsonl"
    lines = [
        {"question_id": "first", "category": "<b>mine", "turns": ["Hello", "And?"]},
        {"question_id": "seen", "category": "seen", "turns": ["What?"], "images": [picture.name]},
        {"question_id": "never", "category": "seen", "turns": ["Refuse this"]},
    ]
    questions.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    page.locator("#ee-bench-files input[type=file]").set_input_files([questions, picture])
    expect(page.locator("#ee-bench-files")).to_contain_text("disc")
    run(page)
    finished(page)
    expect(row(page, "<b>mine")).to_contain_text("2/2")
    expect(row(page, "seen")).to_contain_text("1/1")
    skipped = page.locator(".ee-bench-skipped")
    expect(skipped).to_have_text("Question never, turn 1: The prompt is too long: at most 200 fit.")


def test_a_sweep_is_a_heat_map_for_the_keyboard_too(
    open_page: OpenPage, scripted_server: str, tmp_path: Path
) -> None:
    page = benchmark(open_page(scripted_server))
    page.get_by_label("Sweep of settings").check()
    expect(page.get_by_label("Repeats")).to_be_hidden()
    page.get_by_label("Image tokens a picture").fill("16, 64")
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("At most, all pictures").fill("600")
    page.get_by_role("button", name="Close", exact=True).click()
    run(page)
    finished(page)
    maps = page.get_by_role("grid")
    expect(maps).to_have_count(2)
    expect(maps.first.get_by_role("row")).to_have_count(5)  # two depths by two top-k, and the head
    best = maps.first.locator(".ee-heat-best")
    expect(best).to_contain_text("\u00d71.38")  # 4 nodes, top-k 4
    expect(best).to_contain_text("best")
    expect(page.locator(".ee-heat-bests")).to_contain_text(
        "--draft-step 2 --draft-top-k 4 --verify-tree-size 4 --max-image-tokens-per-image 16"
    )
    best.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".ee-heat-words")).to_contain_text(
        "depth 2, top-k 4, 8 verified tokens, 16 image tokens: decoding \u00d71.18"
    )
    page.keyboard.press("ArrowUp")
    expect(page.locator(".ee-heat-words")).to_contain_text("no such tree")
    page.get_by_role("button", name="Question to end").click()
    expect(maps.first.locator(".ee-heat-best")).to_contain_text("53.2 tok/s")
    saved = save(page, "JSON", tmp_path / "sweep.json")
    swept = parse_sweep(saved.read_text(encoding="utf-8"), "sweep.json")
    assert len(swept.report.cells) == 2 * 9  # of twelve trees, three cannot be drafted
    assert swept.conditions.limits.max_image_tokens == 600
    expect(page.get_by_role("button", name="Save CSV")).to_be_hidden()
    load(page, saved)
    expect(maps).to_have_count(4)
    expect(maps.first.locator(".ee-heat-best")).to_contain_text("was 53.2 tok/s, \u00f7 1.00")


def test_quarters_that_round_to_one_figure_are_left_out(
    open_page: OpenPage, scripted_server: str
) -> None:
    """The table said "25.3 to 25.3" under 25.3 where a category had a single answer."""
    page = open_page(scripted_server)
    alike, apart = ({"p25": 25.31, "median": 25.33, "p75": high} for high in (25.34, 25.36))
    assert page.evaluate("(spread) => EagleEye.range(spread, 1)", alike) == ""
    assert page.evaluate("(spread) => EagleEye.range(spread, 1)", apart) == "25.3 to 25.4"


def test_two_visitors_measure_one_after_the_other(
    open_page: OpenPage, scripted_server: str
) -> None:
    first = benchmark(open_page(scripted_server), leaving_out=())
    second = benchmark(open_page(scripted_server))
    run(first)
    expect(first.locator(".ee-bench[data-phase=running]")).to_be_visible()
    run(second)
    expect(second.locator(".ee-bench-phase")).to_have_text("Waiting for the engine: 1 before you")
    first.close()  # a closed tab frees the engine
    finished(second)
    expect(row(second, "all")).to_contain_text("2/2")


def test_the_page_fits_a_narrow_screen(open_page: OpenPage, scripted_server: str) -> None:
    page = benchmark(open_page(scripted_server, viewport=NARROW))
    run(page)
    finished(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    expect(row(page, "code")).to_contain_text("2/2")
    page.get_by_label("Sweep of settings").check()
    page.get_by_label("Verified tokens").fill("4,6,8,10")
    run(page)
    finished(page)
    expect(page.get_by_role("grid")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_every_control_has_a_name(
    open_page: OpenPage, scripted_server: str, tmp_path: Path
) -> None:
    page = benchmark(open_page(scripted_server))
    run(page)
    finished(page)
    load(page, save(page, "JSON", tmp_path / "r.json"))
    expect(page.locator(".ee-bench-earlier")).to_be_visible()
    page.get_by_label("My own").check()
    page.get_by_label("Sweep of settings").check()
    snapshot = page.locator("#ee-bench").aria_snapshot()
    control = r"- (button|textbox|spinbutton|radio|checkbox|group|progressbar|table)"
    nameless = [
        line
        for line in snapshot.splitlines()
        if re.match(rf"\s*{control}", line) and not re.match(rf'\s*{control} "', line)
    ]
    assert nameless == []


def test_the_bundled_pair_is_measured(
    open_page: OpenPage, real_server: str, tmp_path: Path
) -> None:
    """Four answers of eight tokens by the real models, twice a question."""
    page = benchmark(open_page(real_server))
    page.get_by_role("checkbox", name="picture (4)").check()
    page.get_by_label("Questions a category").fill("1")
    page.get_by_label("Longest answer").fill("8")
    run(page)
    finished(page)
    report = read_report(save(page, "JSON", tmp_path / "r.json"))
    assert [(row.category, row.base.num_tokens) for row in report.rows] == [
        ("picture", 8),
        ("code", 8),
    ]
    assert all(row.verdict.kind in ("identical", "tie") for row in report.rows)
    assert report.rows[0].num_image_tokens > 0
