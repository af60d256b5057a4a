"""acpx, a headless client on the command line that prints every frame."""

import asyncio
import shlex
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.loopback import over_sockets
from tests.peers.clients import NODE, Json, environment, scripted, sideband_acp
from tests.peers.schemas import PACKAGES, Sent, mistakes_in

CLI: Final = PACKAGES / "acpx" / "dist" / "cli.js"
# The code with which acpx ends if it has refused a permission.
REFUSED: Final = 5
WRITES: Final[Json] = {"call": "write_file", "args": {"path": "new.txt", "content": "one\n"}, "say": "I write."}


async def run(*options: str, agent: list[str], home: Path, cwd: Path, code: int = 0) -> list[Sent]:
    """The frames of `acpx exec`, which has to end with this code."""
    process = await asyncio.create_subprocess_exec(
        *(str(NODE), str(CLI), "--agent", shlex.join(agent), "--format", "json", *options, "exec", "Go."),
        cwd=cwd,
        env=environment(home),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == code
    return _read([msgspec.json.decode(line) for line in output.splitlines()])


def _read(frames: list[Any]) -> list[Sent]:
    """Add who has sent a frame. Both sides count their requests; an answer belongs to the latest one with its id."""
    calls_of_agents = ("session/update", "session/request_permission", "fs/", "terminal/", "$/cancel_request")
    asked: list[tuple[object, bool]] = []
    conversation: list[Sent] = []
    for frame in frames:
        if "method" in frame:
            by_agent = frame["method"].startswith(calls_of_agents)
            if "id" in frame:
                asked.insert(0, (frame["id"], by_agent))
        else:
            request = next(request for request in asked if request[0] == frame["id"])
            asked.remove(request)
            by_agent = not request[1]
        conversation.append(Sent(by_agent=by_agent, frame=frame))
    return conversation


def updates(conversation: list[Sent]) -> list[Json]:
    return [sent.frame["params"]["update"] for sent in conversation if sent.frame.get("method") == "session/update"]


@over_sockets
async def test_it_gets_an_answer_and_the_reminders_do_not_disturb_it(store: Path, workspace: Path, home: Path) -> None:
    conversation = await run(agent=sideband_acp(store, text="Hello there."), home=home, cwd=workspace)
    told = updates(conversation)
    assert [one["content"]["text"] for one in told if one["sessionUpdate"] == "agent_message_chunk"] == ["Hello there."]
    assert conversation[-1].frame["result"]["stopReason"] == "end_turn"
    assert mistakes_in(conversation) == []


@pytest.mark.parametrize(("option", "status"), [("--approve-all", "completed"), ("--deny-all", "failed")])
@over_sockets
async def test_it_gives_or_refuses_permission(
    option: str, status: str, store: Path, workspace: Path, home: Path
) -> None:
    code = 0 if status == "completed" else REFUSED
    conversation = await run(option, agent=scripted(store, WRITES, "Done."), home=home, cwd=workspace, code=code)
    assert [one["status"] for one in updates(conversation) if one["sessionUpdate"] == "tool_call_update"][-1] == status
    assert (workspace / "new.txt").exists() == (status == "completed")
    assert mistakes_in(conversation) == []
