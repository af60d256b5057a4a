"""A process that works on a store until it is killed.

    python -m tests.stored_victim ADDRESS ROLE

Everything that it has done, and that is durable by then, is a line on its standard output.
"""

import asyncio
import itertools
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from sideband.core.events import Compacted, Event, TurnCommitted
from sideband.core.lifecycle import go_live, plan_compaction
from sideband.core.limits import Limits
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS
from sideband.runtime.store import Store, open_store
from tests.builders import a_reminder
from tests.decisions import deciding
from tests.stored_agents import run

SESSION: Final = "s"
ROOMY: Final = Limits(pending_per_session=10**6)


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - this is how it is heard


async def send(store: Store) -> None:
    """Say the id of each reminder when it is accepted."""
    session = await store.session(SESSION)
    for number in itertools.count():
        say((await session.remind(f"fact {number}")).reminder_id)


async def ask(store: Store) -> None:
    """Run an agent whose model was asked and does not answer."""

    async def never(_view: object) -> str:
        say("asked")
        await asyncio.Event().wait()
        return ""

    await run(await store.session(SESSION), never)


async def tidy(store: Store) -> None:
    """One turn after the other, each of which is compacted away; the number of each step is said when it is made."""
    journal = store.journal
    await journal.open(SESSION)
    for number in itertools.count(journal.state(SESSION).live.turn + 1):
        await journal.commit(SESSION, deciding(_turn(number)))
        say(f"turn {number}")
        await journal.commit(SESSION, deciding(tidied(number)))
        say(f"tidied {number}")


def _turn(number: int) -> Callable[[SessionState], Iterable[Event]]:
    def decide(state: SessionState) -> Iterable[Event]:
        yield from go_live(state, a_reminder(f"goes-{number}"), IN_PROCESS)
        yield from go_live(
            state, a_reminder(f"stays-{number}", dedupe_key="kept", preserve_on_compact=True), IN_PROCESS
        )
        yield TurnCommitted(turn=number, reply={"role": "assistant", "content": f"reply {number}"})

    return decide


def tidied(number: int) -> Callable[[SessionState], Iterable[Event]]:
    """Compact the whole conversation into a summary."""
    summary = {"role": "user", "content": f"summary {number}"}
    return lambda state: (
        *plan_compaction(state).events,
        Compacted(turn=state.live.turn, archived_messages=len(state.messages), messages=(summary,)),
    )


ROLES: Final[Mapping[str, Callable[[Store], Awaitable[None]]]] = MappingProxyType(
    {"send": send, "ask": ask, "tidy": tidy}
)


async def main(address: str, role: str) -> None:
    async with open_store(address, limits=ROOMY) as store:
        await ROLES[role](store)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
