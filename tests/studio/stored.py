"""Sessions that are written into a store before a server opens it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, Final

from sideband.core.limits import Limits
from sideband.core.messages import Reply, ToolCall
from sideband.loop.hooks import Hooks
from sideband.providers.registry import Registry
from sideband.runtime.agents import agent_loop
from sideband.runtime.session import Session
from sideband.runtime.store import open_store
from sideband.testing import ScriptedModel

ROOMY: Final = Limits(pending_per_session=100_000, pending_per_source={})
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def a_stored_session(
    store: str, name: str, tell: Callable[[Session], Awaitable[None]], *, records: Mapping[str, Any] = NOTHING
) -> None:
    """Begin a session in this store, and let `tell` do what it wants with it."""

    async def write() -> None:
        async with open_store(store, limits=ROOMY) as opened:
            session = await opened.session(name)
            if records:
                await session.record(records)
            await tell(session)

    # In a thread, because the driver of the browser runs an event loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, write()).result()


async def play(
    session: Session, script: list[Reply | str], *tools: Callable[..., object], task: str = "Go on."
) -> None:
    """Run the session with a model that says this, without providers and hooks."""
    await agent_loop(
        task,
        session=session,
        model=ScriptedModel(script),
        tools=tools,
        hooks=Hooks(),
        providers=Registry(),
        reminders=False,
        max_turns=len(script) + 10,
    )


def look(place: str) -> str:
    """Look at a place."""
    return f"Nothing is wrong at {place}. " * 5


def a_long_session(store: str, name: str, *, events: int, reminders: int) -> None:
    """A session with at least so many events, and exactly so many reminders in all states."""

    async def tell(session: Session) -> None:
        told = 0
        while told < reminders:
            for _ in range(min(reminders - told, reminders // 20)):
                told += 1
                await session.remind(
                    f"Reminder {told}: the build number {told} is {'red' if told % 3 else 'green'}.",
                    tags=[f"tag-{told % 7}"],
                    dedupe_key=f"build:{told % 60}" if told % 2 else None,
                    ttl_turns=told % 5 + 1,
                )
            await play(
                session, [_step(told * 100 + step) for step in range(8)], look, task=f"Look around, part {told}."
            )
        while (cursor := (await session.view()).cursor) < events:
            await play(session, [_step(cursor * 100 + step) for step in range(40)], look, task="Look further.")

    a_stored_session(store, name, tell, records={"title": f"{events} events"})


def _step(number: int) -> Reply:
    return Reply(
        text=f"I look at place {number}.",
        tool_calls=(ToolCall(id=f"c-{number}", name="look", args={"place": str(number)}),),
    )
