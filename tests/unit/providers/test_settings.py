"""The `reminders` option and the settings of providers."""

from typing import Any

import pytest

from sideband.core.errors import InvalidOption, UnknownOption
from sideband.providers.settings import (
    ProviderOptions,
    config_for,
    find_number,
    is_count,
    is_number,
    read_flag,
    read_number,
    read_options,
)


def test_the_first_name_that_is_present_counts() -> None:
    assert read_number({"b": 2, "a": 1}, "a", "b", default=0) == 1
    assert read_number({"b": 2, "a": None}, "a", "b", default=0) == 2
    assert read_number({}, "a", "b", default=0) == 0
    assert find_number({}, "a") is None
    assert find_number({"a": 0}, "a") == 0


@pytest.mark.parametrize("value", ["1", True, [], float("nan"), float("inf"), 10**30])
def test_what_is_no_number_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidOption, match="HARN-RMD-001: b must be a number"):
        read_number({"b": value}, "a", "b", default=0)
    assert not is_number(value)


def test_a_flag_is_true_or_false_and_nothing_else() -> None:
    assert read_flag({"a": False}, "a", default=True) is False
    assert read_flag({"a": None}, "a", default=True) is True
    assert read_flag({}, "a", default=False) is False
    with pytest.raises(InvalidOption, match="a must be true or false, not 1"):
        read_flag({"a": 1}, "a", default=False)


@pytest.mark.parametrize(("value", "counts"), [(0, True), (7, True), (-1, False), (1.0, False), (True, False)])
def test_a_count_is_a_whole_number_that_is_not_negative(value: object, *, counts: bool) -> None:
    assert is_count(value) is counts


@pytest.mark.parametrize("options", [{}, {"reminders": None}, {"reminders": True}, {"reminders": {}}])
def test_nothing_special_is_the_default(options: dict[str, Any]) -> None:
    assert read_options(options) == ProviderOptions()


@pytest.mark.parametrize("given", [False, {"enabled": False}, {"enabled": False, "providers": ["x"]}])
def test_false_turns_everything_off(given: object) -> None:
    assert not read_options({"reminders": given}).enabled


def test_switches_are_trimmed_and_keep_their_order() -> None:
    options = {"reminders": {"providers": [" -token_pressure ", "mine"], "enabled": None, "config": None}}
    assert read_options(options) == ProviderOptions(switches=("-token_pressure", "mine"))


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
