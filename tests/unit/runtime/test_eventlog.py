"""The active event log: which records it gets, and while which block."""

import asyncio
from typing import Any

import pytest

import sideband as sb
from sideband.core.errors import InvalidOption
from sideband.core.events import Expired, ExpiryReason, Injected, Started
from sideband.core.trust import IN_PROCESS
from sideband.runtime.eventlog import EventLog, emit
from tests.builders import a_reminder

INJECTED = Injected(reminder=a_reminder("r1", tags=("ci",)), provenance=IN_PROCESS)
EXPIRED = Expired(reminder_id="r1", reason=ExpiryReason.CLEARED, turn=1)


def kinds(log: EventLog) -> list[str]:
    return [record.kind.rpartition(".")[2] for record in log.records()]


def test_an_active_log_is_told_in_order_with_numbers_without_gaps() -> None:
    with EventLog() as log:
        emit((INJECTED, Started(), EXPIRED))
        emit((INJECTED,))
    assert kinds(log) == ["injected", "expired", "injected"]
    assert [record.seq for record in log.records()] == [1, 2, 3]


def test_without_a_log_nothing_is_told_and_nothing_fails() -> None:
    log = EventLog()
    emit((INJECTED,))
    assert log.records() == ()


def test_a_log_records_nothing_before_and_after_its_block() -> None:
    log = EventLog()
    emit((INJECTED,))
    with log:
        emit((EXPIRED,))
    emit((INJECTED,))
    assert kinds(log) == ["expired"]


def test_a_block_that_fails_ends_the_log_too() -> None:
    log = EventLog()
    with pytest.raises(RuntimeError, match="on purpose"), log:
        raise RuntimeError("on purpose")
    emit((INJECTED,))
    assert log.records() == ()


def test_the_inner_of_two_logs_is_told_and_then_the_outer_again() -> None:
    with EventLog() as outer:
        emit((INJECTED,))
        with EventLog() as inner:
            emit((EXPIRED,))
        emit((EXPIRED,))
    assert (kinds(outer), kinds(inner)) == (["injected", "expired"], ["expired"])


def test_a_log_can_be_entered_again_inside_itself_and_later() -> None:
    log = EventLog()
    with log:
        with log:
            emit((INJECTED,))
        emit((EXPIRED,))
    with log:
        emit((INJECTED,))
    assert kinds(log) == ["injected", "expired", "injected"]
    assert [record.seq for record in log.records()] == [1, 2, 3]


def test_tasks_that_are_started_inside_tell_the_log_and_others_do_not() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        emit((INJECTED,))

    async def main() -> tuple[EventLog, EventLog]:
        outside = asyncio.create_task(work())
        with EventLog() as first:
            started = asyncio.create_task(work())
        with EventLog() as second:
            await asyncio.gather(started, outside)
        return first, second

    first, second = asyncio.run(main())
    assert (kinds(first), kinds(second)) == (["injected"], [])


def test_records_are_chosen_by_their_kind_and_by_what_was_read_before() -> None:
    with EventLog() as log:
        emit((INJECTED, EXPIRED, INJECTED))
    assert [record.seq for record in log.records(kind_prefix="transcript.reminder.in")] == [1, 3]
    assert [record.seq for record in log.records(after=1)] == [2, 3]
    assert [record.seq for record in log.records(kind_prefix="transcript.reminder.injected", after=1)] == [3]
    assert log.records(kind_prefix="transcript.inject.") == ()
    assert log.records(after=3) == ()


def test_a_record_says_which_run_it_belongs_to_and_never_the_body() -> None:
    with EventLog(session_id="s", task_id="t", agent_id="a") as log:
        emit((INJECTED,))
    (record,) = log.records()
    assert {name: record.payload[name] for name in ("session_id", "task_id", "agent_id")} == {
        "session_id": "s",
        "task_id": "t",
        "agent_id": "a",
    }
    assert (record.payload["reminder_id"], record.payload["tags"]) == ("r1", ["ci"])
    assert INJECTED.reminder.body not in str(record)


def test_what_is_not_known_of_a_run_is_null() -> None:
    with EventLog() as log:
        emit((EXPIRED,))
    assert [log.records()[0].payload[name] for name in ("session_id", "task_id", "agent_id")] == [None, None, None]


def test_what_was_read_from_a_log_does_not_grow() -> None:
    with EventLog() as log:
        emit((INJECTED,))
        before = log.records()
        emit((EXPIRED,))
    assert len(before) == 1


def test_every_transform_tells_the_active_log_what_it_did() -> None:
    with sb.EventLog() as log:
        first = sb.inject_reminder(sb.Transcript(), body="x", dedupe_key="k", ttl_turns=1)
        second = sb.inject_reminder(first.transcript, body="y", dedupe_key="k", ttl_turns=1)
        ended = sb.end_turn(second.transcript, 1)
        third = sb.inject_reminder(ended.transcript, body="z", tags=["t"])
        sb.clear_reminders(third.transcript, tag="t")
        sb.transcript_compact(
            sb.Transcript(messages=({"role": "user"},), events=third.transcript.events),
            strategy="keep_last",
            keep_last=0,
        )
    assert kinds(log) == ["injected", "deduped", "injected", "expired", "injected", "expired", "expired"]
    reasons = [record.payload["reason"] for record in log.records() if "reason" in record.payload]
    assert reasons == ["ttl", "cleared", "compaction"]


def test_what_is_refused_is_not_told() -> None:
    with EventLog() as log, pytest.raises(sb.ReminderError):
        sb.inject_reminder(sb.Transcript(), body=" ")
    assert log.records() == ()


@pytest.mark.parametrize("after", [-1, "1", None, 1.5])
def test_a_log_is_read_after_a_sequence_number(after: Any) -> None:  # noqa: ANN401 - any value
    async def main() -> None:
        with pytest.raises(InvalidOption, match="after must be a whole number of at least 0"):
            EventLog().records(after=after)
        with pytest.raises(InvalidOption, match="after must be a whole number of at least 0"):
            await anext(EventLog().subscribe(after=after))

    asyncio.run(main())


def test_a_subscriber_whose_event_loop_was_closed_does_not_make_a_function_fail() -> None:
    log, loop = EventLog(), asyncio.new_event_loop()

    async def follow() -> None:
        await anext(log.subscribe())

    following = loop.create_task(follow())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    with log:
        emit((INJECTED,))
    assert (kinds(log), following.done()) == (["injected"], False)
