"""A process with its own store: it executes each line of its input as a command and prints the result."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from sideband.core.errors import ReminderError, StoreError
from sideband.core.limits import Limits
from sideband.ports import Lease
from sideband.store.sqlite import SqliteSettings, SqliteStore, open_sqlite
from tests.builders import a_draft
from tests.unit.store.twins import Sender, a_start, told

# A process that is to be killed sends until then, which may take a while.
ROOMY: Final = Limits(pending_per_session=1_000_000, pending_per_source={})


class Process:
    """`leases` are those it has, by session."""

    def __init__(self, store: SqliteStore, name: str) -> None:
        self.store = store
        self.name = name
        self.sender = Sender(store, name=name)
        self.leases: dict[str, Lease] = {}

    async def send(self, count: str) -> None:
        """So many reminders one after the other; the id of each is said when it is acknowledged."""
        for _ in range(int(count)):
            say((await self.sender.send(a_draft(), limits=ROOMY)).reminder_id)

    async def collide(self, count: str) -> None:
        """The same, all of one key; how many each displaced is said."""
        for _ in range(int(count)):
            say(str((await self.sender.send(a_draft(dedupe_key="k"))).deduped_count))

    async def acquire(self, session_id: str) -> None:
        self.leases[session_id] = await self.store.acquire(session_id, self.name)
        say("taken")

    async def run(self, session_id: str) -> None:
        """A commit of its run."""
        await self.store.commit(session_id, a_start, lease=self.leases[session_id])
        say("committed")

    async def wait(self, session_id: str) -> None:
        """Wait for news of a session."""
        await self.store.open(session_id)
        wake = self.store.wake(session_id)
        wake.clear()
        say("waiting")
        await wake.wait()
        say(f"woken, {len(self.store.state(session_id).inbox)} waiting")

    async def count(self, _argument: str) -> None:
        say(str(len(await told(self.store))))

    async def modules(self, name: str) -> None:
        say(str(name in sys.modules))


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - this is how it is heard


async def main(path: str, name: str, lease_seconds: str, poll_seconds: str) -> None:
    settings = SqliteSettings(lease_seconds=float(lease_seconds), poll_seconds=float(poll_seconds))
    store = await open_sqlite(path, settings)
    process = Process(store, name)
    commands: Final[Mapping[str, Callable[[str], Awaitable[None]]]] = {
        "send": process.send,
        "collide": process.collide,
        "acquire": process.acquire,
        "run": process.run,
        "wait": process.wait,
        "count": process.count,
        "modules": process.modules,
    }
    say("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        command, _, argument = line.strip().partition(" ")
        try:
            await commands[command](argument)
        except (ReminderError, StoreError) as error:
            say(error.reason)
        say("done")
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
