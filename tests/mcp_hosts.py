"""Hosts with real servers in processes of their own, and everything that the host reports."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.updates import ReminderUpdate
from sideband.ports import Tool, ToolOutput
from sideband.protocols.mcp.config import RemindersConfig, ServerConfig
from sideband.protocols.mcp.host import Admission, HostReport, McpHost, ReminderReport, ServerReport
from sideband.runtime.session import Session
from sideband.runtime.store import Store, open_store
from tests.programs import ROOT
from tests.waiting import until

RAW: Final = ROOT / "tests" / "mcp_raw_server.py"
EMITS: Final = {"reminders": {"emit": True}}
SECONDS: Final = 60.0


class NoContext:
    """The context of a call that reports nothing."""

    call_id = "call"

    def applied(self, what: str) -> None: ...


def a_raw_server(
    name: str = "raw",
    declares: Mapping[str, Any] | None = None,
    *more: str,
    reminders: RemindersConfig | None = None,
) -> ServerConfig:
    """A server of the test without an SDK; by default it declares reminders as the proposal says."""
    declared = json.dumps(EMITS if declares is None else declares)
    return ServerConfig(
        name=name, command=(sys.executable, str(RAW), declared, *more), reminders=reminders or RemindersConfig()
    )


def a_reminder(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - the fields of any reminder
    """The frame of a reminder; each has another id."""
    reminder = {"id": "r{n}", "body": "The tests are red.", **fields}
    return {"jsonrpc": "2.0", "method": "notifications/reminder", "params": {"reminder": reminder}}


class Desk:
    """A host with its servers, and a session that is attached."""

    def __init__(self, store: Store, session: Session) -> None:
        self.store = store
        self.session = session
        self.reports: list[HostReport] = []
        self.host: McpHost
        self.tools: tuple[Tool, ...] = ()

    async def call(self, tool: str, server: str = "raw", **args: Any) -> ToolOutput:  # noqa: ANN401 - any arguments
        found = {one.name: one for one in self.tools}
        return await found[f"mcp__{server}__{tool}"].call(args, NoContext())

    async def send(self, *lines: object, times: int = 1, server: str = "raw") -> None:
        """Let the server write these lines; they have arrived when this returns."""
        await self.call("send", server, lines=list(lines), times=times)

    def told(self, admission: Admission) -> list[ReminderReport]:
        return [one for one in self.reports if isinstance(one, ReminderReport) and one.admission is admission]

    def states(self) -> list[str]:
        return [one.state for one in self.reports if isinstance(one, ServerReport)]

    async def accepted(self, count: int) -> list[ReminderReport]:
        """The accepted reminders, when there are so many."""
        await until(lambda: len(self.told(Admission.ACCEPTED)) >= count)
        return self.told(Admission.ACCEPTED)

    async def pending(self, session: Session | None = None) -> list[tuple[str, str]]:
        """The ids and bodies of what is pending."""
        return [(one.reminder.id, one.reminder.body) for one in await (session or self.session).pending()]

    async def dropped(self, session: Session | None = None) -> dict[str, int]:
        """How many reminders were dropped at the door, by reason, as the events of the session tell."""
        await (session or self.session).intake.write()
        counts: dict[str, int] = {}
        async for update in (session or self.session).updates(follow=False):
            if isinstance(update, ReminderUpdate) and update.reason is not None and update.at_the_door:
                counts[update.reason] = counts.get(update.reason, 0) + update.count
        return counts


@asynccontextmanager
async def a_desk(
    *servers: ServerConfig, url: str = "memory:", limits: Limits = DEFAULT_LIMITS, attach: bool = True
) -> AsyncIterator[Desk]:
    """A host with these servers, or with one raw server, and a session in a store."""
    async with asyncio.timeout(SECONDS), open_store(url, limits=limits) as store:
        session = await store.begin("s")
        desk = Desk(store, session)
        async with McpHost(servers or (a_raw_server(),), on_report=desk.reports.append) as desk.host:
            if attach:
                desk.tools = tuple(await desk.host.attach(session))
            yield desk
