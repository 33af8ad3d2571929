"""The views of a run: tokens, steps, bars, tree, figures; and the race of two runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.actions import add_picture, ask, bars, race, wait_for_answer, wait_for_race
from tests.browser.conftest import NARROW, OpenPage
from vlm.trace import read_traces

SHOWN = "[...document.querySelectorAll('#ee-chat .ee-answer-view .ee-step')]"


@pytest.fixture
def answered(open_page: OpenPage, scripted_server: str) -> Page:
    """A page with one answer of 21 steps, the second with two draft tokens accepted."""
    page = open_page(scripted_server)
    ask(page, "What is this?")
    wait_for_answer(page)
    return page


def view(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_the_answer_by_tokens_is_the_same_text_with_seams(answered: Page) -> None:
    text = answered.locator("#ee-chat [data-testid=bot]").first.inner_text()
    view(answered, "Tokens")
    steps = answered.locator("#ee-chat .ee-answer-view .ee-step")
    expect(steps).to_have_count(21)
    assert "".join(steps.all_text_contents()).split() == text.replace("red", "**red**").split()
    second = steps.nth(1)
    expect(second.locator(".ee-token-draft")).to_have_count(2)
    expect(second.locator(".ee-token-base")).to_have_count(1)
    decorations = [
        second.locator(f".ee-token-{kind}").first.evaluate(
            "node => getComputedStyle(node).textDecorationStyle"
        )
        for kind in ("draft", "base")
    ]
    assert decorations == ["solid", "dotted"]  # told apart without colour
    expect(answered.locator("#ee-chat [data-testid=bot]").first).to_be_hidden()
    view(answered, "Text")
    expect(answered.locator("#ee-chat [data-testid=bot]").first).to_be_visible()


def test_seam_bar_and_tree_are_linked_and_arrow_keys_walk(answered: Page) -> None:
    view(answered, "Tokens")
    steps = answered.locator("#ee-chat .ee-answer-view .ee-step")
    title = answered.locator(".ee-inspector h3")
    bars(answered).nth(3).click()
    expect(steps.nth(3)).to_have_class("ee-step ee-chosen")
    expect(title).to_have_text("Step 3 of 20")
    expect(answered.locator(".ee-inspector .ee-node-accepted")).to_have_count(3)
    steps.nth(2).click()
    expect(bars(answered).nth(2)).to_have_class("ee-bar ee-chosen")
    expect(title).to_have_text("Step 2 of 20")
    answered.locator(".ee-tokens").first.focus()
    answered.keyboard.press("ArrowRight")
    answered.keyboard.press("ArrowRight")
    expect(title).to_have_text("Step 4 of 20")
    expect(answered.locator(".ee-panel .ee-bars")).to_have_attribute(
        "aria-valuetext", "Step 4 of 20: 5 tokens, 4 of them from the draft"
    )
    answered.get_by_role("button", name="Step before").click()
    expect(title).to_have_text("Step 3 of 20")


def test_refused_proposals_are_ghosts_of_the_chosen_step(answered: Page) -> None:
    view(answered, "Tokens")
    ghosts = answered.locator("#ee-chat .ee-answer-view .ee-ghost")
    expect(ghosts).to_have_count(0)
    bars(answered).nth(1).click()  # two of seven proposed tokens were accepted
    expect(ghosts).to_have_count(5)
    bars(answered).nth(4).click()
    expect(ghosts).to_have_count(3)


def test_the_tree_tells_what_the_base_chose_instead(answered: Page) -> None:
    bars(answered).nth(1).click()
    tree = answered.locator(".ee-inspector .ee-tree")
    expect(tree.locator(".ee-node-root")).to_have_count(1)
    expect(tree.locator(".ee-node-accepted")).to_have_count(2)
    expect(tree.locator(".ee-node-failed")).to_have_count(1)
    expect(tree.locator(".ee-node-refused")).to_have_count(4)
    expect(tree.locator(".ee-node-target")).to_contain_text("base 70 %")
    expect(tree.locator(".ee-tree-sentence")).to_contain_text("7 tokens proposed, 2 accepted")
    expect(tree.locator(".ee-tree-sentence")).to_contain_text("the draft's number 2 there")
    answered.get_by_role("button", name="Enlarge the tree").click()
    expect(answered.locator("dialog.ee-enlarged .ee-node")).to_have_count(9)
    answered.keyboard.press("Escape")
    expect(answered.locator("dialog.ee-enlarged")).to_be_hidden()


def test_charts_show_their_formula_on_focus(answered: Page) -> None:
    row = answered.locator("[data-view=positions] .ee-row").first
    expect(row).to_contain_text("0.80")
    row.focus()
    note = answered.locator("[data-view=positions] .ee-note")
    expect(note).to_contain_text("16 of 20 steps kept the draft's token at position 1.")
    histogram = answered.locator("[data-view=histogram] .ee-row")
    assert sum(int(text.split()[-1]) for text in histogram.all_inner_texts()) == 20
    expect(answered.locator("[data-view=step_parts]")).to_contain_text("verify")
    expect(answered.locator("[data-view=prompt_parts]")).to_contain_text("vision")


def test_the_panel_says_whether_speculation_pays(answered: Page) -> None:
    payoff = answered.locator(".ee-payoff")
    expect(payoff).to_contain_text("times as fast as the base alone: a step gives 3.20 tokens")
    expect(payoff).not_to_have_attribute("data-loses", "")
    ask(answered, "Losing")  # nothing accepted, and every step takes several of the base's
    wait_for_answer(answered, 2)
    expect(payoff).to_have_attribute("data-loses", "")
    said = re.fullmatch(
        r"Speculation loses here, about (0\.\d\d) times the base's speed: "
        r"a step gives 1\.00 tokens and costs (\d+\.\d\d) passes of the base alone\.",
        payoff.inner_text(),
    )
    assert said is not None
    assert float(said[1]) == pytest.approx(1 / float(said[2]), abs=0.01)


def test_a_character_made_by_two_steps_loses_no_token(answered: Page) -> None:
    """A fragment at a step's end was dropped, and the step was empty."""
    view(answered, "Tokens")
    ask(answered, "Emoji")
    wait_for_answer(answered, 2)
    answered.get_by_role("button", name="Tokens", exact=True).last.click()
    steps = answered.locator("#ee-chat .ee-answer-view").last.locator(".ee-step")
    expect(steps).to_have_count(21)
    ids = steps.locator("[data-ids]").evaluate_all("(all) => all.map((one) => one.dataset.ids)")
    run = "[...EagleEye.runs.byNumber.values()].at(-1)"
    written = answered.evaluate(f"{run}.trace.steps.flatMap((step) => step.token_ids)")
    assert [int(number) for text in ids for number in text.split()] == written
    expect(steps.nth(2).locator(".ee-token-part")).to_have_attribute(
        "title", re.compile("part of a character")
    )
    expect(steps.nth(3)).to_contain_text("\N{EAGLE}")
    answered.get_by_role("button", name="Steps", exact=True).last.click()
    rows = answered.locator("#ee-chat .ee-step-list").last.locator("li")
    expect(rows.nth(2).locator(".ee-row-tokens .ee-token-part")).to_have_text("\u2205")


def test_alt_t_turns_the_view_also_of_answers_to_come(answered: Page) -> None:
    answered.keyboard.press("Alt+t")
    expect(answered.locator("#ee-chat .ee-answer-view .ee-step")).to_have_count(21)
    ask(answered, "And this?")
    wait_for_answer(answered, 2)
    assert answered.evaluate(f"{SHOWN}.length") == 42
    # An earlier answer brings its own run back into the panel.
    answered.locator("#ee-chat .ee-answer-view").first.locator(".ee-step").nth(5).click()
    expect(answered.locator(".ee-inspector h3")).to_have_text("Step 5 of 20")
    answered.keyboard.press("Alt+t")
    expect(answered.locator("#ee-chat .ee-step-list")).to_have_count(2)
    answered.keyboard.press("Alt+t")
    expect(answered.locator("#ee-chat .ee-answer-view").first).to_be_empty()


def test_a_trace_is_saved_and_read_back(answered: Page, tmp_path: Path) -> None:
    with answered.expect_download() as download:
        answered.get_by_role("button", name="Save trace").click()
    path = tmp_path / "trace.jsonl"
    download.value.save_as(path)
    (trace,) = read_traces(path)
    assert [step.num_accepted for step in trace.steps[1:4]] == [2, 0, 3]


def test_a_race_ends_with_its_verdict_and_plays_again(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server)
    race(page, "What is this?")
    expect(page.locator("[data-figure=verdict]")).to_have_text("IDENTICAL 65/65")
    decode = page.locator("[data-figure=decode]").inner_text()
    assert float(decode.removeprefix("\u00d7")) > 1.5  # 65 steps against 21 of the same length
    expect(page.locator(".ee-race .ee-result")).to_contain_text("A step with the draft gives")
    slider = page.get_by_label("Moment of the replay")
    end = float(slider.get_attribute("max") or 0)
    base, eagle = page.locator(".ee-race .ee-lane").all()
    # A third of the way the draft has said more; at the end both have said all.
    slider.fill(f"{end / 3:.3f}")
    at_third = [lane.locator(".ee-bar").count() for lane in (base, eagle)]
    words = [len(lane.locator(".ee-tokens").inner_text().split()) for lane in (base, eagle)]
    assert at_third[0] < 65
    assert words[0] < words[1]
    slider.fill(str(end))
    expect(base.locator(".ee-bar")).to_have_count(65)
    expect(eagle.locator(".ee-bar")).to_have_count(21)
    assert base.locator(".ee-tokens").inner_text() == eagle.locator(".ee-tokens").inner_text()
    page.get_by_role("button", name="\u00bc\u00d7").click()
    page.get_by_role("button", name="Play", exact=True).click()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    page.wait_for_timeout(400)
    assert 0 < float(slider.input_value()) < 0.3


def test_race_it_takes_the_question_of_an_answer_along(
    open_page: OpenPage, scripted_server: str, picture: Path
) -> None:
    page = open_page(scripted_server)
    add_picture(page, picture)
    ask(page, "What is this?")
    wait_for_answer(page)
    page.get_by_role("button", name="Race it").click()
    wait_for_race(page)
    expect(page.locator(".ee-race-question")).to_contain_text("What is this?")
    expect(page.locator(".ee-race-question img")).to_be_visible()
    expect(page.locator("#ee-compare-composer textarea")).to_have_value("What is this?")
    page.get_by_role("button", name="Chat", exact=True).click()
    expect(page.locator("#ee-chat .ee-figures")).to_be_visible()


def test_a_race_is_saved_as_traces_and_as_a_file_that_plays_offline(
    open_page: OpenPage, scripted_server: str, tmp_path: Path
) -> None:
    page = open_page(scripted_server)
    race(page, "What is this?")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save both traces").click()
    download.value.save_as(tmp_path / "race.jsonl")
    assert [trace.run.mode for trace in read_traces(tmp_path / "race.jsonl")] == ["base", "eagle"]
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the replay").click()
    saved = tmp_path / "race.html"
    download.value.save_as(saved)
    requests: list[str] = []
    assert page.context.browser is not None
    alone = page.context.browser.new_page()
    alone.on("request", lambda request: requests.append(request.url))
    alone.goto(saved.as_uri())
    expect(alone.locator(".ee-result")).to_contain_text("IDENTICAL 65/65")
    slider = alone.get_by_label("Moment of the replay")
    slider.fill(slider.get_attribute("max") or "")
    expect(alone.locator(".ee-lane").nth(1).locator(".ee-bar")).to_have_count(21)
    assert requests == [saved.as_uri()]
    alone.close()


def test_a_race_is_stopped(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    page.get_by_role("button", name="Compare", exact=True).click()
    page.locator("#ee-compare-composer textarea").fill("Long answer")
    page.locator("#ee-compare-composer textarea").press("Enter")
    expect(page.locator(".ee-race .ee-bar").nth(3)).to_be_attached()
    page.keyboard.press("Escape")
    expect(page.locator(".ee-race-phase")).to_contain_text("Stopped before both had answered")
    expect(page.locator("#ee-compare-composer textarea")).to_have_value("Long answer")


def test_a_tab_can_be_linked(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    page.goto(f"{scripted_server}/?__theme=dark&tab=compare")
    expect(page.locator("#ee-compare-composer textarea")).to_be_visible()
    page.keyboard.press("Alt+1")
    expect(page.locator("#ee-composer textarea")).to_be_visible()
    assert page.url.endswith("#chat")


def test_the_views_fit_a_narrow_screen(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server, viewport=NARROW)
    ask(page, "What is this?")
    wait_for_answer(page)
    view(page, "Tokens")
    race(page, "And this?")
    for tab in ("Chat", "Compare", "Learn"):
        page.get_by_role("button", name=tab, exact=True).click()
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_learn_takes_a_step_of_the_last_answer(answered: Page) -> None:
    answered.get_by_role("button", name="Learn", exact=True).click()
    story = answered.locator("#ee-learn")
    source = story.locator(".ee-learn-source")
    expect(source).to_contain_text("of a recorded answer")
    story.get_by_role("button", name="Next").click()
    story.get_by_role("button", name="Use a step of my last answer").click()
    # The first of the steps with most accepted and then one refused.
    expect(source).to_have_text(
        "Step 4 of your last answer: “What is this?”, answered by tiny-base."
    )
    expect(story.locator("h3")).to_contain_text("1 of 5")
    expect(story.locator(".ee-tokens .ee-step")).to_have_count(5)
    data = json.loads(story.locator(".ee-learn-stage").get_attribute("data-step") or "")
    assert data == {"index": 4, "num_accepted": 4}


def test_learn_offers_no_step_before_there_is_one(
    open_page: OpenPage, scripted_server: str
) -> None:
    page = open_page(scripted_server)
    page.get_by_role("button", name="Learn", exact=True).click()
    expect(page.locator("#ee-learn h3")).to_contain_text("1 of 5")
    expect(page.locator("#ee-learn [data-own]")).to_be_hidden()


def test_learn_forgets_a_conversation_that_is_gone(answered: Page) -> None:
    story = answered.locator("#ee-learn")
    own = story.locator("[data-own]")
    answered.get_by_role("button", name="Learn", exact=True).click()
    own.click()
    expect(story.locator(".ee-learn-source")).to_contain_text("of your last answer")
    answered.get_by_role("button", name="Chat", exact=True).click()
    answered.get_by_role("button", name="New chat").click()
    answered.get_by_role("button", name="Learn", exact=True).click()
    expect(story.locator(".ee-learn-source")).to_contain_text("of a recorded answer")
    expect(own).to_be_hidden()
    answered.get_by_role("button", name="Chat", exact=True).click()
    ask(answered, "And this?")
    wait_for_answer(answered)
    answered.get_by_role("button", name="Learn", exact=True).click()
    own.click()
    expect(story.locator(".ee-learn-source")).to_contain_text("“And this?”")


def test_learn_tells_one_step_in_five(open_page: OpenPage, scripted_server: str) -> None:
    page = open_page(scripted_server)
    page.get_by_role("button", name="Learn", exact=True).click()
    story = page.locator("#ee-learn")
    expect(story.locator("h3")).to_contain_text("1 of 5")
    for number in range(2, 6):
        story.get_by_role("button", name="Next").click()
        expect(story.locator("h3")).to_contain_text(f"{number} of 5")
    expect(story.get_by_role("button", name="Next")).to_be_disabled()
    data = json.loads(story.locator(".ee-learn-stage").get_attribute("data-step") or "")
    assert data["num_accepted"] >= 2
