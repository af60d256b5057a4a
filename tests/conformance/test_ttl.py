"""How long a reminder lives: in a session by the turns that showed it, in a transcript by the passes it saw."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.apply import fold
from sideband.core.events import Event, Expired, ExpiryReason, TurnCommitted
from sideband.core.reminder import Reminder
from sideband.core.seams import Mode, Seam
from sideband.core.transcript import Transcript, end_turn, reminder_event
from sideband.core.trust import IN_PROCESS
from tests.builders import a_draft, a_reminder
from tests.sessions import Session


def a_transcript(*reminders: Reminder) -> Transcript:
    return Transcript(events=tuple(reminder_event(reminder, event_id=f"e-{reminder.id}") for reminder in reminders))


def expired(events: Iterable[Event]) -> list[str]:
    """The ids that ended by TTL."""
    return [event.reminder_id for event in events if isinstance(event, Expired) and event.reason is ExpiryReason.TTL]


# In a live session.


@pytest.mark.parametrize(
    ("ttl", "requests"),
    [
        pytest.param(1, 1, id="ttl-1", marks=pytest.mark.requirement("core:ttl:shown-in-exactly-ttl-turns")),
        pytest.param(2, 2, id="ttl-2", marks=pytest.mark.requirement("core:ttl:shown-in-exactly-ttl-turns")),
        pytest.param(7, 7, id="ttl-7", marks=pytest.mark.requirement("core:ttl:shown-in-exactly-ttl-turns")),
        pytest.param(None, 100, id="no-ttl", marks=pytest.mark.requirement("core:ttl:none-never-expires")),
    ],
)
def test_a_reminder_is_shown_in_ttl_turns(ttl: int | None, requests: int) -> None:
    session = Session()
    session.inject(a_reminder("a", ttl_turns=ttl))
    assert [session.turn() for _ in range(100)] == [["a"]] * requests + [[]] * (100 - requests)


@pytest.mark.requirement("core:turn:counts-from-one")
def test_the_first_committed_turn_is_turn_one() -> None:
    session = Session()
    session.turn()
    session.turn()
    assert [event for event in session.journal if isinstance(event, TurnCommitted)] == [
        TurnCommitted(turn=1),
        TurnCommitted(turn=2),
    ]


@pytest.mark.requirement("core:ttl:unseen-never-expires")
def test_a_reminder_that_no_turn_has_shown_does_not_age() -> None:
    session = Session()
    session.inject(a_reminder("a", ttl_turns=1))
    for _ in range(5):
        session.turn(left_out=["a"])
    session.compact(archived_messages=0)
    assert session.turn() == ["a"]
    assert session.turn() == []


@pytest.mark.requirement("core:ttl:unseen-never-expires")
def test_a_reminder_shown_only_by_a_voided_request_was_not_shown() -> None:
    session = Session()
    session.inject(a_reminder("a", ttl_turns=1))
    for _ in range(3):
        session.send_request()
        session.void()
    assert session.turn() == ["a"]


@pytest.mark.requirement("core:ttl:last-turn-is-set-at-the-first-showing")
def test_the_first_showing_sets_the_last_turn() -> None:
    session = Session()
    session.turn()
    session.inject(a_reminder("a", ttl_turns=3))
    item = session.state.live.get("a")
    assert item is not None
    session.send_request()
    assert (item.first_turn, item.last_turn) == (None, None)
    session.take_reply()
    assert (item.first_turn, item.last_turn) == (2, 4)
    session.turn()
    assert (item.first_turn, item.last_turn) == (2, 4)


@pytest.mark.requirement("core:ttl:compaction-lowers-the-last-turn", "core:ttl:shown-in-exactly-ttl-turns")
def test_each_compaction_after_the_first_showing_costs_one_turn() -> None:
    session = Session()
    session.inject(a_reminder("a", ttl_turns=5, preserve_on_compact=True))
    session.compact()
    session.turn()
    session.compact()
    session.compact()
    item = session.state.live.get("a")
    assert item is not None
    assert item.last_turn == 3
    assert [session.turn() for _ in range(3)] == [["a"], ["a"], []]


@pytest.mark.requirement("core:ttl:being-left-out-raises-the-last-turn")
def test_a_turn_that_left_it_out_does_not_count() -> None:
    session = Session()
    session.inject(a_reminder("a", ttl_turns=2))
    shown = [session.turn(left_out=missing) for missing in ([], ["a"], ["a"], [], [])]
    assert shown == [["a"], [], [], ["a"], []]


@pytest.mark.requirement("core:ttl:expires-once-its-last-turn-is-committed")
def test_all_whose_last_turn_it_was_end_in_transcript_order_with_the_commit() -> None:
    session = Session()
    session.inject(a_reminder("first", ttl_turns=1))
    session.inject(a_reminder("two", ttl_turns=2))
    session.turn(left_out=["first"])
    for name, ttl in (("one", 1), ("three", 3), ("ever", None), ("one more", 1)):
        session.inject(a_reminder(name, ttl_turns=ttl))
    session.send_request()
    assert session.take_reply() == (
        TurnCommitted(turn=2),
        Expired(reminder_id="first", reason=ExpiryReason.TTL, turn=2, provenance=IN_PROCESS),
        Expired(reminder_id="two", reason=ExpiryReason.TTL, turn=2, provenance=IN_PROCESS),
        Expired(reminder_id="one", reason=ExpiryReason.TTL, turn=2, provenance=IN_PROCESS),
        Expired(reminder_id="one more", reason=ExpiryReason.TTL, turn=2, provenance=IN_PROCESS),
    )
    assert session.live_ids == ["three", "ever"]


@pytest.mark.requirement("core:ttl:retries-and-voids-cost-nothing")
def test_retries_and_voids_cost_neither_turns_nor_ttl() -> None:
    session = Session()
    session.inject(a_reminder("a", ttl_turns=2))
    session.send_request()
    session.send_request(attempt=2)
    session.send_request(attempt=3)
    session.take_reply()
    session.send_request()
    session.void()
    item = session.state.live.get("a")
    assert item is not None
    assert (session.state.live.turn, session.state.live.remaining(item)) == (1, 1)
    assert session.turn() == ["a"]
    assert session.turn() == []


@pytest.mark.requirement("core:ttl:retries-and-voids-cost-nothing")
def test_a_retry_fires_nothing_a_second_time() -> None:
    session = Session()
    session.inject(a_reminder("a", ttl_turns=2))
    session.send_request()
    before = len(session.journal)
    session.send_request(attempt=2)
    assert len(session.journal) == before + 1
    assert session.state.request is not None
    assert session.state.request.attempt == 2


@pytest.mark.requirement("core:ttl:added-after-the-pass-is-not-aged")
def test_what_tools_add_after_the_reply_is_not_aged_by_its_turn() -> None:
    session = Session()
    session.turn()
    session.accept(a_draft(ttl_turns=1))
    session.drain(Seam.POST_TOOL_DISPATCH)
    (added,) = session.live_ids
    assert session.turn() == [added]
    assert session.turn() == []


@pytest.mark.requirement("core:ttl:added-after-the-pass-is-not-aged")
def test_what_becomes_live_while_a_request_is_open_is_not_aged_by_its_reply() -> None:
    session = Session()
    session.send_request()
    session.accept(a_draft(ttl_turns=1, mode=Mode.INTERRUPT_IMMEDIATE))
    session.drain(Seam.PRE_TOOL_DISPATCH)
    (added,) = session.live_ids
    session.take_reply()
    assert session.turn() == [added]


STEPS = st.lists(
    st.sampled_from(["inject", "turn", "turn", "leave out", "retry", "void", "compact", "nothing to compact"]),
    max_size=40,
)


def play(session: Session, step: str, ttls: dict[str, int], shown: Counter[str], lowered: Counter[str]) -> None:
    """One step of a history; counts in which turns each reminder was shown, and what compactions took from it."""
    match step:
        case "inject":
            name = session.new_id()
            ttls[name] = len(ttls) % 4 + 1
            session.inject(a_reminder(name, ttl_turns=ttls[name], preserve_on_compact=True))
        case "turn":
            shown.update(session.turn())
        case "leave out":
            shown.update(session.turn(left_out=session.live_ids[::2]))
        case "retry":
            showing = session.send_request()
            session.send_request(attempt=2)
            session.take_reply()
            shown.update(showing)
        case "void":
            session.send_request()
            session.void()
        case "compact":
            lowered.update(name for name in session.live_ids if shown[name])
            session.compact()
        case _:
            session.compact(archived_messages=0)


@pytest.mark.requirement("core:ttl:shown-in-exactly-ttl-turns")
@given(steps=STEPS)
def test_in_every_history_a_reminder_is_shown_as_often_as_its_ttl_and_compactions_say(steps: list[str]) -> None:
    session = Session()
    ttls: dict[str, int] = {}
    shown, lowered = Counter[str](), Counter[str]()
    for step in steps:
        play(session, step, ttls, shown, lowered)
        for name, ttl in ttls.items():
            left = ttl - shown[name] - lowered[name]
            item = session.state.live.get(name)
            assert (session.state.live.remaining(item) if item is not None else 0) == left


@pytest.mark.requirement("core:ttl:follows-from-the-journal")
@given(steps=STEPS)
def test_replaying_a_history_gives_every_reminder_its_last_turn_again(steps: list[str]) -> None:
    session = Session()
    for step in steps:
        play(session, step, {}, Counter(), Counter())
    replayed = fold(session.journal)
    assert replayed.live.turn == session.state.live.turn
    assert list(replayed.live) == list(session.state.live)


# In a transcript.


@pytest.mark.requirement("core:end_turn:ages-what-had-fired", "core:end_turn:expires-at-one")
def test_a_pass_ages_what_had_fired_and_ends_what_had_one_turn_left() -> None:
    before = a_transcript(a_reminder("one", ttl_turns=1), a_reminder("two", ttl_turns=2, fired_at_turn=7))
    result = end_turn(before, 7)
    assert [(reminder.id, reminder.ttl_turns) for reminder in result.value.transcript.reminders] == [("two", 1)]
    assert result.value.expired_ids == ("one",)
    assert result.events == (Expired(reminder_id="one", reason=ExpiryReason.TTL, turn=7, provenance=IN_PROCESS),)


@pytest.mark.requirement("core:end_turn:ages-what-had-fired")
@pytest.mark.parametrize("ttl", [1, 2, 5])
def test_a_finite_reminder_lives_through_as_many_passes_as_its_ttl(ttl: int) -> None:
    transcript = a_transcript(a_reminder("a", ttl_turns=ttl))
    passes = 0
    while transcript.reminders:
        passes += 1
        transcript = end_turn(transcript, passes).value.transcript
    assert passes == ttl


@pytest.mark.requirement("core:end_turn:leaves-later-ones")
def test_a_pass_leaves_what_fires_after_that_turn() -> None:
    before = a_transcript(a_reminder("a", ttl_turns=1, fired_at_turn=8))
    assert end_turn(before, 7) == ((), (before, ()))
    assert expired(end_turn(before, 8).events) == ["a"]


@pytest.mark.requirement("core:end_turn:leaves-those-without-a-ttl")
def test_a_pass_leaves_what_has_no_ttl() -> None:
    transcript = a_transcript(a_reminder("a"))
    for turn in range(100):
        transcript = end_turn(transcript, turn).value.transcript
    assert transcript == a_transcript(a_reminder("a"))


@pytest.mark.requirement("core:end_turn:ages-what-had-fired")
def test_a_pass_leaves_its_input_as_it_was() -> None:
    before = a_transcript(a_reminder("a", ttl_turns=2))
    end_turn(before, 1)
    assert before == a_transcript(a_reminder("a", ttl_turns=2))
