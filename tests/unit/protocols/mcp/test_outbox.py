"""The outbox of a client: what is merged, what is left out, and what its reader gets."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.protocols.mcp.messages import ReminderParams, ReminderSpec
from sideband.protocols.mcp.server.outbox import CAPACITY, LEFT_OUT_KEY, Outbox
from tests.acp_agents import in_time


def a_reminder(number: int, key: str | None = None) -> ReminderParams:
    return ReminderParams(reminder=ReminderSpec(id=f"r{number}", body=f"body {number}", dedupe_key=key))


def drained(outbox: Outbox) -> list[ReminderSpec]:
    found = []
    while (params := outbox.take()) is not None:
        found.append(params.reminder)
    return found


def left_out(reminders: list[ReminderSpec]) -> int:
    """The number in the notice of what was left out; 0 without a notice."""
    notices = [reminder.body for reminder in reminders if reminder.dedupe_key == LEFT_OUT_KEY]
    return sum(int(body.split()[0].replace(",", "")) for body in notices)


@given(st.lists(st.none() | st.sampled_from("abc") | st.integers(0, 200).map(str), max_size=300))
def test_the_reader_gets_the_newest_of_each_key_in_order_and_the_number_of_the_rest(keys: list[str | None]) -> None:
    outbox = Outbox()
    for number, key in enumerate(keys):
        outbox.put(a_reminder(number, key))
    newest = {key or f"keyless {number}": number for number, key in enumerate(keys)}
    in_order = [f"r{number}" for number in sorted(newest.values())]
    found = drained(outbox)
    kept = [reminder.id for reminder in found if reminder.dedupe_key != LEFT_OUT_KEY]
    assert kept == in_order[len(in_order) - len(kept) :]
    assert len(kept) <= CAPACITY
    # Of what was pushed out, a later one with the same key may still have found room.
    assert len(kept) + left_out(found) >= len(in_order)
    assert bool(left_out(found)) == (len(in_order) > len(kept))


@given(st.integers(0, 1_000))
def test_keyless_reminders_are_all_read_or_counted(count: int) -> None:
    outbox = Outbox()
    for number in range(count):
        outbox.put(a_reminder(number))
    found = drained(outbox)
    notices = 1 if count > CAPACITY else 0
    assert left_out(found) + len(found) - notices == count


def test_what_was_left_out_is_told_before_what_was_kept() -> None:
    outbox = Outbox(capacity=2)
    for number in range(3):
        outbox.put(a_reminder(number))
    bodies = [reminder.body for reminder in drained(outbox)]
    assert bodies == [
        "1 reminder was left out because this client did not read its reminders in time.",
        "body 1",
        "body 2",
    ]


def test_a_newer_reminder_with_the_same_id_takes_the_place_of_one_without_a_key() -> None:
    outbox = Outbox()
    outbox.put(a_reminder(1))
    outbox.put(a_reminder(1))
    assert len(drained(outbox)) == 1


def test_a_key_that_looks_like_an_id_is_another_reminder() -> None:
    outbox = Outbox()
    outbox.put(a_reminder(1))
    outbox.put(a_reminder(2, key="r1"))
    assert len(drained(outbox)) == 2


@in_time
async def test_a_reader_waits_until_there_is_something_and_ends_after_the_last_one() -> None:
    outbox = Outbox()
    waiting = asyncio.ensure_future(outbox.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    outbox.put(a_reminder(1))
    first = await waiting
    assert first is not None
    assert first.reminder.id == "r1"
    outbox.put(a_reminder(2))
    outbox.close()
    outbox.put(a_reminder(3))
    second = await outbox.get()
    assert second is not None
    assert second.reminder.id == "r2"
    assert await outbox.get() is None


@in_time
async def test_closing_wakes_a_waiting_reader() -> None:
    outbox = Outbox()
    waiting = asyncio.ensure_future(outbox.get())
    await asyncio.sleep(0)
    outbox.close()
    assert await waiting is None


def test_an_outbox_that_is_cleared_has_forgotten_its_overflow() -> None:
    outbox = Outbox(1)
    for number in range(2):
        outbox.put(a_reminder(number))
    overflowed = [outbox.has_overflowed]
    outbox.clear()
    assert [*overflowed, outbox.has_overflowed] == [True, False]
    assert drained(outbox) == []


@pytest.mark.parametrize("capacity", [1, 3, CAPACITY])
def test_a_flood_of_100_000_reminders_keeps_no_more_than_its_capacity(capacity: int) -> None:
    outbox = Outbox(capacity)
    for number in range(100_000):
        outbox.put(a_reminder(number))
    found = drained(outbox)
    assert len(found) == capacity + 1
    assert left_out(found) == 100_000 - capacity
