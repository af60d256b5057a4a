"""UUID version 7 ids: always ascending, for any clock and any random bits."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.runtime.system import Uuid7


def ids(times: Iterable[int], *, bits: int) -> list[int]:
    """The ids minted at these readings of the clock, as numbers; every random start is `bits`."""
    readings = list(times)
    clock = iter(readings)
    new_id = Uuid7(clock_ms=lambda: next(clock), random_bits=lambda _width: bits)
    return [int(new_id().replace("-", ""), 16) for _ in readings]


def uuid7_int(ms: int, tail: int) -> int:
    """The 128 bits of a UUIDv7: 48 bits of time, the version, 12 bits of `tail`, the variant, 62 bits of `tail`."""
    return ms << 80 | 7 << 76 | tail >> 62 << 64 | 2 << 62 | tail & (1 << 62) - 1


def test_an_id_has_its_bits_where_the_standard_wants_them() -> None:
    assert ids([0x0123456789AB], bits=0) == [0x0123456789AB_7000_8000_000000000000]
    assert ids([0], bits=(1 << 74) - 1) == [0x000000000000_7FFF_BFFF_FFFFFFFFFFFF]


def test_ids_of_one_millisecond_count_up_from_a_random_start() -> None:
    assert ids([5, 5, 5], bits=40) == [uuid7_int(5, 40), uuid7_int(5, 41), uuid7_int(5, 42)]


@pytest.mark.parametrize("most", [pytest.param(1 << 48, id="one-group"), pytest.param(1 << 62, id="two-groups")])
def test_ids_count_on_where_their_last_digits_are_used_up(most: int) -> None:
    assert ids([5, 5, 5], bits=most - 2) == [uuid7_int(5, number) for number in range(most - 2, most + 1)]


def test_a_new_millisecond_has_a_new_start() -> None:
    assert ids([5, 5, 6], bits=40) == [uuid7_int(5, 40), uuid7_int(5, 41), uuid7_int(6, 40)]


def test_while_the_clock_is_behind_ids_go_on_from_the_last_millisecond() -> None:
    assert ids([5, 3, 4, 6], bits=40) == [uuid7_int(5, 40), uuid7_int(5, 41), uuid7_int(5, 42), uuid7_int(6, 40)]


def test_a_millisecond_that_is_used_up_borrows_from_the_next() -> None:
    minted = ids([5, 5, 5, 6, 7], bits=(1 << 74) - 1)
    assert minted[:4] == [uuid7_int(5, (1 << 74) - 1), uuid7_int(6, 0), uuid7_int(6, 1), uuid7_int(6, 2)]
    assert all(earlier < later for earlier, later in pairwise(minted))


def test_the_start_leaves_room_to_count() -> None:
    asked: list[int] = []

    def random_bits(width: int) -> int:
        asked.append(width)
        return (1 << width) - 1

    new_id = Uuid7(clock_ms=lambda: 5, random_bits=random_bits)
    first, second = new_id(), new_id()
    assert asked == [73]
    assert first < second
    assert first[:13] == second[:13]


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**73 - 1))
def test_an_id_holds_the_time_when_it_was_minted(ms: int, bits: int) -> None:
    minted = Uuid7(clock_ms=lambda: ms, random_bits=lambda _width: bits)()
    assert int(minted[:13].replace("-", ""), 16) == ms
