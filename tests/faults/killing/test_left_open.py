"""A request that a killed process has left open, and what has happened to its reminders since."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sideband.core.apply import fold
from sideband.loop.run import LoopStatus
from sideband.runtime.agents import agent_loop
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from sideband.store.memory import MemoryStore
from tests.faults.laws import broken
from tests.faults.scripted_agent import RehearsedModel, WorkTool
from tests.faults.witness import Witness


async def run(session: Session, witness: Witness, at: Callable[[str], Awaitable[None]] | None = None) -> LoopStatus:
    stop = () if at is None else (at,)
    result = await agent_loop(
        None,
        session=session,
        model=RehearsedModel(session, witness.hear, *stop, turns=2),
        tools=[WorkTool(session, witness.hear)],
        reminders=False,
    )
    assert result.error is None
    return result.status


async def left_behind(store: MemoryStore) -> MemoryStore:
    """The journal as another process finds it."""
    found = MemoryStore()
    found.journal = list(store.journal)
    found._states["s"] = fold(logged.event for logged in store.journal)
    return found


async def clear(session: Session) -> None:
    assert await session.clear(dedupe_key="k") == 1


async def replace(session: Session) -> None:
    await session.remind("The build is green.", dedupe_key="k")


async def nothing(_session: Session) -> None: ...


@pytest.mark.requirement("loop:retry:same-fragments")
@pytest.mark.parametrize("meanwhile", [nothing, clear, replace])
def test_a_request_that_was_left_open_is_sent_again_as_it_was(meanwhile: Callable[[Session], Awaitable[None]]) -> None:
    async def story() -> None:
        witness, store = Witness(), MemoryStore()
        asked = asyncio.Event()

        async def stop(moment: str) -> None:
            if moment == "answer":
                asked.set()
                await asyncio.Event().wait()

        session = await Store(store).session("s")
        await session.remind("The build is red.", dedupe_key="k", ttl_turns=2)
        await session.prompt("Begin.")
        running = asyncio.ensure_future(run(session, witness, stop))
        await asked.wait()
        found = await left_behind(store)
        running.cancel()
        await asyncio.wait([running])

        session = await Store(found).session("s")
        await meanwhile(session)
        assert await run(session, witness) is LoopStatus.COMPLETED
        assert broken([logged.event for logged in found.journal], witness) == []
        assert [(sent.turn, sent.attempt) for sent in witness.sent] == [(1, 1), (1, 2), (2, 1)]
        assert witness.sent[0].body == witness.sent[1].body

    asyncio.run(asyncio.wait_for(story(), 60))
