"""Accepts into a store while it is measured; some of them in a child process."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Final

from sideband.core.accept import Accepted, accept
from sideband.core.errors import TooManyPending
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.parse import parse
from sideband.core.reminder import Draft
from sideband.core.state import Decision
from sideband.core.surfaces import Surface
from sideband.core.trust import IN_PROCESS
from sideband.ports import Journal
from sideband.runtime.session import Session
from sideband.runtime.system import new_id
from sideband.store.sqlite import open_sqlite

BODY: Final = "src/auth.py changed on disk; re-read it before editing. " * 5
SESSION: Final = "main"
AT_ONCE: Final = 64
STATUS: Final = Path("/proc/self/status")

# No limit on pending items: only the store is measured.
ROOMY: Final = Limits(pending_per_session=10**9, pending_per_source={})


def a_draft() -> Draft:
    """A reminder as a watcher sends it, already parsed."""
    return parse({"body": BODY, "tags": ["file"], "ttl_turns": 2}, Surface.SESSION, limits=ROOMY)


def an_accept(draft: Draft, *, limits: Limits = ROOMY) -> Decision[Accepted]:
    """The decision to accept this draft once."""
    reminder_id = new_id()
    return lambda state: accept(state, draft, IN_PROCESS, new_id=reminder_id, limits=limits)


# The baseline: append and sync.


def append_and_sync(path: Path, calls: int) -> list[int]:
    """The time of each of `calls` appends, each with its own sync and as many bytes as an accept writes."""
    line = b"x" * 700
    spent: list[int] = []
    with path.open("ab", buffering=0) as file:
        for _ in range(calls):
            start = perf_counter_ns()
            file.write(line)
            os.fsync(file.fileno())
            spent.append(perf_counter_ns() - start)
    return spent


# Accepts into a store.


async def a_session(store: Journal, session_id: str) -> Session:
    """A session as a program uses it: a measured call begins with the text and ends with the acknowledgement."""
    await store.open(session_id)
    return Session(store, session_id, new_id=new_id, limits=ROOMY)


async def one_by_one(store: Journal, calls: int) -> list[int]:
    session = await a_session(store, SESSION)
    spent: list[int] = []
    for _ in range(calls):
        start = perf_counter_ns()
        await session.remind(BODY, tags=["file"], ttl_turns=2)
        spent.append(perf_counter_ns() - start)
    return spent


async def committed(store: Journal, calls: int) -> list[int]:
    """The time of each of `calls` commits of a reminder that is already parsed."""
    await store.open(SESSION)
    draft = a_draft()
    spent: list[int] = []
    for _ in range(calls):
        decide = an_accept(draft)
        start = perf_counter_ns()
        await store.commit(SESSION, decide)
        spent.append(perf_counter_ns() - start)
    return spent


async def at_once(store: Journal, each: int, *, name: str = SESSION, sessions: int = 8) -> float:
    """Nanoseconds per accept with `AT_ONCE` senders; each sends the next reminder when the last was acknowledged.

    The senders share `sessions` sessions, which are named by `name` and a number.
    """
    held = [await a_session(store, f"{name}-{number}") for number in range(sessions)]

    async def send(sender: int) -> None:
        session = held[sender % sessions]
        for _ in range(each):
            await session.remind(BODY, tags=["file"], ttl_turns=2)

    start = perf_counter_ns()
    await asyncio.gather(*map(send, range(AT_ONCE)))
    return (perf_counter_ns() - start) / (AT_ONCE * each)


async def grow(store: Journal, session_id: str, events: int) -> None:
    """Write `events` events to a session: reminders, some of which displace an earlier one with their key."""
    draft = a_draft()
    while events > 0:
        drafts = [_keyed(draft, number) for number in range(min(events, 250))]
        accepted = await asyncio.gather(*(store.commit(session_id, an_accept(each)) for each in drafts))
        events -= sum(1 + each.deduped_count for each in accepted)


def _keyed(draft: Draft, number: int) -> Draft:
    return Draft(body=draft.body, tags=draft.tags, ttl_turns=draft.ttl_turns, dedupe_key=f"file:{number % 50}")


# Roles of a child process.


async def neighbour(path: str, _number: str) -> None:
    """Accept one reminder for each line of input, and print when the commit was asked for."""
    store = await open_sqlite(path)
    await store.open(SESSION)
    draft = a_draft()
    _say("ready")
    while await asyncio.to_thread(sys.stdin.readline):
        start = perf_counter_ns()
        await store.commit(SESSION, an_accept(draft))
        _say(str(start))
    await store.close()


async def opened(path: str, _number: str) -> None:
    """Print how long it takes to open a session."""
    store = await open_sqlite(path)
    start = perf_counter_ns()
    await store.open(SESSION)
    _say(str(perf_counter_ns() - start))
    await store.close()


async def refused(path: str, number: str) -> None:
    """Print by how many bytes the process grows while `number` reminders are refused."""
    store = await open_sqlite(path)
    limits = Limits(pending_per_session=DEFAULT_LIMITS.pending_per_session, pending_per_source={})
    draft = a_draft()
    for _ in range(limits.pending_per_session):
        await store.commit(SESSION, an_accept(draft, limits=limits))
    before, left = _resident(), int(number)
    while left > 0:
        crowd = min(left, 500)
        outcomes = await asyncio.gather(
            *(store.commit(SESSION, an_accept(draft, limits=limits)) for _ in range(crowd)), return_exceptions=True
        )
        assert all(isinstance(outcome, TooManyPending) for outcome in outcomes)
        left -= crowd
    _say(str(_resident() - before))
    await store.close()


def _resident() -> int:
    """The resident memory of this process, in bytes."""
    for line in STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    roles: dict[str, Callable[[str, str], Awaitable[None]]] = {
        "neighbour": neighbour,
        "opened": opened,
        "refused": refused,
    }
    asyncio.run(roles[sys.argv[1]](sys.argv[2], sys.argv[3]))  # type: ignore[arg-type]  # each is a coroutine function
