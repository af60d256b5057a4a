"""The ACP agent, killed at each of its commits: what it has acknowledged survives, and is delivered exactly once."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from sideband.core.updates import ReminderUpdate, UpdateKind
from sideband.inspect.verify import verified
from sideband.runtime.store import open_store
from tests.acp_editor import SECONDS, on_pipes, text_block

# A turn with a tool call makes fewer commits than this; a victim that is told to die later lives.
COMMITS: Final = 14


class Lost(Exception):
    """The agent has died."""


class Victim:
    """A connection to an agent that may die at any time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._next_id = 0

    async def call(self, method: str, **params: Any) -> Any:  # noqa: ANN401 - of any method
        self._next_id += 1
        frame = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        self._stdin.write(json.dumps(frame).encode() + b"\n")
        while line := await self._stdout.readline():
            message = json.loads(line)
            if message.get("id") == self._next_id and "method" not in message:
                return message["result"]
        raise Lost

    async def leave(self) -> int:
        self._stdin.close()
        await self._stdout.read()
        return await self._process.wait()


async def a_victim(url: str, last: int, moment: str) -> Victim:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.acp_victim",
        url,
        str(last),
        moment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    return Victim(process)


@pytest.mark.parametrize(("last", "moment"), [(n, "before" if n % 2 else "after") for n in range(1, COMMITS + 1)])
@on_pipes
async def test_what_was_acknowledged_before_the_kill_is_delivered_once(tmp_path: Path, last: int, moment: str) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    reminder: str | None = None
    session_id: str | None = None
    victim = await a_victim(url, last, moment)
    async with asyncio.timeout(SECONDS):
        try:
            await victim.call("initialize", protocolVersion=1)
            session_id = (await victim.call("session/new", cwd=str(tmp_path), mcpServers=[]))["sessionId"]
            told = await victim.call("session/inject_reminder", sessionId=session_id, body="Red.", ttlTurns=1)
            reminder = told["reminderId"]
            await victim.call("session/prompt", sessionId=session_id, prompt=[text_block("Go on.")])
        except (Lost, ConnectionError):
            pass
        await victim.leave()
        if session_id is None:
            return
        successor = await a_victim(url, 0, "after")
        await successor.call("initialize", protocolVersion=1)
        await successor.call("session/load", sessionId=session_id, cwd=str(tmp_path), mcpServers=[])
        answer = await successor.call("session/prompt", sessionId=session_id, prompt=[text_block("Go on.")])
        assert answer["stopReason"] == "end_turn"
        assert await successor.leave() == 0
    async with open_store(url) as store:
        session = await store.find(session_id)
        assert session is not None
        updates = [one async for one in session.updates(follow=False) if isinstance(one, ReminderUpdate)]
    if reminder is not None:
        of_it = [one.kind for one in updates if one.reminder_id == reminder]
        assert of_it.count(UpdateKind.REMINDER_INJECTED) == 1
        assert of_it.count(UpdateKind.REMINDER_EXPIRED) == 1
    assert [check for check in verified(url, None) if check.problem] == []
