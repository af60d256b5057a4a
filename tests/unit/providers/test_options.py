"""The `reminders` option of a loop."""

from typing import Any

import pytest

from sideband.core.errors import InvalidOption, UnknownOption
from sideband.providers.options import ReminderOptions, config_for, read_options


@pytest.mark.parametrize("options", [{}, {"reminders": None}, {"reminders": True}, {"reminders": {}}])
def test_nothing_special_is_the_default(options: dict[str, Any]) -> None:
    assert read_options(options) == ReminderOptions()


@pytest.mark.parametrize("given", [False, {"enabled": False}, {"enabled": False, "providers": ["x"]}])
def test_false_turns_everything_off(given: object) -> None:
    assert not read_options({"reminders": given}).enabled


def test_switches_are_trimmed_and_keep_their_order() -> None:
    options = {"reminders": {"providers": [" -token_pressure ", "mine"], "enabled": None, "config": None}}
    assert read_options(options) == ReminderOptions(switches=("-token_pressure", "mine"))


def test_each_provider_has_its_own_settings() -> None:
    options = {"reminders": {"config": {"idle_nudge": {"idle_seconds": 120}, "mine": None}}}
    assert config_for(options, "idle_nudge") == {"idle_seconds": 120}
    assert config_for(options, "mine") == {}
    assert config_for(options, "other") == {}
    assert config_for({}, "other") == {}


def test_the_settings_are_a_copy() -> None:
    settings = {"idle_seconds": 120}
    config_for({"reminders": {"config": {"idle_nudge": settings}}}, "idle_nudge").clear()
    assert settings == {"idle_seconds": 120}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param("off", "reminders must be True, False or a mapping, not 'off'", id="text"),
        pytest.param(0, "reminders must be", id="zero-is-not-false"),
        pytest.param(["-idle_nudge"], "reminders must be", id="a-list"),
        pytest.param({"enabled": "no"}, "reminders.enabled must be true or false, not 'no'", id="enabled-as-text"),
        pytest.param({"providers": "-idle_nudge"}, "reminders.providers must be a list", id="switches-as-text"),
        pytest.param({"providers": [3]}, "must be provider ids", id="a-switch-that-is-a-number"),
        pytest.param({"providers": [" "]}, "must be provider ids", id="a-blank-switch"),
        pytest.param({"providers": ["-"]}, "must be provider ids", id="a-switch-without-a-name"),
        pytest.param({"config": ["x"]}, "reminders.config must be a mapping", id="config-as-a-list"),
        pytest.param({"config": {"x": 3}}, "reminders.config.x must be a mapping, not 3", id="settings-as-a-number"),
        pytest.param({"config": {3: 3}}, "reminders.config.3 must be a mapping, not 3", id="settings-without-a-name"),
    ],
)
def test_an_unusable_option_is_refused(given: object, message: str) -> None:
    with pytest.raises(InvalidOption, match="HARN-RMD-001") as refused:
        read_options({"reminders": given})
    assert message in str(refused.value)
    assert str(refused.value.field).startswith("reminders")


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(UnknownOption, match="HARN-RMD-001: reminders has no option 'provider'"):
        read_options({"reminders": {"provider": ["x"]}})
