"""From the values of the drawer to a request, or to one sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eagle.errors import EagleConfigError
from visual_encoder.errors import InvalidLimits
from vlm.config import Settings
from vlm.errors import ConfigError
from vlm.requests import ChatMessage
from vlm.ui.controls import Controls

SETTINGS = Settings(temperature=0.5, seed=7, max_new_tokens=99, ignore_eos=True)
MESSAGES = (ChatMessage("user", "Hello"),)


def test_the_drawer_starts_with_the_options_of_the_program() -> None:
    controls = Controls.from_settings(SETTINGS, has_draft=True)
    request = Controls.from_values(controls.values()).request(MESSAGES, SETTINGS)
    assert request.use_eagle
    assert request.sampling == SETTINGS.sampling
    assert request.limits == SETTINGS.limits
    assert request.max_new_tokens == 99
    assert request.ignore_eos
    assert not Controls.from_settings(SETTINGS, has_draft=False).use_eagle


def test_an_emptied_field_is_named() -> None:
    values: list[Any] = list(Controls.from_settings(SETTINGS, has_draft=True).values())
    values[5] = None
    with pytest.raises(ConfigError, match="“seed” is empty"):
        Controls.from_values(values)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"top_p": 0.0}, EagleConfigError),
        ({"temperature": -1.0}, EagleConfigError),
        ({"top_k": -1}, EagleConfigError),
        ({"max_new_tokens": 0}, ConfigError),
        ({"min_image_tokens": 600}, InvalidLimits),
        ({"max_image_tokens": 8}, InvalidLimits),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], error: type[Exception]) -> None:
    controls = replace(Controls.from_settings(SETTINGS, has_draft=True), **change)
    with pytest.raises(error):
        controls.request(MESSAGES, SETTINGS)
