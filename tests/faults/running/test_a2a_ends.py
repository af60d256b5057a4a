"""Reminders that arrive while a task ends: each is accepted and ends exactly once, or is refused with `task_finished`."""

import asyncio
import random
from collections import Counter
from contextlib import aclosing
from typing import Any, Final

import msgspec

from sideband.core.events import Closed, Deduped, Dropped, DropReason, Expired, Fired, Queued, Revoked
from sideband.core.limits import DEFAULT_LIMITS
from tests.a2a_callers import message, on_sockets, served
from tests.unit.store.conftest import twin
from tests.unit.store.twins import Twin

__all__ = ["twin"]

TASKS: Final = 8
SENDERS: Final = 4
GENEROUS: Final = msgspec.structs.replace(DEFAULT_LIMITS, accept_rate={}, pending_per_source={})


@on_sockets
async def test_every_reminder_at_the_end_of_a_task_has_one_fate(twin: Twin) -> None:
    refusals: Counter[str] = Counter()
    counted = 0
    rng = random.Random(7)  # noqa: S311 - no secret

    async def at_some_time(_view: object) -> str:
        # A request takes some dozens of steps of the event loop, so the reply comes before, between or after requests.
        for _ in range(rng.choice((0, 0, 5, 40, 150))):
            await asyncio.sleep(0)
        return "Done."

    async with twin.open() as journal, served([at_some_time] * 999, journal=journal, limits=GENEROUS) as tasks:
        caller = tasks.caller()

        async def send(task_id: str, sender: int) -> list[str]:
            """Send reminders until the task refuses them; return those that it has accepted."""
            accepted: list[str] = []
            for number in range(100):
                params = {"taskId": task_id, "reminder": {"body": f"{sender}/{number}", "ttlTurns": 1}}
                answer = await caller.answer("tasks/inject_reminder", params)
                if "error" in answer:
                    (reason,) = [info["reason"] for info in answer["error"]["data"] if info["domain"] == "sideband"]
                    refusals[reason] += 1
                    return accepted
                accepted.append(answer["result"]["reminderId"])
            return accepted

        for _ in range(TASKS):
            task = (await caller.call("SendMessage", message(configuration={"returnImmediately": True})))["task"]
            accepted = [
                one for some in await asyncio.gather(*(send(task["id"], n) for n in range(SENDERS))) for one in some
            ]
            rows = tasks.store.journal.subscribe(session_id=task["id"])
            events = []
            async with aclosing(rows):
                async for row in rows:
                    events.append(row.event)
                    if isinstance(row.event, Closed):
                        break
            _check(events, accepted)
            counted += len(accepted)
    # Both happened, or this test has tested nothing.
    assert set(refusals) == {"TASK_FINISHED"}
    assert counted


def _check(events: list[Any], accepted: list[str]) -> None:
    queued = [event.item.id for event in events if isinstance(event, Queued)]
    shown = {event.reminder_id for event in events if isinstance(event, Fired)}
    ends = Counter(
        event.replaced_id if isinstance(event, Deduped) else event.reminder_id
        for event in events
        if isinstance(event, Expired | Dropped | Revoked | Deduped)
    )
    assert sorted(queued) == sorted(accepted)
    assert ends == Counter(accepted)
    # After eight closing iterations in a row the task ends all the same.
    unseen = {event.reminder_id for event in events if isinstance(event, Dropped)}
    assert all(event.reason is DropReason.TASK_FINISHED for event in events if isinstance(event, Dropped))
    assert (shown | unseen, shown & unseen) == (set(accepted), set())
