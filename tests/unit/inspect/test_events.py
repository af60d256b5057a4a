"""Events: what is shown of them, and how they are read from a store."""

import asyncio
from contextlib import aclosing

import pytest

from sideband.core.events import (
    Event,
    InjectAccepted,
    InjectDelivered,
    Injected,
    Queued,
    QueuedMessage,
    QueuedReminder,
    Started,
)
from sideband.core.reminder import Reminder, ReminderId
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.inspect import events
from sideband.inspect.events import EventQuery, as_row, line_of, read_lines
from sideband.inspect.sessions import inspect_store
from sideband.ports import Logged
from sideband.testing import MemoryStore
from tests.builders import a_draft, a_reminder, a_text
from tests.sessions import CLIENT
from tests.unit.cli.stores import address, fill
from tests.unit.store.twins import PATIENCE, Sender, Twin, played

MINTED = "0190a1b2-c3d4-7abc-8def-0123456789ab"


def an_item(reminder_id: str, *, caller_id: str | None = None, **fields: object) -> QueuedReminder:
    return QueuedReminder(
        reminder=a_reminder(reminder_id, **fields), mode=Mode.FINISH_STEP, provenance=CLIENT, caller_id=caller_id
    )


def test_nothing_in_a_row_is_an_order_to_the_terminal() -> None:
    hostile = "\x1b]0;owned\x07\x1b[31m"
    queued = Queued(item=an_item("r", dedupe_key=hostile))
    line = line_of(Logged(sequence=1, session_id=f"s{hostile}", event=queued))
    assert line is not None
    assert as_row(line).isprintable()
    assert r"\x1b]0;owned\x07" in as_row(line)


@pytest.mark.parametrize(
    ("event", "is_known"),
    [
        pytest.param(Queued(item=an_item(MINTED)), True, id="accepted"),
        pytest.param(Queued(item=an_item(MINTED, caller_id=MINTED)), False, id="under-an-id-of-the-callers"),
        pytest.param(Queued(item=an_item("r1")), False, id="under-an-id-without-a-time"),
        pytest.param(
            InjectAccepted(
                item=QueuedMessage(message_id=MINTED, content=tuple(a_text()), mode=InjectMode.QUEUE, provenance=CLIENT)
            ),
            True,
            id="a-message-accepted",
        ),
        pytest.param(
            Injected(reminder=Reminder(id=ReminderId(MINTED), body="x"), provenance=CLIENT), True, id="live-at-once"
        ),
        pytest.param(
            Injected(reminder=Reminder(id=ReminderId(MINTED), body="x"), provenance=CLIENT, seam=Seam.ITERATION_END),
            False,
            id="drained-some-time-later",
        ),
        pytest.param(InjectDelivered(message_id=MINTED, content=()), False, id="delivered-some-time-later"),
    ],
)
def test_a_time_is_told_where_an_id_was_minted_for_the_event(event: Event, is_known: bool) -> None:  # noqa: FBT001 - a row
    line = line_of(Logged(sequence=1, session_id="s", event=event))
    assert line is not None
    assert line.time == ("2024-07-11T12:09:25.716Z" if is_known else None)


def test_what_only_recovery_needs_is_not_told() -> None:
    assert line_of(Logged(sequence=1, session_id="s", event=Started())) is None


def test_following_may_begin_before_the_session_does(durable: Twin) -> None:
    played(lambda: fill(durable))
    wanted = EventQuery(session="later", follow=True)
    remarks: list[str] = []

    async def story() -> None:
        lines = read_lines(address(durable), wanted, notify=remarks.append)
        async with aclosing(lines) as source, asyncio.timeout(PATIENCE):
            coming = asyncio.ensure_future(anext(source))
            # The session is looked up before the first await.
            await asyncio.sleep(0)
            assert remarks == ["there is no session 'later' yet"]
            await fill(durable, session_id="later")
            assert (await coming).session == "later"

    played(story)


def test_to_find_a_session_the_others_are_not_gone_through(durable: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    played(lambda: fill(durable))
    with inspect_store(address(durable)) as found:
        monkeypatch.setattr(found, "sessions", lambda: pytest.fail("all sessions were counted"))
        events._require_session(found, "s", follow=False, notify=pytest.fail)


def test_a_reader_who_is_slower_than_those_who_write_misses_nothing() -> None:
    async def story() -> list[int]:
        store = MemoryStore(subscriber_events=2)
        sender = Sender(store)
        await sender.send(a_draft())
        async with aclosing(events._entries(store, EventQuery(follow=True), pytest.fail)) as source:
            seen = [(await anext(source)).sequence]
            for _ in range(3):
                waiting = asyncio.ensure_future(anext(source))
                await asyncio.sleep(0)
                for _ in range(10):
                    await sender.send(a_draft())
                seen.append((await waiting).sequence)
                seen.extend([(await anext(source)).sequence for _ in range(9)])
        return seen

    assert played(story) == list(range(1, 32))
