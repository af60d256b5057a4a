"""The ACP proxy over real pipes and a real store; the test is its editor and its agent."""

import asyncio
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from sideband.core.events import Event
from sideband.protocols.acp.proxy.proxy import MAX_FORWARDED_BYTES, Proxy
from sideband.protocols.acp.proxy.session import SETTLED_SECONDS
from sideband.runtime.session import Session
from sideband.runtime.store import Store, open_store
from tests.piped import FarEnd, piped
from tests.programs import ROOT
from tests.waiting import let_pass

NAME: Final = "stub"
EMITS: Final = {"_meta": {"sideband": {"reminders": {"emit": True}}}}
STEERS: Final = {"_meta": {"steering": {"supported": True}}}

Frame = dict[str, Any]


def text_block(text: str) -> Frame:
    return {"type": "text", "text": text}


def texts(prompt: Frame) -> list[str]:
    """The texts of the blocks of a prompt or a steer, as the agent got it."""
    return [block["text"] for block in prompt["params"]["prompt"]]


class Side(FarEnd):
    """The editor or the agent. `seen` has every frame that it got."""

    def __init__(self, end: FarEnd) -> None:
        super().__init__(end.reader, end.writer)
        self.seen: list[Frame] = []

    async def receive(self) -> Frame:
        frame: Frame = await super().receive()
        self.seen.append(frame)
        return frame

    async def end(self) -> None:
        """Read what is left until the stream ends."""
        while line := await self.reader.readline():
            if line.endswith(b"\n"):
                self.seen.append(msgspec.json.decode(line))

    async def answer_to(self, request_id: object) -> Frame:
        """The answer to a request, after whatever else arrives before it."""
        while (frame := await self.receive()).get("id") != request_id or "method" in frame:
            pass
        return frame

    async def called(self, method: str) -> Frame:
        """The next call of this method, after whatever else arrives before it."""
        while (frame := await self.receive()).get("method") != method:
            pass
        return frame

    async def update(self, kind: str) -> Frame:
        """The next update of this kind."""
        told: Frame = {}
        while told.get("sessionUpdate") != kind:
            told = (await self.called("session/update"))["params"]["update"]
        return told

    def updates(self, kind: str) -> list[Frame]:
        """The updates of this kind that have arrived."""
        found = (frame["params"]["update"] for frame in self.seen if frame.get("method") == "session/update")
        return [update for update in found if update["sessionUpdate"] == kind]

    def says(self, session_id: str, kind: str, /, **update: object) -> None:
        """Send an update of the agent."""
        self.call("session/update", {"sessionId": session_id, "update": {"sessionUpdate": kind, **update}})

    def answers(self, request: Frame, result: object = None, **error: object) -> None:
        """Answer a request, with an error if one is given."""
        outcome = {"error": error} if error else {"result": result}
        self.send({"jsonrpc": "2.0", "id": request["id"], **outcome})


class Stage:
    """A proxy between an editor and an agent that the test plays."""

    def __init__(self, editor: Side, agent: Side, store: Store) -> None:
        self.editor = editor
        self.agent = agent
        self.store = store
        self._next_id = 0

    def request(self, method: str, **params: object) -> int:
        """Send a request of the editor; its id."""
        self._next_id += 1
        self.editor.call(method, params, request_id=self._next_id)
        return self._next_id

    async def ask(self, method: str, **params: object) -> Frame:
        """Send a request of the editor that the proxy answers; the whole answer."""
        return await self.editor.answer_to(self.request(method, **params))

    async def passes(self, method: str, result: object, **params: object) -> Frame:
        """Send a request of the editor that the agent answers with this result; what the editor gets."""
        request_id = self.request(method, **params)
        self.agent.answers(await self.agent.called(method), result)
        answered: Frame = (await self.editor.answer_to(request_id))["result"]
        return answered

    async def initialize(self, reply: Mapping[str, Any], *, client: Mapping[str, Any] = EMITS) -> Frame:
        return await self.passes("initialize", reply, protocolVersion=1, clientCapabilities=client)

    async def open(self, session_id: str = "s1", *, cwd: str = "/project") -> str:
        await self.passes("session/new", {"sessionId": session_id}, cwd=cwd, mcpServers=[])
        return session_id

    async def load(self, session_id: str) -> None:
        await self.passes("session/load", {}, sessionId=session_id, cwd="/project", mcpServers=[])

    async def remind(self, body: str, session_id: str = "s1", **options: object) -> str:
        """Send a reminder by the editor; its id."""
        answer = await self.ask("session/inject_reminder", sessionId=session_id, body=body, **options)
        reminder_id: str = answer["result"]["reminderId"]
        return reminder_id

    async def prompt(self, text: str = "go", session_id: str = "s1") -> Frame:
        """Send a prompt; the frame that the agent gets."""
        self.request("session/prompt", sessionId=session_id, prompt=[text_block(text)])
        return await self.agent.called("session/prompt")

    async def end(self, prompt: Frame, stop_reason: str = "end_turn") -> Frame:
        """Let the agent run and answer a prompt; what the editor gets."""
        self.agent.says(prompt["params"]["sessionId"], "agent_message_chunk", content=text_block("done"))
        self.agent.answers(prompt, {"stopReason": stop_reason})
        return await self.editor.answer_to(prompt["id"])

    async def turn(self, text: str = "go", session_id: str = "s1") -> list[str]:
        """A whole turn; the texts that the agent got."""
        prompt = await self.prompt(text, session_id)
        await self.end(prompt)
        return texts(prompt)

    async def run_tool(self, call_id: str = "t1", session_id: str = "s1") -> None:
        """Let the agent run a tool, and let it run for so long that the agent can be steered."""
        self.agent.says(session_id, "tool_call", toolCallId=call_id, title="run", status="in_progress")
        await self.editor.update("tool_call")
        let_pass(SETTLED_SECONDS)

    async def steered(self) -> Frame:
        """The next steer that the agent gets; it takes it."""
        steer = await self.agent.called("_session/steering")
        self.agent.answers(steer, {"outcome": "injected"})
        return steer

    # The store.

    async def session(self, session_id: str = "s1") -> Session:
        session = await self.store.find(f"proxy:{NAME}:{session_id}")
        assert session is not None
        return session

    async def events(self, session_id: str = "s1") -> Sequence[Event]:
        """The journal of a session."""
        found = self.store.journal.history(session_id=f"proxy:{NAME}:{session_id}")
        return [row.event async for row in found]


@asynccontextmanager
async def a_proxy(place: Path, *, patience_seconds: float | None = None) -> AsyncIterator[Stage]:
    """A proxy with its store in this folder; a second one in the same folder has the same sessions."""
    async with (
        open_store(f"sqlite:///{place}/store.db", patience_seconds=patience_seconds) as store,
        piped(limit=MAX_FORWARDED_BYTES) as (to_editor, editor),
        piped(limit=MAX_FORWARDED_BYTES) as (to_agent, agent),
    ):
        proxy = Proxy(to_editor, to_agent, store, agent_name=NAME)
        forwarding = [asyncio.ensure_future(proxy.forward_editor()), asyncio.ensure_future(proxy.forward_agent())]
        try:
            yield Stage(Side(editor), Side(agent), store)
        finally:
            for task in forwarding:
                task.cancel()
            for task in forwarding:
                with suppress(asyncio.CancelledError):
                    await task
            await proxy.aclose()


@asynccontextmanager
async def an_open_session(
    place: Path, *, steers: bool = True, patience_seconds: float | None = None
) -> AsyncIterator[Stage]:
    """A proxy with one session, `s1`; its agent can be steered, or not."""
    async with a_proxy(place, patience_seconds=patience_seconds) as stage:
        await stage.initialize({"protocolVersion": 1, "agentCapabilities": {}, **(STEERS if steers else {})})
        await stage.open()
        yield stage


@contextmanager
def a_locked_store(place: Path) -> Iterator[None]:
    """Another program that writes to the store in this folder for a long time."""
    with closing(sqlite3.connect(place / "store.db", isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        yield
        writer.execute("ROLLBACK")


# The command, in a process of its own.


class RunningStage(Stage):
    """The command line of the proxy, with a program as its agent that the test plays."""

    def __init__(self, editor: Side, agent: Side, store: Store, process: Process, stderr: Path) -> None:
        super().__init__(editor, agent, store)
        self.process = process
        self._stderr = stderr

    async def begin(self, *, steers: bool = True) -> None:
        await self.initialize({"protocolVersion": 1, "agentCapabilities": {}, **(STEERS if steers else {})})

    def end_agent(self, status: int) -> None:
        """Let the program of the agent end."""
        self.agent.writer.write(b"\0%d\n" % status)

    async def status(self) -> int:
        """The exit status of the command."""
        return await self.process.wait()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text(encoding="utf-8")


@asynccontextmanager
async def a_proxy_process(
    place: Path, *options: str, victim: tuple[str, int] | None = None
) -> AsyncIterator[RunningStage]:
    """Run the command with its store in this folder. `victim`: it kills itself at this moment, the N-th of its kind."""
    url, path, stderr = f"sqlite:///{place}/store.db", place / "agent.socket", place / "stderr"
    path.unlink(missing_ok=True)
    agents: asyncio.Queue[FarEnd] = asyncio.Queue()
    server = await asyncio.start_unix_server(lambda *ends: agents.put_nowait(FarEnd(*ends)), path)
    program = (sys.executable, "-I", "-S", str(ROOT / "tests" / "relayed_agent.py"), str(path))
    if victim is None:
        command = ("sideband.cli", "acp-proxy", "--store", url, "--name", NAME, *options, "--", *program)
    else:
        command = ("tests.proxy_victim", victim[0], str(victim[1]), url, NAME, *program)
    with stderr.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *command, cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=errors, limit=2**24
        )
    assert process.stdin is not None
    assert process.stdout is not None
    agent = await agents.get()
    try:
        async with open_store(url) as store:
            yield RunningStage(Side(FarEnd(process.stdout, process.stdin)), Side(agent), store, process, stderr)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        for writer in (agent.writer, process.stdin):
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        server.close()
        await server.wait_closed()
