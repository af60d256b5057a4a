"""The index of live reminders: every look-up, and that no index keeps removed reminders."""

from sideband.core.live import LiveIndex
from sideband.core.trust import IN_PROCESS
from tests.builders import a_reminder


def an_index(*names: str) -> LiveIndex:
    live = LiveIndex()
    for name in names:
        live.add(a_reminder(name, tags=("t", name), dedupe_key=name, ttl_turns=2), IN_PROCESS)
    return live


def test_a_reminder_is_found_by_id_key_and_tag() -> None:
    live = an_index("a", "b")
    (found,) = live.with_key("b")
    assert found is live.get("b")
    assert [item.id for item in live.with_tag("t")] == ["a", "b"]
    assert [item.id for item in live.with_tag("a")] == ["a"]
    assert ("a" in live, "c" in live, len(live)) == (True, False, 2)


def test_a_removed_reminder_is_in_no_index() -> None:
    live = an_index("a", "b")
    for item in tuple(live):
        live.show(item, 1)
    live.remove("a")
    assert [item.id for item in live.due(2)] == ["b"]
    assert [item.id for item in live.with_tag("t")] == ["b"]
    assert (live.get("a"), list(live.with_key("a")), list(live.with_tag("a"))) == (None, [], [])


def test_an_emptied_index_equals_a_new_one() -> None:
    live = an_index("a", "b")
    for item in tuple(live):
        live.show(item, 1)
        live.leave_out(item)
    live.lower()
    for name in ("a", "b"):
        live.remove(name)
    assert vars(live) == {**vars(LiveIndex()), "next_place": 2}


def test_the_remaining_ttl_counts_down_from_the_first_committed_turn_that_showed_it() -> None:
    live = an_index("a")
    (item,) = live
    assert live.current(item) is item.reminder
    live.show(item, 1)
    assert live.current(item) is item.reminder
    live.turn = 1
    assert live.current(item) == a_reminder("a", tags=("t", "a"), dedupe_key="a", ttl_turns=1)


def test_a_later_showing_changes_neither_first_nor_last_turn() -> None:
    live = an_index("a")
    (item,) = live
    live.show(item, 3)
    live.leave_out(item)
    live.show(item, 5)
    assert (item.first_turn, item.last_turn, item.left_out) == (3, 5, 0)
