"""Agents as child processes: what they print, how they start and end, and what is kept of them."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from sideband.protocols import process as child_process
from sideband.protocols.acp.client import AgentEnded, AgentNotStarted, connect
from sideband.protocols.process import STDERR_BYTES
from tests.acp_agents import an_agent, in_time


@in_time
async def test_a_banner_and_log_lines_are_skipped() -> None:
    banner = "print('Agent 1.0'); print('[INFO] ready'); print('[]'); print()"
    async with connect(an_agent(before=banner)) as agent:
        assert await agent.request("echo", {"n": 1}) == {"n": 1}


@in_time
async def test_a_command_runs_in_its_folder_with_its_environment(tmp_path: Path) -> None:
    told = "{'sessionId': frame['params']['cwd'], 'seen': [os.getcwd(), os.environ['A'], 'PATH' in os.environ]}"
    async with connect(
        an_agent(f"serve(lambda frame: send(id=frame['id'], result={told}))"), cwd=tmp_path, env={"A": "b"}
    ) as agent:
        answer = await agent.request("session/new", {"cwd": ""})
        assert answer["seen"] == [str(tmp_path), "b", False]
        assert (await agent.new_session()).id == str(tmp_path)
        assert (await agent.new_session("/")).id == "/"


@pytest.mark.parametrize(
    ("command", "cwd", "said"),
    [
        pytest.param("no-such-agent --acp", None, "'no-such-agent': No such file or directory; check", id="missing"),
        pytest.param("{file}", None, "Permission denied; check the command", id="not-executable"),
        pytest.param("cat", "{file}", "which is not a folder", id="no-folder"),
        pytest.param(["a\0b"], None, "null byte", id="nul"),
    ],
)
@in_time
async def test_a_command_that_cannot_be_started_is_refused(
    command: str | list[str], cwd: str | None, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    await asyncio.to_thread(file.write_text, "", encoding="utf-8")
    if isinstance(command, str):
        command = command.format(file=file)
    with pytest.raises(AgentNotStarted, match=said):
        async with connect(command, cwd=None if cwd is None else cwd.format(file=file)):
            pass


@in_time
async def test_only_the_end_of_standard_error_is_kept() -> None:
    noise = "print('x' * 10**6, file=sys.stderr); print('last words', file=sys.stderr, flush=True)"
    async with connect(an_agent("serve(lambda frame: sys.exit(3))", before=noise)) as agent:
        with pytest.raises(AgentEnded, match="ended with exit code 3 before it answered echo") as raised:
            await agent.request("echo", {})
    assert len(raised.value.stderr) == STDERR_BYTES
    assert str(raised.value).endswith("last words")


@in_time
async def test_an_agent_that_writes_before_it_reads_gets_a_large_prompt() -> None:
    chatty = """
def answer(frame):
    send(id=frame['id'], result={"stopReason": "end_turn"})
line = sys.stdin.readline(); send(id=json.loads(line)["id"], result={"protocolVersion": 1})
sys.stdin.readline()
for number in range(2_000):
    send(method="session/update", params={"sessionId": "s", "update": {"text": "y" * 2_000}})
serve(answer)
"""
    async with connect(an_agent(chatty)) as agent:
        agent.notify("begin", {})
        turn = agent.session("s").prompt("x" * 4_000_000)
        assert len([update async for update in turn]) == 2_000
        assert turn.stop_reason == "end_turn"


@in_time
async def test_an_agent_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "MAX_UNREAD_BYTES", 200_000)
    deaf = """
line = sys.stdin.readline(); send(id=json.loads(line)["id"], result={"protocolVersion": 1})
time.sleep(60)
"""
    async with connect(an_agent(deaf)) as agent:
        stream = agent.updates()
        with pytest.raises(AgentEnded, match="does not read its standard input"):
            await agent.request("echo", {"text": "x" * 400_000})
        with pytest.raises(AgentEnded, match="does not read its standard input"):
            await anext(stream)
        with pytest.raises(AgentEnded):
            await agent.request("echo", {})


@in_time
async def test_an_agent_that_dies_ends_its_turn_and_its_streams() -> None:
    dying = """
def answer(frame):
    send(method="session/update", params={"sessionId": "s", "update": {"n": 1}})
    print("out of memory", file=sys.stderr, flush=True)
    os._exit(9)
serve(answer)
"""
    async with connect(an_agent(dying)) as agent:
        turn = agent.session("s").prompt("x")
        assert await anext(turn) == {"n": 1}
        with pytest.raises(AgentEnded, match="out of memory"):
            await anext(turn)
        with pytest.raises(AgentEnded, match="ended with exit code 9 before it answered session/prompt"):
            await turn
        assert turn.stop_reason is None


@in_time
async def test_a_cancelled_caller_leaves_no_process(tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    silent = ["sh", "-c", "exec sleep 60 > $0", str(held)]

    async def connecting() -> None:
        async with connect(silent):
            pass

    task = asyncio.create_task(connecting())
    # Opened by the agent, so it runs when this returns.
    reader = await asyncio.to_thread(held.open, "rb")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(reader.read) == b""
    reader.close()


@in_time
async def test_a_caller_that_is_cancelled_while_it_connects_leaves_no_process(tmp_path: Path) -> None:
    marker = str(tmp_path)

    async def connecting() -> None:
        async with connect(["sh", "-c", "sleep 60; true", marker]):
            pass

    def is_running() -> bool:
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                # Of a process that has ended and was not waited for, the command is empty.
                if marker.encode() in (process / "cmdline").read_bytes():
                    return True
        return False

    for rounds in range(30):
        task = asyncio.create_task(connecting())
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not await asyncio.to_thread(is_running)


@in_time
async def test_an_agent_that_closes_only_its_output_is_ended() -> None:
    async with connect(an_agent("serve(lambda frame: os.close(1))")) as agent:
        with pytest.raises(AgentEnded, match="closed its standard output before it answered echo"):
            await agent.request("echo", {})
