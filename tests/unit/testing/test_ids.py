"""Ids that count."""

from sideband.testing import CountingIds


def test_they_count_from_one_each_for_itself() -> None:
    first, second = CountingIds(), CountingIds("m")
    assert [first(), first(), second(), first()] == ["r-1", "r-2", "m-1", "r-3"]
