"""An agent that delegates to a real A2A server in the same program, and what the delegated task gets from it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from sideband.core.messages import Reply, ToolCall
from sideband.core.updates import ReminderUpdate, UpdateKind
from sideband.loop.run import LoopResult
from sideband.models.scripted import Line
from sideband.protocols.a2a.client import PeerAgent, connect
from sideband.protocols.a2a.propagate import delegate_tool
from sideband.protocols.a2a.tasks import KIND, KIND_RECORD
from sideband.runtime.agents import agent_loop
from sideband.runtime.session import Session
from sideband.runtime.store import open_store
from sideband.testing import ScriptedModel
from tests.a2a_callers import Door, ServedTasks, in_time, served

WAITS: Final = Reply(text="I wait.", tool_calls=(ToolCall(id="w", name="wait_at_the_door"),))
DELEGATES: Final = Reply(text="", tool_calls=(ToolCall(id="d", name="delegate", args={"task": "Rebase it."}),))


class Delegation:
    """A coordinator with a session of its own, and the worker that it delegates to."""

    def __init__(self, tasks: ServedTasks, peer: PeerAgent, session: Session, door: Door) -> None:
        self.tasks = tasks
        self.peer = peer
        self.session = session
        self.door = door
        self.model = ScriptedModel([DELEGATES, "Reported."])

    def run(self, **options: Any) -> "asyncio.Task[LoopResult]":  # noqa: ANN401 - those of delegate_tool
        """Run the coordinator, whose only step is to delegate."""
        tool = delegate_tool(self.peer, session=self.session, **options)
        return asyncio.create_task(agent_loop("Go.", session=self.session, model=self.model, tools=[tool]))

    @property
    def result(self) -> dict[str, Any]:
        """The result of the delegation, as the coordinator's model got it."""
        message: dict[str, Any] = self.model.requests[1].messages[-1]
        return message

    async def worker(self) -> Session:
        """The session of the delegated task, when its agent waits at the door."""
        await in_time(self.door.entered.wait())
        (entry,) = (await self.tasks.store.sessions(records={KIND_RECORD: KIND})).sessions
        found = await self.tasks.store.find(entry.session_id)
        assert found is not None
        return found


async def told(session: Session, count: int, kind: UpdateKind = UpdateKind.REMINDER_QUEUED) -> list[ReminderUpdate]:
    """The first updates of this kind, as soon as there are so many."""

    async def read() -> list[ReminderUpdate]:
        found: list[ReminderUpdate] = []
        async with aclosing(session.updates()) as updates:
            async for update in updates:
                if isinstance(update, ReminderUpdate) and update.kind is kind:
                    found.append(update)
                if len(found) == count:
                    break
        return found

    return list(await in_time(read()))


def bodies(updates: Sequence[ReminderUpdate]) -> list[str]:
    return [update.reminder.body for update in updates if update.reminder is not None]


@asynccontextmanager
async def a_delegation(
    script: Sequence[Line] = (WAITS, "The branch is rebased."),
    *,
    token: str | None = None,
    **options: Any,  # noqa: ANN401 - those of `served`
) -> AsyncIterator[Delegation]:
    """A coordinator and a worker whose model follows this script."""
    door = Door()
    async with (
        served(script, options={"tools": [door.wait_at_the_door]}, **options) as tasks,
        open_store("memory:") as store,
        connect(tasks.url, token=token) as peer,
    ):
        yield Delegation(tasks, peer, await store.begin("coordinator"), door)
