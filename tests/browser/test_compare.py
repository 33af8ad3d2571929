"""Races that do not end as they should, and the orders in which they are run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.actions import add_picture, begin_race, race, save_replay, wait_for_race
from tests.browser.conftest import NARROW, WIDE, OpenPage

# Steps 0 to 3 of the script give 1 + 3 + 1 + 4 tokens; the draft's fourth step says other words.
NUM_SAME = 9
PARTED = "The first difference is marked: the base wrote “The␣”, EAGLE-3 wrote “picture␣”."


# Notes every place that the lanes have from a race's first step on, after its phase.
WATCH_LANES = """() => {
    window.places = new Set();
    const note = () => {
        const race = document.querySelector(".ee-race");
        const lanes = [...race.querySelectorAll(".ee-lane")];
        const tops = lanes.map((lane) => Math.round(lane.getBoundingClientRect().top));
        if (["running", "done"].includes(race.dataset.phase))
            window.places.add(`${race.dataset.phase} ${tops.join(" ")}`);
        requestAnimationFrame(note);
    };
    note();
}"""


def parted_words(page: Page) -> list[str]:
    """What is marked in the two lanes, once both are shown whole."""
    slider = page.get_by_label("Moment of the replay")
    slider.fill(slider.get_attribute("max") or "")
    return page.locator(".ee-lane .ee-parting").all_text_contents()


@pytest.mark.parametrize(
    ("word", "verdict", "sentence"),
    [
        ("Tie", "differs at 10", "Same for 9/65 tokens, then a tie"),
        ("Fault", "differs at 10", "DIFFERENT after 9/65 tokens"),
        ("Sample", "sampled", "Same for 9/65 tokens, then other words: with sampling on"),
    ],
)
def test_texts_that_differ_are_marked_where_they_part(
    open_page: OpenPage, scripted_server: str, word: str, verdict: str, sentence: str
) -> None:
    page = open_page(scripted_server)
    race(page, word)
    expect(page.locator("[data-figure=verdict]")).to_have_text(verdict)
    expect(page.locator(".ee-race .ee-result")).to_contain_text(sentence)
    expect(page.locator(".ee-difference")).to_have_text(PARTED)
    assert parted_words(page) == ["The ", "picture "]
    race(page, "Hello")  # the mark goes with its race
    expect(page.locator(".ee-difference")).to_be_hidden()
    assert parted_words(page) == []


def test_a_saved_replay_has_the_mark_too(
    open_page: OpenPage, scripted_server: str, tmp_path: Path
) -> None:
    page = open_page(scripted_server)
    race(page, "Fault")
    saved = save_replay(page, tmp_path / "race.html")
    assert page.context.browser is not None
    alone = page.context.browser.new_page()
    alone.goto(saved.as_uri())
    expect(alone.locator(".ee-difference")).to_have_text(PARTED)
    assert parted_words(alone) == ["The ", "picture "]
    alone.close()


def test_with_sampling_on_it_says_why_texts_may_differ(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server)
    line = page.locator(".ee-race-sampling")
    race(page, "Hello")
    expect(line).to_be_hidden()
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_role("spinbutton", name="Temperature").fill("0.8")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Close", exact=True).click()
    begin_race(page, "Hello")
    expect(line).to_contain_text("with the same seed")
    wait_for_race(page)
    expect(line).to_be_visible()  # the same words this time, and why they might not be
    race(page, "Sample")
    expect(line).to_be_hidden()  # the verdict tells


def test_time_that_the_draft_costs_is_lost(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    race(page, "Losing")
    figure = page.locator("[data-figure=saved]")
    expect(figure.locator("..")).to_have_text(re.compile(r"^lost\s*1\.\d\d s$"))
    expect(page.locator(".ee-race .ee-result")).to_contain_text(re.compile(r"1\.\d\d s lost\."))
    assert float(page.locator("[data-figure=decode]").inner_text().removeprefix("\u00d7")) < 1


def test_eagle_first_keeps_the_lanes_in_their_places(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server)
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_label("EAGLE-3 first").check()
    begin_race(page, "Hello")
    phase = page.locator(".ee-race-phase")
    expect(phase).to_have_text("Measuring base + EAGLE-3, run 1 of 2")
    expect(phase).to_have_text("Measuring the base alone, run 2 of 2")
    wait_for_race(page)
    assert parted_words(page) == []
    base, eagle = page.locator(".ee-race .ee-lane").all()
    expect(base.locator("h3")).to_have_text("Base alone")
    expect(base.locator(".ee-bar")).to_have_count(65)
    expect(eagle.locator(".ee-bar")).to_have_count(21)


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_lanes_keep_their_place_when_a_race_ends(
    open_page: OpenPage, scripted_server: str, picture: Path, viewport: dict[str, int]
) -> None:
    """The result and the picture in the composer pushed them down by more than 200 pixels, so that
    the reader lost his place."""
    page = open_page(scripted_server, viewport=viewport)
    page.get_by_role("button", name="Compare", exact=True).click()
    add_picture(page, picture, "#ee-compare-composer")
    page.evaluate(WATCH_LANES)
    race(page, "What is this?")
    page.wait_for_timeout(300)  # what comes after the result would be seen too
    places = [place.split() for place in page.evaluate("[...window.places]")]
    assert {phase for phase, *_ in places} == {"running", "done"}
    for tops in zip(*(map(int, tops) for _, *tops in places), strict=True):
        assert max(tops) - min(tops) <= 4, places


def test_both_twice_says_which_runs_are_shown(
    open_page: OpenPage, scripted_server: str, tmp_path: Path
) -> None:
    """While the last two ran, nothing on the page moved."""
    page = open_page(scripted_server)
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_label("both twice, medians").check()
    begin_race(page, "Hello")
    expect(page.locator(".ee-race-phase")).to_have_text(
        "Measuring the base alone, run 4 of 4; shown are the first two", timeout=20_000
    )
    wait_for_race(page)
    names = ["Base alonefirst of two runs", "Base + EAGLE-3first of two runs"]
    expect(page.locator(".ee-race .ee-lane h3")).to_have_text(names)
    saved = save_replay(page, tmp_path / "race.html")
    assert page.context.browser is not None
    alone = page.context.browser.new_page()
    alone.goto(saved.as_uri())
    expect(alone.locator(".ee-lane h3")).to_have_text(names)
    alone.close()


def test_an_answer_that_ends_early_is_said_to_have_ended(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server)
    found = page.evaluate(
        """() => {
            const trace = (...pieces) => new EagleEye.Trace([{
                type: "step", index: 0, token_ids: pieces.map((_, at) => at), pieces,
                num_accepted: 0,
            }]);
            return [
                EagleEye.difference(trace("a", "b"), trace("a")).sentence,
                EagleEye.difference(trace("a"), trace("a", "b")).sentence,
                EagleEye.difference(trace("a", "b"), trace("a", "b")),
            ];
        }"""
    )
    assert found == [
        "The first difference is marked: the base wrote “b”, EAGLE-3 had ended.",
        "The first difference is marked: the base had ended, EAGLE-3 wrote “b”.",
        None,
    ]
