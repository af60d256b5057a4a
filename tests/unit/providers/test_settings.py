"""Reading a provider's own settings."""

import pytest

from sideband.core.errors import InvalidOption
from sideband.providers.settings import find_number, is_count, is_number, read_flag, read_number


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
