"""A watcher of Sideband as MCP server of stock hosts, which do not know reminders.

Claude Code gets the text by its hooks, which call a tool of the watcher. Codex CLI and Gemini CLI ignore the
notification.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.loopback import within
from tests.programs import ROOT
from tests.stock.agents import AGENTS, BIN, Agent, Place
from tests.stock.model import Model, Reply, Request, a_model
from tests.stock.stage import HeldTool
from tests.stock.wires import Kind, Part
from tests.waiting import until

PACKAGES: Final = BIN.parent
BY_NAME: Final = {agent.name: agent for agent in AGENTS}
_TEST_SECONDS: Final = 90
# More than enough for a watcher that reports a change after 100 ms.
_ATTEMPTS: Final = 40
SERVER: Final = "watch"
TOOL: Final = "pending_reminders"


PAGE: Final = (ROOT / "docs" / "mcp-servers.md").read_text(encoding="utf-8").partition("\n## Claude Code\n")[2]
# The servers and the hooks.
CLAUDE_CONFIGURATION: Final = re.findall(r"^```json\n(.*?)^```", PAGE.partition("\n## ")[0], re.MULTILINE | re.DOTALL)


def watcher(folder: Path) -> list[str]:
    """The command that users give to their hosts."""
    return [sys.executable, "-m", "sideband.cli", "mcp", "watch-files", str(folder), "--hook-tool"]


def recorded(command: Sequence[str], log: Path) -> list[str]:
    """The same, with a copy of what the server sends."""
    return ["/bin/sh", "-c", '"$@" | tee "$0"', str(log), *command]


def environment(agent: Agent, place: Place) -> dict[str, str]:
    """Nothing of the environment of the tests, and what the watcher needs."""
    return {
        "HOME": str(place.home),
        "PATH": f"{Path(sys.executable).parent}:{BIN}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        **agent.environment(place),
    }


@asynccontextmanager
async def started(
    command: Sequence[str], agent: Agent, place: Place, log: Path, *, stdin: int
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A host, which has to end by itself; its standard input is closed on leaving."""
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=place.directory,
            env=environment(agent, place),
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=2**24,
        )
    try:
        yield process
        if process.stdin is not None:
            process.stdin.close()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def after_results(request: Request, text: str) -> list[Part]:
    """The parts with this text that stand directly after the result of a tool, or after other notes of the host."""
    parts = request.parts
    found = []
    for number, part in enumerate(parts):
        before = [one for one in parts[:number] if one.message < part.message]
        if text in part.text and before and before[-1].kind is Kind.RESULT:
            found.append(part)
    return found


def holding(request: Request, text: str) -> list[Part]:
    return [part for part in request.parts if text in part.text]


class Claude:
    """Claude Code, which reads prompts from its standard input."""

    def __init__(self, process: asyncio.subprocess.Process, model: Model) -> None:
        self._process = process
        self._model = model

    async def prompt(self, text: str) -> None:
        """Send a prompt and wait for the end of its turn."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        message = {"type": "user", "message": {"role": "user", "content": text}}
        self._process.stdin.write(msgspec.json.encode(message) + b"\n")
        async for line in self._process.stdout:
            if msgspec.json.decode(line)["type"] == "result":
                return

    async def call_until(self, call: tuple[str, Mapping[str, Any]], text: str) -> Request:
        """Let the model call a tool again and again until this text is in a request; return that request."""
        for number in range(len(self._model.requests) + 1, len(self._model.requests) + _ATTEMPTS):
            request = await self._model.request(number)
            if holding(request, text):
                return request
            self._model.will_reply(Reply(call=call))
        raise AssertionError(f"{text} was in none of the requests")


@asynccontextmanager
async def claude_code(model: Model, place: Place, folder: Path) -> AsyncIterator[Claude]:
    """Claude Code with the hooks and the server of the documentation."""
    [binary] = (PACKAGES / "@anthropic-ai").glob("claude-agent-sdk-*/claude")
    servers, settings = (folder / "mcp.json", folder / "settings.json")
    for file, block in zip((servers, settings), CLAUDE_CONFIGURATION, strict=True):
        file.write_text(block, encoding="utf-8")
    command = [
        *(str(binary), "-p", "--model", "claude-opus-4-8", "--allowedTools", "Bash"),
        *("--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
        *("--settings", str(settings), "--mcp-config", str(servers), "--strict-mcp-config"),
    ]
    async with started(
        command, BY_NAME["claude"], place, folder / "claude.log", stdin=asyncio.subprocess.PIPE
    ) as process:
        yield Claude(process, model)


@within(_TEST_SECONDS)
async def test_claude_code_shows_a_change_on_disk_once_after_the_result_of_the_running_tool(tmp_path: Path) -> None:
    agent = BY_NAME["claude"]
    place_of = _place(tmp_path)
    async with a_model(agent.purpose_of) as model:
        place = place_of(model.url)
        edited = place.directory / "app.py"
        edited.write_text("one = 1\n", encoding="utf-8")
        with ExitStack() as tools:
            tool = HeldTool(place.directory, "tool-output")
            tools.callback(tool.close)
            async with claude_code(model, place, tmp_path) as claude:
                pause = agent.call("sleep 0.2; echo paused")
                model.will_reply(Reply(call=agent.call(tool.command)))
                turn = asyncio.create_task(claude.prompt("Run the tool."))
                await tool.started()
                edited.write_text("one = 2\n", encoding="utf-8")
                model.will_reply(Reply(call=pause))
                tool.end()
                first = await claude.call_until(pause, "app.py")
                model.will_reply(Reply(text="All is done."))
                await turn

                # A change while the host is idle is shown with the next prompt.
                edited.write_text("one = 3\n", encoding="utf-8")
                for _ in range(_ATTEMPTS):
                    model.will_reply(Reply(text="All is still done."))
                    await claude.prompt("How are things?")
                    if len(holding(model.requests[-1], "app.py")) > 1:
                        break
                    await asyncio.sleep(0.1)

    assert holding(model.requests[0], "app.py") == []
    [notice] = holding(first, "app.py")
    assert after_results(first, "app.py") == [notice]
    assert 'server-notice from="watch' in notice.text
    second = model.requests[-1]
    # It stays in the history of the host where it was, and is not told again.
    shown = holding(second, "app.py")
    assert [part for part in shown if part.message == notice.message] == [notice]
    [other] = [part for part in shown if part.message != notice.message]
    prompt = [part for part in second.parts if "How are things?" in part.text][-1]
    assert other.message >= prompt.message
    for request in model.requests[:-1]:
        assert len(holding(request, "app.py")) <= 1


@dataclass(frozen=True, kw_only=True)
class Host:
    """A command-line program that ignores reminders."""

    agent: Agent
    command: tuple[str, ...]
    files: Callable[[Place, Sequence[str]], Mapping[str, str]]
    environment: Mapping[str, str]
    tool: str


def _codex_files(place: Place, command: Sequence[str]) -> Mapping[str, str]:
    [(name, config)] = BY_NAME["codex"].files(place).items()
    program, *arguments = command
    server = f"""
[mcp_servers.{SERVER}]
command = {json.dumps(program)}
args = {json.dumps(arguments)}
env = {{ PYTHONPATH = {json.dumps(str(ROOT))} }}
default_tools_approval_mode = "approve"
"""
    return {name: config + server}


def _gemini_files(place: Place, command: Sequence[str]) -> Mapping[str, str]:
    [(name, settings)] = BY_NAME["gemini"].files(place).items()
    program, *arguments = command
    server = {"command": program, "args": arguments, "env": {"PYTHONPATH": str(ROOT)}, "trust": True}
    return {name: json.dumps({**json.loads(settings), "mcpServers": {SERVER: server}})}


HOSTS: Final = (
    Host(
        agent=BY_NAME["codex"],
        command=(
            *("codex", "exec", "--json", "--skip-git-repo-check"),
            *("--dangerously-bypass-approvals-and-sandbox", "Run the tool."),
        ),
        files=_codex_files,
        environment={},
        tool=f"mcp__{SERVER}__{TOOL}",
    ),
    Host(
        agent=BY_NAME["gemini"],
        command=("gemini", "-p", "Run the tool.", "--yolo", "-m", "gemini-2.5-flash", "--output-format", "json"),
        files=_gemini_files,
        environment={"GEMINI_CLI_NO_RELAUNCH": "true"},
        tool=f"mcp_{SERVER}_{TOOL}",
    ),
)


@pytest.mark.parametrize("host", [pytest.param(host, id=host.agent.name) for host in HOSTS])
@within(_TEST_SECONDS)
async def test_other_hosts_use_the_tools_of_the_watcher_and_ignore_its_notifications(
    host: Host, tmp_path: Path
) -> None:
    place_of = _place(tmp_path)
    async with a_model(host.agent.purpose_of) as model:
        place = place_of(model.url)
        edited, log = place.directory / "app.py", tmp_path / "server.log"
        edited.write_text("one = 1\n", encoding="utf-8")
        for name, content in host.files(place, recorded(watcher(place.directory), log)).items():
            file = place.home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        with ExitStack() as tools:
            tool = HeldTool(place.directory, "tool-output")
            tools.callback(tool.close)
            model.will_reply(
                Reply(text="Calling.", call=host.agent.call(tool.command)),
                Reply(text="Asking.", call=(host.tool, {})),
                Reply(text="All is done."),
            )
            command = [str(BIN / host.command[0]), *host.command[1:]]
            async with started(
                ["/usr/bin/env", *(f"{name}={value}" for name, value in host.environment.items()), *command],
                host.agent,
                place,
                tmp_path / "host.log",
                stdin=asyncio.subprocess.DEVNULL,
            ) as process:
                await tool.started()
                # Codex asks the model before its servers are ready.
                await until(lambda: log.exists() and TOOL.encode() in log.read_bytes())
                edited.write_text("one = 2\n", encoding="utf-8")
                await until(lambda: b"notifications/reminder" in log.read_bytes())
                tool.end()
                assert process.stdout is not None
                output = await process.stdout.read()
    assert b"All is done." in output
    told = [msgspec.json.decode(line) for line in log.read_bytes().splitlines()]
    [body] = [one["params"]["reminder"]["body"] for one in told if one.get("method") == "notifications/reminder"]
    _, second, third = model.requests
    assert holding(second, body) == []
    [result] = holding(third, body)
    assert result.kind is Kind.RESULT


def _place(folder: Path) -> Callable[[str], Place]:
    """Directories of a test, for an address of a model."""
    home, directory = folder / "home", folder / "project"
    home.mkdir()
    directory.mkdir()
    return lambda url: Place(home=home, directory=directory, model_url=url)
