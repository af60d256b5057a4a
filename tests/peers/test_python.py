"""The official Python SDK as the client; it speaks version 1."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from acp.client.connection import ClientSideConnection
from acp.client.router import build_client_router
from acp.connection import Connection
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, spawn_stdio_transport, text_block
from tests.loopback import over_sockets
from tests.peers.clients import Json, environment, scripted, sideband_acp, text

WRITES: Final[Json] = {"call": "write_file", "args": {"path": "new.txt", "content": "one\n"}, "say": "I write."}


class SdkClient:
    """The methods that the SDK calls; `updates` are its models, in JSON."""

    def __init__(self) -> None:
        self.updates: list[Json] = []
        self.asked: list[str] = []
        self._changed = asyncio.Condition()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:  # noqa: ANN401, ARG002 - of the SDK
        async with self._changed:
            self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))
            self._changed.notify_all()

    async def request_permission(
        self,
        session_id: str,  # noqa: ARG002 - of the SDK
        tool_call: ToolCallUpdate,
        options: list[PermissionOption],
        **_: Any,  # noqa: ANN401 - of the SDK
    ) -> RequestPermissionResponse:
        self.asked.append(str(tool_call.title))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=options[0].option_id))

    async def until(self, holds: Callable[[], object]) -> None:
        async with self._changed:
            await self._changed.wait_for(holds)

    def named(self, name: str) -> list[Json]:
        return [update for update in self.updates if update["sessionUpdate"] == name]

    def carried(self) -> list[Json]:
        """The reminder updates, as they are carried to clients that do not know them."""
        metas = [(update.get("_meta") or {}).get("sideband", {}) for update in self.named("session_info_update")]
        return [meta["update"] for meta in metas if "update" in meta]

    def said(self) -> str:
        return "".join(update["content"]["text"] for update in self.named("agent_message_chunk"))


@asynccontextmanager
async def connected(command: list[str], home: Path) -> AsyncIterator[tuple[SdkClient, ClientSideConnection]]:
    client = SdkClient()
    unstable = {"use_unstable_protocol": True}
    # The SDK knows only whole implementations of its `Client`; this one has the methods that the agent calls.
    async with spawn_agent_process(client, *command, env=environment(home), **unstable) as (connection, _):  # type: ignore[arg-type]
        yield client, connection


@over_sockets
async def test_it_sees_what_the_agent_can_do(store: Path, home: Path) -> None:
    async with connected(sideband_acp(store), home) as (_, connection):
        told = await connection.initialize(PROTOCOL_VERSION)
        assert told.protocol_version == 1
        assert told.agent_info is not None
        assert told.agent_info.name == "sideband"
        can = told.agent_capabilities
        assert can is not None
        assert can.load_session
        # It drops members that it does not know; those under `_meta` stay.
        assert "reminders" not in can.model_dump()
        assert can.field_meta is not None
        assert can.field_meta["sideband"]["reminders"]["inject"] is True
        assert told.field_meta == {"steering": {"supported": True}}


@over_sockets
async def test_it_holds_a_conversation_and_finds_it_again(store: Path, workspace: Path, home: Path) -> None:
    async with connected(scripted(store, "One two three.", WRITES, "Done."), home) as (client, connection):
        await connection.initialize(PROTOCOL_VERSION)
        made = await connection.new_session(cwd=str(workspace), mcp_servers=[])
        session_id = made.session_id
        assert made.modes is not None
        assert made.modes.current_mode_id == "ask"
        answer = await connection.prompt(session_id=session_id, prompt=[text_block("Count.")])
        assert answer.stop_reason == "end_turn"
        await client.until(lambda: client.said() == "One two three.")
        assert len(client.named("agent_message_chunk")) == 3
        told = await connection.ext_method(
            "sideband/session/inject_reminder", {"sessionId": session_id, "body": "The build is red.", "ttlTurns": 1}
        )
        assert told["dedupedCount"] == 0
        await connection.prompt(session_id=session_id, prompt=[text_block("Write.")])
        await client.until(lambda: client.said().endswith("Done."))
        assert client.asked == ["Write new.txt"]
        assert [call["status"] for call in client.named("tool_call_update")] == ["in_progress", "completed"]
        bodies = [update["body"] for update in client.carried() if update["sessionUpdate"] == "reminder_emitted"]
        assert bodies[-1] == "The build is red."
        await connection.close_session(session_id)
    assert (workspace / "new.txt").read_text("utf-8") == "one\n"

    async with connected(scripted(store, "Four."), home) as (client, connection):
        await connection.initialize(PROTOCOL_VERSION)
        assert [one.session_id for one in (await connection.list_sessions()).sessions] == [session_id]
        await connection.load_session(cwd=str(workspace), session_id=session_id, mcp_servers=[])
        await client.until(lambda: client.said() == "One two three.I write.Done.")
        texts = [update["content"]["text"] for update in client.named("user_message_chunk")]
        assert texts == ["Count.", "Write."]
        await connection.resume_session(session_id=session_id, cwd=str(workspace))
        await connection.prompt(session_id=session_id, prompt=[text_block("Go on.")])
        await client.until(lambda: client.said().endswith("Done.Four."))


@over_sockets
async def test_it_cancels_a_turn_and_reads_the_errors(store: Path, workspace: Path, home: Path) -> None:
    never = {"until": str(workspace / "never"), "say": "Too late."}
    async with connected(scripted(store, never), home) as (client, connection):
        await connection.initialize(PROTOCOL_VERSION)
        session_id = (await connection.new_session(cwd=str(workspace), mcp_servers=[])).session_id
        prompting = asyncio.ensure_future(connection.prompt(session_id=session_id, prompt=[text_block("Think.")]))
        await client.until(client.carried)
        await connection.cancel(session_id=session_id)
        assert (await prompting).stop_reason == "cancelled"
        with pytest.raises(RequestError) as refused:
            await connection.prompt(session_id="nowhere", prompt=[text_block("Go.")])
        assert refused.value.code == -32002
        assert "unknown_session" in str(refused.value.data)


@over_sockets
async def test_its_router_sends_the_names_of_the_proposals(store: Path, workspace: Path, home: Path) -> None:
    client = SdkClient()
    [program, *arguments] = sideband_acp(store)
    async with spawn_stdio_transport(program, *arguments, env=environment(home)) as (reader, writer, _):
        connection = Connection(build_client_router(client), writer, reader)  # type: ignore[arg-type]  # as above
        await connection.send_request("initialize", {"protocolVersion": 1})
        made = await connection.send_request("session/new", {"cwd": str(workspace), "mcpServers": []})
        about = {"sessionId": made["sessionId"]}
        told = await connection.send_request("session/inject_reminder", {**about, "body": "The build is red."})
        gone = await connection.send_request("session/revoke_reminder", {**about, "reminderId": told["reminderId"]})
        assert gone == {"status": "revoked"}
        await connection.send_notification("session/remind", {**about, "body": "It is late."})
        pending = await connection.send_request("session/pending_injections", about)
        assert [row["body"] for row in pending["injections"]] == ["It is late."]
        await connection.send_request("session/inject", {**about, "mode": "queue", "content": text("Go.")})
        await client.until(lambda: client.said() == "Hello there.")
        await connection.close()


@over_sockets
async def test_it_drops_updates_that_it_does_not_know(
    store: Path, workspace: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Why clients of version 1 get the carrier unless they ask for the real updates."""
    caplog.set_level(logging.CRITICAL + 1)
    async with connected(scripted(store, "One."), home) as (client, connection):
        wants = ClientCapabilities.model_validate({"_meta": {"sideband": {"reminders": {"emit": True}}}})
        await connection.initialize(PROTOCOL_VERSION, client_capabilities=wants)
        session_id = (await connection.new_session(cwd=str(workspace), mcp_servers=[])).session_id
        await connection.prompt(session_id=session_id, prompt=[text_block("Go.")])
        await client.until(lambda: client.said() == "One.")
        assert client.carried() == []
        assert client.named("reminder_emitted") == []


def test_the_agent_itself_does_not_load_the_sdk() -> None:
    """Loading it takes longer than starting the agent."""
    assert "acp" in sys.modules
    from tests.programs import run_python  # noqa: PLC0415 - used by this test alone

    loaded = "import sys, sideband.protocols.acp.agent; print('acp' in sys.modules, 'pydantic' in sys.modules)"
    assert run_python("-c", loaded).stdout == "False False\n"
