"""A process that uses a PostgreSQL store, for tests that need several of them.

    python -m tests.postgres_client URL ROLE NAME COUNT

Everything it has to tell is a line on its standard output.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from sideband.core.errors import SessionBusy
from sideband.core.events import Event, Idled, Started
from sideband.core.limits import Limits
from sideband.core.state import SessionState
from sideband.store.postgres import PostgresStore, open_postgres
from tests.builders import a_draft
from tests.decisions import deciding, saying
from tests.unit.store.twins import Sender

SESSION: Final = "s"
CLIENTS: Final = 2
WRITERS: Final = 8
ROOMY: Final = Limits(pending_per_session=100_000, pending_per_source={})

Role: TypeAlias = Callable[[PostgresStore, str, int], Awaitable[None]]


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201 - this is how it is heard


def begin(state: SessionState) -> Iterable[Event]:
    if state.running:
        raise RuntimeError("another process runs it")
    return (Started(),)


async def run(store: PostgresStore, name: str, count: int) -> None:
    """Run the session so many times, whenever it is free."""
    for _ in range(count):
        while True:
            try:
                lease = await store.acquire(SESSION, name)
                break
            except SessionBusy:
                await asyncio.sleep(0.002)
        await store.commit(SESSION, deciding(begin), lease=lease)
        lease = await store.renew(lease)
        await store.commit(SESSION, saying(Idled()), lease=lease)
        await store.release(lease)


async def send(store: PostgresStore, name: str, count: int) -> None:
    """Several clients, each of which sends one reminder after the other."""

    async def client(number: int) -> None:
        sender = Sender(store, name=f"{name}{number}")
        for _ in range(count):
            await sender.send(a_draft(), session_id=SESSION, limits=ROOMY)

    await asyncio.gather(*map(client, range(CLIENTS)))


async def dedupe(store: PostgresStore, name: str, count: int) -> None:
    """Many writers of one key at once, again and again; tells how many they displaced."""
    writers = [Sender(store, name=f"{name}{number}") for number in range(WRITERS)]
    for _ in range(count):
        await asyncio.gather(*(writer.send(a_draft(dedupe_key="k"), session_id=SESSION) for writer in writers))
    say(sum(answer.deduped_count for writer in writers for answer in writer.answers))


async def acknowledge(store: PostgresStore, name: str, count: int) -> None:
    """Tell the id of each reminder when it is accepted."""

    async def client(number: int) -> None:
        sender = Sender(store, name=f"{name}{number}")
        for _ in range(count):
            say((await sender.send(a_draft(), session_id=SESSION, limits=ROOMY)).reminder_id)

    await asyncio.gather(*map(client, range(CLIENTS)))


ROLES: Final[Mapping[str, Role]] = MappingProxyType({role.__name__: role for role in (run, send, dedupe, acknowledge)})


async def main(url: str, role: str, name: str, count: str) -> None:
    store = await open_postgres(url)
    try:
        await ROLES[role](store, name, int(count))
    finally:
        await store.close()
    say("done")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
