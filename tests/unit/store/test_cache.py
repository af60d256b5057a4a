"""The cache of sessions keeps what is referenced, what is needed, and what was used last."""

import pytest

from sideband.store.cache import SessionCache


class Thing:
    """Something that can be forgotten."""

    def __init__(self, *, needed: bool = False) -> None:
        self.needed = needed


def a_roster(most: int, *names: str) -> SessionCache[Thing]:
    roster = SessionCache[Thing](most, needed=lambda thing: thing.needed)
    for name in names:
        roster.add(name, Thing())
    return roster


def present(roster: SessionCache[Thing], names: str) -> str:
    return "".join(name for name in names if roster.peek(name) is not None)


def test_the_last_ones_that_were_used_stay() -> None:
    roster = a_roster(2, *"ab")
    roster.get("a")
    roster.add("c", Thing())
    assert present(roster, "abc") == "ac"


def test_looking_is_not_using() -> None:
    roster = a_roster(2, *"ab")
    roster.peek("a")
    roster.add("c", Thing())
    assert present(roster, "abc") == "bc"


def test_a_referenced_item_is_the_same_at_every_look_up() -> None:
    roster = a_roster(1)
    held = roster.add("held", Thing())
    roster.add("other", Thing())
    assert roster.peek("held") is held
    assert roster.get("held") is held
    assert roster.peek("other") is None, "it was used before the one that was just asked for"
    del held
    roster.add("another", Thing())
    assert roster.peek("held") is None


def test_what_is_needed_stays_for_as_long_as_it_is() -> None:
    roster = a_roster(1)
    roster.add("needed", Thing(needed=True))
    for name in "abc":
        roster.add(name, Thing())
    found = roster.peek("needed")
    assert found is not None
    found.needed = False
    del found
    roster.add("d", Thing())
    assert (present(roster, "abcd"), roster.peek("needed")) == ("d", None)


@pytest.mark.parametrize("most", [0, 1])
def test_there_is_always_room_for_one(most: int) -> None:
    roster = a_roster(most, "a")
    assert roster.get("a") is not None


def test_all_that_is_at_hand_can_be_gone_through() -> None:
    roster = a_roster(1, *"ab")
    held = roster.add("held", Thing())
    roster.add("last", Thing())
    assert {*roster} == {held, roster.peek("last")}
    roster.clear()
    assert [*roster] == []
