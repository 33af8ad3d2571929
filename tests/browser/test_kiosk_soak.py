"""The soak of docs/kiosk.md with few visitors: what leaks with every visitor shows already."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.kiosk_soak import soak

FEW = 12
# A page, its first garbage and caches settle within few visitors, so memory may still move a bit.
SETTLING = 1.1


def test_nothing_of_one_visitor_reaches_the_next_and_nothing_piles_up(browser: Browser) -> None:
    memory = soak(browser, FEW, Path(__file__).parents[2] / "assets" / "examples").by_quarter()
    for name in ("server_kilobytes", "heap_kilobytes", "nodes"):
        ratio = memory[name]["last_by_second"]
        assert isinstance(ratio, float)
        assert ratio < SETTLING, memory
