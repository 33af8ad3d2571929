"""The kiosk's staff: figures, restart, the PIN."""

from __future__ import annotations

import json

import pytest

from tests.vlm.ui.kiosk_stand import PIN, Stand
from vlm.ui.examples import load_examples


def test_staff_see_figures_of_everybody_and_of_nobody(stand: Stand) -> None:
    stand.answer(stand.begin(), card=0)
    figures = stand.figures().json()
    assert (figures["visitors"], figures["answers"], figures["visits_under_way"]) == (1, 1, 1)
    # (2 + 0 + 4 + 3) accepted tokens in four steps, and the base's own of each.
    assert figures["mean_acceptance_length"] == 3.25
    assert load_examples()[0].question not in json.dumps(figures)


def test_staff_restart_the_engine_which_ends_all_visits(stand: Stand) -> None:
    visit = stand.begin()
    assert stand.client.post("/kiosk/staff/restart", json={"pin": PIN}).status_code == 204
    assert stand.num_renewals == 1
    assert stand.client.post(f"/kiosk/visits/{visit}/stop").status_code == 410


@pytest.mark.parametrize("pin", ["1111", "", None, 2468, ["2468"]])
def test_a_wrong_pin_opens_nothing(stand: Stand, pin: object) -> None:
    assert stand.figures(pin).status_code == 403
    assert stand.client.post("/kiosk/staff/restart", json={"pin": pin}).status_code == 403
    assert stand.num_renewals == 0


def test_after_five_wrong_pins_the_right_one_waits_too(stand: Stand) -> None:
    statuses = [stand.figures("0000").status_code for _ in range(5)]
    assert statuses == [403, 403, 403, 403, 429]
    assert stand.figures(PIN).status_code == 429


def test_without_a_pin_there_is_no_staff_panel() -> None:
    with Stand(pin=None) as stand:
        assert not stand.client.get("/kiosk/config").json()["has_staff"]
        for pin in (PIN, "", None):
            assert stand.figures(pin).status_code == 404
