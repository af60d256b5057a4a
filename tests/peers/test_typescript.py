"""The official TypeScript SDK as the client: version 1, version 1 with unstable features, and version 2."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.loopback import over_sockets
from tests.peers.clients import (
    Editor,
    Json,
    OpenFiles,
    Refused,
    TypeScriptClient,
    scripted,
    sideband_acp,
    text,
    typescript,
)

VERSIONS: Final = {".": 1, "./unstable": 1, "./experimental/v2": 2}
every_entry = pytest.mark.parametrize("entry", VERSIONS)

WRITES: Final[Json] = {"call": "write_file", "args": {"path": "new.txt", "content": "one\n"}, "say": "I write."}


class TypeScriptEditor(Editor):
    client: TypeScriptClient


@asynccontextmanager
async def an_editor(entry: str, command: list[str], home: Path) -> AsyncIterator[TypeScriptEditor]:
    """An editor on the SDK, which must not complain about anything."""
    async with typescript(entry, command, home) as client:
        yield TypeScriptEditor(client, VERSIONS[entry])
    assert client.errors == []


@every_entry
@over_sockets
async def test_it_sees_what_the_agent_can_do(entry: str, store: Path, home: Path) -> None:
    async with an_editor(entry, sideband_acp(store), home) as editor:
        told = await editor.initialize()
        assert told["protocolVersion"] == editor.version
        assert told["_meta"]["steering"] == {"supported": True}
        can = told["agentCapabilities" if editor.version == 1 else "capabilities"]
        ours = can["_meta"]["sideband"]
        assert ours["reminders"]["inject"] is True
        assert ours["inject"]["modes"] == ["queue", "steer", "interrupt_immediate", "finish_step", "audit_only"]
        if editor.version == 1:
            assert can["loadSession"] is True
            assert can["sessionCapabilities"].keys() >= {"list", "resume", "close"}
            # Members of the proposals survive in version 1 only.
            assert can["reminders"]["emit"] is True
            assert can["session"]["inject"]["modes"] == ["queue", "steer"]
        else:
            assert can["session"]["prompt"].keys() >= {"image", "audio", "embeddedContext"}


@every_entry
@over_sockets
async def test_it_holds_a_conversation_and_finds_it_again(entry: str, store: Path, workspace: Path, home: Path) -> None:
    async with an_editor(entry, scripted(store, "One two three.", WRITES, "Done."), home) as editor:
        await editor.start(workspace)
        assert await editor.prompt("Count.") == "end_turn"
        assert [chunk["content"]["text"] for chunk in editor.named("agent_message_chunk")] == ["One ", "two ", "three."]
        assert await editor.prompt("Write.") == "end_turn"
        assert len(editor.client.asked) == 1
        calls = editor.named("tool_call", "tool_call_update")
        assert [call["status"] for call in calls] == ["pending", "in_progress", "completed"]
        if editor.version == 2:
            states = [update["state"] for update in editor.named("state_update")]
            assert states == ["running", "idle", "running", "requires_action", "running", "idle"]
        ids = [update["messageId"] for update in editor.named("agent_message_chunk")]
        session_id = editor.session_id
        assert await editor.about("session/close") == {}
    assert (workspace / "new.txt").read_text("utf-8") == "one\n"

    async with an_editor(entry, scripted(store, "Four.", "Five."), home) as editor:
        await editor.initialize()
        assert [one["title"] for one in (await editor.client.request("session/list", {}))["sessions"]] == ["Count."]
        await editor.open(workspace, session_id)
        assert editor.said() == "One two three.I write.Done."
        assert {update["messageId"] for update in editor.named("agent_message_chunk")} == set(ids)
        users = editor.named("user_message_chunk" if editor.version == 1 else "user_message")
        assert len(users) == 2
        assert await editor.prompt("Go on.") == "end_turn"
        await editor.about("session/close")
        told = len(editor.client.updates)
        await editor.about("session/resume", cwd=str(workspace))
        assert await editor.prompt("And on.") == "end_turn"
        # A session that is resumed is not replayed.
        assert "One two three." not in str(editor.client.updates[told:])
        assert editor.said().endswith("Four.Five.")


@pytest.mark.parametrize("entry", [".", "./unstable"])
@over_sockets
async def test_its_files_and_terminals_are_used(entry: str, store: Path, workspace: Path, home: Path) -> None:
    path = workspace / "open.txt"
    reads = {"call": "read_file", "args": {"path": "open.txt"}}
    runs = {"call": "run", "args": {"command": "make"}}
    async with an_editor(entry, scripted(store, reads, WRITES, runs, "Done."), home) as editor:
        files = OpenFiles(editor.client, {path: "not saved\n"}, "made\n")
        path.touch()
        await editor.start(workspace, **OpenFiles.CAPABILITIES)
        assert await editor.prompt("Go.") == "end_turn"
        statuses = [
            call["status"]
            for call in editor.named("tool_call_update")
            if call.get("status", "in_progress") != "in_progress"
        ]
        assert statuses == ["completed"] * 3
        assert files.files == {path: "not saved\n", workspace / "new.txt": "one\n"}
        assert files.released == ["terminal-1"]


@every_entry
@over_sockets
async def test_it_cancels_a_turn(entry: str, store: Path, workspace: Path, home: Path) -> None:
    never = {"until": str(workspace / "never"), "say": "Too late."}
    async with an_editor(entry, scripted(store, never, "Now."), home) as editor:
        await editor.start(workspace)
        prompting = asyncio.ensure_future(editor.prompt("Think."))
        await editor.client.until(lambda: editor.named("reminder_emitted"))
        await editor.cancel()
        assert await prompting == "cancelled"
        assert await editor.prompt("Again.") == "end_turn"


@every_entry
@over_sockets
async def test_it_is_told_that_an_open_question_needs_no_answer(
    entry: str, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(entry, scripted(store, WRITES, "Now."), home) as editor:
        editor.client.choose = lambda _asked: "wait"
        await editor.start(workspace)
        prompting = asyncio.ensure_future(editor.prompt("Write."))
        await editor.client.until(lambda: editor.client.asked)
        await editor.cancel()
        assert await prompting == "cancelled"
        assert await editor.prompt("Again.") == "end_turn"


@every_entry
@pytest.mark.parametrize("prefix", ["", "_sideband/"])
@over_sockets
async def test_it_calls_the_methods_of_the_proposals_and_their_twins(
    entry: str, prefix: str, store: Path, workspace: Path, home: Path
) -> None:
    gate = workspace / "gate"
    waits = {"until": str(gate), "call": "list_dir", "args": {"path": "."}}
    async with an_editor(entry, scripted(store, waits, "Listed."), home) as editor:
        await editor.start(workspace)
        told = await editor.about(f"{prefix}session/inject_reminder", body="The build is red.", ttlTurns=1)
        assert told["dedupedCount"] == 0
        prompting = asyncio.ensure_future(editor.prompt("List."))
        await editor.client.until(lambda: "The build is red." in str(editor.named("reminder_emitted")))
        steer = await editor.about(f"{prefix}session/inject", mode="steer", content=text("Quick."))
        assert await editor.about("_session/steering", prompt=text("Quicker.")) == {"outcome": "injected"}
        assert (await editor.about(f"{prefix}session/pending_injections"))["pendingCount"] == 2
        gate.touch()
        assert await prompting == "end_turn"
        users = editor.named("user_message_chunk" if editor.version == 1 else "user_message")
        assert steer["messageId"] in [update["messageId"] for update in users]
        with pytest.raises(Refused) as refused:
            await editor.about(f"{prefix}session/revoke_inject", messageId=steer["messageId"])
        assert (refused.value.code, refused.value.message) == (-32010, "Inject precondition failed")
        assert refused.value.data["reason"] == "already_delivered"
        assert refused.value.data["messageId"] == steer["messageId"]


@every_entry
@over_sockets
async def test_it_is_told_of_reminders_in_a_form_that_it_delivers(
    entry: str, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(entry, scripted(store, "One."), home) as editor:
        await editor.start(workspace)
        await editor.about("session/inject_reminder", body="The build is red.", dedupeKey="build", ttlTurns=1)
        await editor.prompt("Go.")
        names = [update["sessionUpdate"] for update in editor.client.updates]
        [emitted] = [update for update in editor.named("reminder_emitted") if update["source"] == "host"]
        assert emitted["body"] == "The build is red."
        assert emitted["_meta"]["harn"]["reminder"]["dedupe_key"] == "build"
        [expired] = [one for one in editor.named("reminder_expired") if one["reminderId"] == emitted["reminderId"]]
        assert expired["phase"] == "ttl_expired"
        assert ("reminder_emitted" in names) == (editor.version == 2)


@pytest.mark.parametrize("entry", [".", "./unstable"])
@over_sockets
async def test_version_1_of_the_sdk_drops_updates_that_it_does_not_know(
    entry: str, store: Path, workspace: Path, home: Path
) -> None:
    """Why clients of version 1 get the carrier unless they ask for the real updates."""
    async with typescript(entry, scripted(store, "One."), home) as client:
        editor = Editor(client, 1)
        await editor.start(workspace, _meta={"sideband": {"reminders": {"emit": True}}})
        assert await editor.prompt("Go.") == "end_turn"
        assert editor.said() == "One."
        assert editor.named("reminder_emitted") == []
    assert len(client.errors) == 2
    assert all("Invalid params" in error for error in client.errors)


@every_entry
@over_sockets
async def test_it_gets_errors_with_their_reason(entry: str, store: Path, workspace: Path, home: Path) -> None:
    async with an_editor(entry, sideband_acp(store), home) as editor:
        await editor.start(workspace)
        with pytest.raises(Refused) as refused:
            await editor.client.request("session/prompt", {"sessionId": "nowhere", "prompt": text("Go.")})
        assert (refused.value.code, refused.value.message) == (-32002, "Resource not found")
        assert refused.value.data["reason"] == "unknown_session"
        assert refused.value.data["sessionId"] == "nowhere"
        with pytest.raises(Refused) as refused:
            await editor.about("session/inject_reminder", body="x", colour="red")
        assert (refused.value.code, refused.value.data["code"]) == (-32602, "HARN-RMD-001")
        with pytest.raises(Refused) as refused:
            await editor.about("_sideband/explode")
        assert refused.value.code == -32601
