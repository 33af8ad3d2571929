"""The kiosk as a booth has it: `python app.py --kiosk`, the bundled pair, a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, Server
from tests.browser.kiosk_actions import (
    PIN,
    choose_card,
    expect_state,
    figures,
    leave,
    press,
    touch,
    wait_until_nobody_is_here,
    words,
)

ANSWER_MILLISECONDS = 60_000
RELOAD_MILLISECONDS = 120_000


@pytest.fixture(scope="module")
def real_kiosk() -> Iterator[str]:
    server = Server(["app.py", "--port", "0", "--kiosk", "--kiosk-pin", PIN])
    yield server.url
    server.stop()


def test_a_card_is_answered_and_raced_by_the_bundled_pair(
    open_kiosk: OpenPage, real_kiosk: str
) -> None:
    page = open_kiosk(real_kiosk, permissions=["camera"])
    touch(page)
    choose_card(page)
    expect_state(page, "read", ANSWER_MILLISECONDS)
    expect(words(page)).to_contain_text("lion")
    press(page, "Race it")
    expect_state(page, "read", ANSWER_MILLISECONDS)
    tokens = page.locator("#answer .ee-tokens [data-ids]").evaluate_all(
        "(all) => all.flatMap((one) => one.dataset.ids.split(' ')).length"
    )
    verdict = page.locator(".k-verdict")
    expect(verdict).to_contain_text("IDENTICAL")
    same, count = verdict.inner_text().split()[1].split("/")
    assert same == count
    # The last token, the end of the answer, has no text of its own.
    assert int(count) - 1 <= tokens <= int(count)
    leave(page)


def test_a_photo_from_the_camera_reaches_the_bundled_pair(
    open_kiosk: OpenPage, real_kiosk: str
) -> None:
    page = open_kiosk(real_kiosk, permissions=["camera"])
    touch(page)
    press(page, "Take a photo")
    press(page, "Take the photo")
    press(page, "What is this?")
    expect_state(page, "read", ANSWER_MILLISECONDS)
    expect(words(page)).not_to_be_empty()
    press(page, "Another picture")
    expect(page.get_by_role("heading", name="Pick a picture")).to_be_visible()
    leave(page)
    wait_until_nobody_is_here(page, real_kiosk)


def test_staff_restart_loads_the_engine_anew_while_attract_goes_on(
    open_kiosk: OpenPage, real_kiosk: str
) -> None:
    page = open_kiosk(real_kiosk)
    touch(page)
    assert page.request.post(f"{real_kiosk}/kiosk/staff/restart", data={"pin": PIN}).ok
    expect_state(page, "attract", 15_000)
    expect(page.locator(".k-sign")).to_have_text("Reconnecting", timeout=10_000)
    expect(page.locator(".k-sign")).to_be_empty(timeout=RELOAD_MILLISECONDS)
    assert figures(page.request, real_kiosk)["is_ready"]
    touch(page)
    choose_card(page)
    expect_state(page, "read", ANSWER_MILLISECONDS)
    expect(words(page)).to_contain_text("lion")
