"""Each stock agent is driven by the ACP client of Sideband, without the proxy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sideband.core.errors import NoRunningTurn, UnknownSession
from sideband.protocols.acp.client import (
    AgentClient,
    InjectRoute,
    MessageSent,
    NotSupportedByAgent,
    PermissionRequest,
    ReminderRoute,
    connect,
)
from tests.stock.agents import BIN
from tests.stock.model import Reply
from tests.stock.stage import Stage, on_agents_that_steer, on_every_agent


@asynccontextmanager
async def a_client(stage: Stage) -> AsyncIterator[AgentClient]:
    """A client that allows everything and has logged in."""

    async def allow(request: PermissionRequest) -> str | None:
        return next(str(option["optionId"]) for option in request.options if option["kind"] == "allow_once")

    program, *arguments = stage.agent.command
    async with connect(
        [str(BIN / program), *arguments],
        cwd=stage.place.directory,
        env=stage.environment,
        ask_permission=allow,
        answer_seconds=30,
    ) as client:
        if stage.agent.auth_method is not None:
            await client.authenticate(stage.agent.auth_method)
        yield client


@on_every_agent
async def test_the_client_drives_a_turn_and_falls_back(stage: Stage) -> None:
    tool = stage.tool("tool-output")
    stage.model.will_reply(Reply(text="Calling.", call=stage.agent.call(tool.command)), Reply(text="All is done."))
    async with a_client(stage) as client:
        session = await client.new_session()
        assert (await session.remind("The build is red.")).route is ReminderRoute.SUPPRESSED
        turn = session.prompt("Run the tool.")
        await tool.started()
        tool.end()
        updates = [update async for update in turn]
        assert turn.stop_reason == "end_turn"
        said = "".join(
            update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk"
        )
        assert "All is done." in said
        assert not any("The build is red." in part.text for request in stage.model.requests for part in request.parts)
        with pytest.raises(NoRunningTurn if stage.agent.steers else NotSupportedByAgent):
            await session.inject("Stop.")
        with pytest.raises(UnknownSession):
            await client.load_session("01990000-0000-7000-8000-000000000000")


@on_agents_that_steer
async def test_the_client_steers_while_a_tool_runs(stage: Stage) -> None:
    tool = stage.tool("tool-output")
    stage.model.will_reply(Reply(text="Calling.", call=stage.agent.call(tool.command)), Reply(text="All is done."))
    async with a_client(stage) as client:
        session = await client.new_session()
        turn = session.prompt("Run the tool.")
        await tool.started()
        assert await session.inject("Use the blue-green plan.") == MessageSent(InjectRoute.INJECTED)
        tool.end()
        assert await asyncio.wait_for(turn, 30) == "end_turn"
        last = stage.model.requests[-1]
        assert any("Use the blue-green plan." in part.text for part in last.parts)
