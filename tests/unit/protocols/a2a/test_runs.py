"""How a server runs tasks: with their MCP servers, after other processes, and without keeping what has ended."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from sideband.models.scripted import Line
from sideband.ports import Tool
from sideband.protocols.a2a import runs
from sideband.protocols.a2a.runs import TaskRuns
from sideband.protocols.mcp.servers import LazyServers
from sideband.runtime.session import Session
from sideband.testing import ScriptedModel
from tests.a2a_callers import Door, in_time, message, on_sockets, served
from tests.acp_scenes import calling
from tests.mcp_hosts import a_raw_server, a_reminder
from tests.waiting import until


@on_sockets
async def test_a_task_has_the_tools_and_the_reminders_of_mcp_servers() -> None:
    send = calling("mcp__shared__send", lines=[a_reminder(body="A file changed.")])

    async def when_it_is_accepted(_view: object) -> str:
        (entry,) = (await tasks.store.sessions()).sessions
        session = await tasks.store.find(entry.session_id)
        assert session is not None
        while not await session.pending():  # noqa: ASYNC110 - of the host
            await asyncio.sleep(0.001)
        return "Done."

    model = ScriptedModel([send, when_it_is_accepted, "Done, and I know it."])
    async with served(model, servers=LazyServers((a_raw_server("shared"),))) as tasks:
        task = (await tasks.caller().call("SendMessage", message()))["task"]
    assert "mcp__shared__send" in model.requests[0].tools
    assert '<server-notice from="shared">' in model.requests[2].text
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


class BrokenServers:
    """Servers that cannot be used."""

    def __init__(self) -> None:
        self.detached: list[str] = []

    def read(self, given: object, *, cwd: str) -> Sequence[Any]:
        raise AssertionError((given, cwd))

    async def attach(self, session: Session, given: Sequence[Any]) -> Sequence[Tool]:
        raise OSError(f"no server for {session.id} and {given}")

    async def detach(self, session: Session, tools: Sequence[Tool]) -> None:
        assert tools == ()
        self.detached.append(session.id)

    async def close(self) -> None:
        """There is nothing to close."""


@on_sockets
async def test_a_task_is_done_without_servers_that_fail(caplog: pytest.LogCaptureFixture) -> None:
    servers = BrokenServers()
    async with served(["Done."], servers=servers) as tasks:
        task = (await tasks.caller().call("SendMessage", message()))["task"]
        await in_time(until(lambda: servers.detached))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert servers.detached == [task["id"]]
    assert "its MCP servers cannot be used" in caplog.text


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[TaskRuns]:
    """The runs of the servers that the test starts, which look for left tasks all the time."""
    found: list[TaskRuns] = []
    start = TaskRuns.start

    def noted(self: TaskRuns) -> None:
        found.append(self)
        start(self)

    monkeypatch.setattr(TaskRuns, "start", noted)
    monkeypatch.setattr(runs, "SWEEP_SECONDS", 0.01)
    monkeypatch.setattr(runs, "SILENT_MS", 0)
    return found


@on_sockets
async def test_nothing_is_kept_of_tasks_that_have_ended_or_were_cancelled(kept: list[TaskRuns]) -> None:
    door = Door()
    script: list[Line] = [calling("wait_at_the_door"), "Done.", "Done.", "Done."]
    async with served(script, options={"tools": [door.wait_at_the_door]}) as tasks:
        caller = tasks.caller()
        first = await caller.begin()
        await door.entered.wait()
        await caller.call("CancelTask", {"id": first["id"]})
        for _ in range(3):
            await caller.call("SendMessage", message())
        await in_time(until(lambda: not kept[0]._hosted))


@on_sockets
async def test_a_task_whose_work_cannot_be_continued_fails(kept: list[TaskRuns]) -> None:
    attributes = {
        "kind": "a2a",
        "service": "sideband",
        "task_id": "t",
        "context_id": "c",
        "owner": "local",
        "task_state": "TASK_STATE_SUBMITTED",
    }
    async with served() as tasks:
        await tasks.store.begin("t", attributes=attributes)
        await in_time(_until_state(tasks.caller(), "t", "TASK_STATE_FAILED"))
        task = await tasks.caller().task("t")
    assert kept
    assert "ended" in task["status"]["message"]["parts"][0]["text"]


async def _until_state(caller: Any, task_id: str, state: str) -> None:  # noqa: ANN401 - a caller
    while (await caller.task(task_id))["status"]["state"] != state:  # noqa: ASYNC110 - of another task
        await asyncio.sleep(0.005)


@on_sockets
async def test_a_store_that_fails_is_asked_again(kept: list[TaskRuns], caplog: pytest.LogCaptureFixture) -> None:
    async with served(["Done."]) as tasks:
        journal, tasks.store._journal = tasks.store._journal, None
        await in_time(until(lambda: "cannot be looked for" in caplog.text))
        tasks.store._journal = journal
        task = (await tasks.caller().call("SendMessage", message()))["task"]
    assert kept
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
