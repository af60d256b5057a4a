"""Events: what is shown of them, and how they are read from a store."""

import asyncio
from contextlib import aclosing

import pytest

from sideband.core.events import (
    Queued,
    QueuedReminder,
)
from sideband.core.seams import Mode
from sideband.core.topic import Correlation, publish
from sideband.inspect import events
from sideband.inspect.events import EventQuery, as_row, read_topic
from sideband.inspect.sessions import inspect_store
from sideband.testing import MemoryStore
from tests.builders import a_draft, a_reminder
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
    record = publish(queued, Correlation(session_id=f"s{hostile}"), seq=1)
    assert record is not None
    assert as_row(record).isprintable()
    assert r"\x1b]0;owned\x07" in as_row(record)


def test_following_may_begin_before_the_session_does(durable: Twin) -> None:
    played(lambda: fill(durable))
    wanted = EventQuery(session="later", follow=True)
    remarks: list[str] = []

    async def story() -> None:
        lines = read_topic(address(durable), wanted, notify=remarks.append)
        async with aclosing(lines) as source, asyncio.timeout(PATIENCE):
            coming = asyncio.ensure_future(anext(source))
            # The session is looked up before the first await.
            await asyncio.sleep(0)
            assert remarks == ["there is no session 'later' yet"]
            await fill(durable, session_id="later")
            assert (await coming).session_id == "later"

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
        async with aclosing(events._records(store, EventQuery(follow=True), pytest.fail)) as source:
            seen = [(await anext(source)).seq]
            for _ in range(3):
                waiting = asyncio.ensure_future(anext(source))
                await asyncio.sleep(0)
                for _ in range(10):
                    await sender.send(a_draft())
                seen.append((await waiting).seq)
                seen.extend([(await anext(source)).seq for _ in range(9)])
        return seen

    assert played(story) == list(range(1, 32))
