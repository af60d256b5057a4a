"""The ACP agent as a process: its frames, what it answers to bad ones, and how it starts and ends."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from sideband.core.reminder import Source
from sideband.protocols.acp.agent import AcpAgent
from sideband.runtime.store import open_store
from tests.acp_editor import SECONDS, Editor, an_agent, connected, on_pipes, refusal_of
from tests.programs import run_sideband

MIB: Final = 1024 * 1024


@asynccontextmanager
async def a_process(store: Path, *arguments: str) -> AsyncIterator[tuple[Editor, asyncio.subprocess.Process]]:
    """`sideband acp` in a process of its own, and an editor that is connected to it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "sideband.cli",
        "acp",
        "--store",
        f"sqlite:///{store / 'store.db'}",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=MIB,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    editor = Editor(process.stdout, process.stdin)
    try:
        yield editor, process
    finally:
        process.stdin.close()
        async with asyncio.timeout(SECONDS):
            await process.wait()
            await editor.ended


JUNK: Final = {
    "number": (b"42", -32600),
    "null": (b"null", -32600),
    "text": (b'"x"', -32600),
    "empty-batch": (b"[]", -32600),
    "invalid-json": (b"{", -32700),
    "not-utf-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
    "deep": (b"[" * 100_000, -32700),
    "no-method": (b'{"jsonrpc":"2.0","id":1}', -32600),
    "no-version": (b'{"id":1,"method":"session/list"}', -32600),
    "bad-id": (b'{"jsonrpc":"2.0","id":{},"method":"session/list"}', -32600),
    "bad-method": (b'{"jsonrpc":"2.0","id":90,"method":7}', -32600),
    "repeated-key": (b'{"jsonrpc":"2.0","id":91,"method":"session/list","params":{"cwd":"/","cwd":"/"}}', -32600),
    "list-of-params": (b'{"jsonrpc":"2.0","id":92,"method":"session/list","params":[1]}', -32602),
}


@pytest.mark.requirement("acp:frames:junk", "acp:frames:batch", "acp:frames:too-large", "acp:stdout:frames-only")
@on_pipes
async def test_every_bad_frame_is_answered_and_the_process_goes_on(tmp_path: Path) -> None:
    async with a_process(tmp_path, "--model", "scripted:Done.") as (editor, process):
        await editor.initialize()
        for frame, code in JUNK.values():
            before = len(editor.frames)
            editor.send_raw(frame)
            await editor.frame(lambda _frame: True, after=before)
            assert editor.frames[-1]["error"]["code"] == code
        editor.send_raw(b"x" * 60 * MIB)
        await editor.frame(lambda frame: frame.get("error", {}).get("data", {}).get("reason") == "frame_too_large")
        before = len(editor.frames)
        batch = [
            {"jsonrpc": "2.0", "id": "a", "method": "session/list", "params": {}},
            {"jsonrpc": "2.0", "method": "unknown/notification"},
            7,
        ]
        editor.send_raw(json.dumps(batch).encode())
        await editor.until(lambda: len(editor.frames) > before)
        answers = editor.frames[-1]
        session = await editor.new()
        assert (await editor.prompted(session))["stopReason"] == "end_turn"
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(SECONDS):
            assert await process.wait() == 0
    assert sorted((answer.get("id") or "", "error" in answer) for answer in answers) == [("", True), ("a", False)]


@pytest.mark.requirement("acp:frames:unknown-method")
@on_pipes
async def test_an_unknown_request_is_refused_and_an_unknown_notification_ignored() -> None:
    async with an_agent() as agent, connected(agent) as editor:
        before = len(editor.frames)
        editor.notify("session/unknown")
        editor.notify("_vendor/unknown")
        editor.notify("$/unknown")
        codes = [
            (await refusal_of(editor.begin(method))).code for method in ("session/unknown", "_vendor/x", "fs/read")
        ]
    assert codes == [-32601] * 3
    assert len(editor.frames) == before + 3


@pytest.mark.requirement("acp:frames:no-exception-text")
@on_pipes
async def test_a_fault_of_ours_is_reported_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(AcpAgent):
        async def find(self, session_id: str) -> Any:  # noqa: ANN401 - never returns
            raise RuntimeError(f"secret {session_id}")

    async with open_store("memory:") as store, Broken(store) as agent, connected(agent) as editor:
        refused = await refusal_of(editor.begin("session/close", sessionId="s"))
        assert (await editor.call("session/list"))["sessions"] == []
    assert (refused.code, refused.message, refused.data) == (-32603, "Internal error", None)
    assert "secret s" in caplog.text


@pytest.mark.requirement("acp:process:signals")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@on_pipes
async def test_a_signal_ends_the_process(tmp_path: Path, stop: signal.Signals) -> None:
    async with a_process(tmp_path) as (editor, process):
        await editor.initialize()
        process.send_signal(stop)
        async with asyncio.timeout(SECONDS):
            assert await process.wait() == 0


@pytest.mark.requirement("acp:process:options")
def test_a_wrong_option_is_a_sentence_and_not_a_traceback(tmp_path: Path) -> None:
    wrong = {
        "--workspace": str(tmp_path / "missing"),
        "--mcp-config": "servers.json",
        "--store": "nonsense",
    }
    for option, value in wrong.items():
        answer = run_sideband("acp", option, value, stdin="")
        assert answer.returncode == 2
        assert answer.stderr.startswith("error: ")
        assert "Traceback" not in answer.stderr
        assert answer.stdout == ""


@pytest.mark.requirement("acp:process:terminal")
def test_a_person_who_starts_it_in_a_terminal_is_told_what_it_waits_for(tmp_path: Path) -> None:
    terminal, side = pty.openpty()
    command = [sys.executable, "-m", "sideband.cli", "acp", "--store", f"sqlite:///{tmp_path / 'store.db'}"]
    with subprocess.Popen(command, stdin=side, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.close(side)
        assert process.stderr is not None
        assert b"waits for ACP messages" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0
    os.close(terminal)


@pytest.mark.requirement("acp:process:principal")
@on_pipes
async def test_what_a_client_sends_is_recorded_under_the_name_of_its_principal(tmp_path: Path) -> None:
    async with a_process(tmp_path, "--principal", "zed") as (editor, _process):
        await editor.initialize()
        session_id = await editor.new(tmp_path)
        await editor.call("session/inject_reminder", sessionId=session_id, body="Red.")
        async with open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
            session = await store.find(session_id)
            assert session is not None
            (pending,) = await session.pending()
    assert (pending.provenance.principal, pending.provenance.via) == ("zed", "acp")
    assert (pending.provenance.trust, pending.reminder.source) == (1, Source.BRIDGE)
