"""An A2A server, killed at each of its commits: what it has acknowledged survives, and the next server finishes the task."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from sideband.core.events import Closed, Dropped, Expired, Injected, Queued
from sideband.inspect.verify import verified
from sideband.protocols.a2a import runs
from sideband.runtime.store import open_store
from tests.a2a_callers import A2aCaller, Door, in_time, on_sockets, served
from tests.a2a_victim import LEASE_SECONDS
from tests.acp_editor import SECONDS
from tests.acp_scenes import calling
from tests.faults.shared_stores import PostgresPlace

# A task with a tool call and a reminder makes fewer commits than this; a victim that is told to die later lives.
COMMITS: Final = 12


@asynccontextmanager
async def a_victim(url: str, last: int, moment: str) -> AsyncIterator[A2aCaller]:
    """A caller of a server that dies at one of its commits."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.a2a_victim", url, str(last), moment, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        address = (await process.stdout.readline()).decode().strip()
        async with httpx.AsyncClient(base_url=address, timeout=SECONDS) as client:
            yield A2aCaller(client)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until_closed(url: str, task_id: str) -> list[Any]:
    """The events of a task, after it has ended."""
    async with open_store(url) as store:
        events = []
        async for row in store.journal.subscribe(session_id=task_id):
            events.append(row.event)
            if isinstance(row.event, Closed):
                return events
    raise AssertionError(events)


@pytest.mark.parametrize(("last", "moment"), [(n, "before" if n % 2 else "after") for n in range(1, COMMITS + 1)])
@on_sockets
async def test_what_was_acknowledged_before_the_kill_survives(tmp_path: Path, last: int, moment: str) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    task_id: str | None = None
    accepted: str | None = None
    async with a_victim(url, last, moment) as caller:
        try:
            task_id = (await caller.begin())["id"]
            accepted = (await caller.remind(task_id, "Merged.", ttlTurns=1))["reminderId"]
        except (httpx.HTTPError, KeyError):
            # It has died; or the task has ended before the reminder arrived, which is refused then.
            pass
    async with open_store(url, lease_seconds=LEASE_SECONDS) as store:
        known = [entry.session_id for entry in (await store.sessions()).sessions]
    if task_id is None:
        # A task that was not acknowledged may exist all the same.
        task_id = known[0] if known else None
    if task_id is None:
        return
    async with a_victim(url, 0, "after"):
        events = await in_time(until_closed(url, task_id))
    if accepted is not None:
        queued = [event for event in events if isinstance(event, Queued) and event.item.id == accepted]
        ended = [event for event in events if isinstance(event, Expired | Dropped) and event.reminder_id == accepted]
        shown = [event for event in events if isinstance(event, Injected) and event.reminder.id == accepted]
        assert (len(queued), len(ended), len(shown)) == (1, 1, 1)
    assert events.count(Closed(reason=events[-1].reason)) == 1
    assert [check for check in verified(url, None) if check.problem] == []


@on_sockets
async def test_another_server_of_a_database_takes_over_from_a_killed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "SWEEP_SECONDS", 0.1)
    monkeypatch.setattr(runs, "SILENT_MS", 0)
    place = PostgresPlace(tmp_path)
    door = Door()
    try:
        options = {"tools": [door.wait_at_the_door], "reminders": False}
        store = open_store(place.address, lease_seconds=LEASE_SECONDS)
        async with served([calling("wait_at_the_door"), "Done."] * 3, store=store, options=options) as survivor:
            # The third commit of a task is made while it runs.
            async with a_victim(place.address, 5, "after") as caller:
                task = (await caller.begin())["id"]
                async with survivor.caller().stream("SubscribeToTask", {"id": task}) as frames:
                    await frames.next()
                    await survivor.caller().remind(task, "Told through the survivor.", mode="audit_only")
                    frames_left = asyncio.ensure_future(frames.rest())
                    door.open.set()
                    rest = await in_time(frames_left)
            done = await survivor.caller().task(task)
        assert rest[-1]["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"
        assert survivor.requests
    finally:
        place.remove()
