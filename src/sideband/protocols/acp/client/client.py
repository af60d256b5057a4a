"""The client side of ACP: connect to an agent, open its sessions, and answer what it asks.

```python
async with connect("claude-agent-acp") as agent:
    session = await agent.new_session("/path/of/the/project")
    await session.remind("The build is red.", dedupe_key="build", ttl_turns=2)
    async for update in (turn := session.prompt("Fix the login bug.")):
        ...
    print(turn.stop_reason)
```
"""

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from sideband import __version__
from sideband.core.errors import InvalidOption, ReminderError, shown
from sideband.protocols.acp.client.capabilities import PeerCapabilities, read_capabilities
from sideband.protocols.acp.client.failures import (
    AgentEnded,
    AgentFailed,
    AgentNotStarted,
    AgentNotUnderstood,
    AgentSilent,
    LoginRequired,
)
from sideband.protocols.acp.client.refusals import NotSupportedByAgent, refused_by_agent
from sideband.protocols.acp.client.requests import AgentRequests, AnswerRequest, AskPermission
from sideband.protocols.acp.client.session import (
    AgentSession,
    Fallback,
    ShowReminder,
)
from sideband.protocols.acp.client.updates import ReminderReader, UpdateStream
from sideband.protocols.acp.messages import ReminderUpdate
from sideband.protocols.acp.methods import member
from sideband.protocols.frames import ConnectionLost, Transport
from sideband.protocols.jsonrpc import Call, Later, Peer, RpcError, encode
from sideband.protocols.process import ChildNotStarted, ChildProcess, start_child

PROTOCOL_VERSION: Final = 1
# How long an agent may take to answer; a prompt has no limit.
ANSWER_SECONDS: Final = 60.0
# An agent whose list of sessions never ends is cut off.
MAX_PAGES: Final = 10_000

_AUTH_REQUIRED: Final = -32000


class ListedSession(NamedTuple):
    """A session that an agent lists; `details` is the whole object."""

    session_id: str
    cwd: str | None
    title: str | None
    details: Mapping[str, Any]


_FailureT = TypeVar("_FailureT", bound=AgentFailed)


@asynccontextmanager
async def connect(
    agent: str | Sequence[str] | Transport,
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    ask_permission: AskPermission | None = None,
    answers: Mapping[str, AnswerRequest] | None = None,
    fallback: Fallback | str = Fallback.SUPPRESS,
    show: ShowReminder | None = None,
    answer_seconds: float = ANSWER_SECONDS,
    client_info: Mapping[str, str] | None = None,
) -> "AsyncIterator[AgentClient]":
    """Connect to an agent, and end it at the end of the block. `AgentFailed` if it cannot be used.

    Args:
        agent: The command of the agent, which is started without a shell, or a connection to a running one.
        cwd: The folder in which the command is started, and in which its sessions work by default; the default is that
            of this process.
        env: The whole environment of the command, as for `subprocess`; the default is that of this process.
        ask_permission: Called when the agent asks for a permission; returns the id of an option, or None to refuse.
            Without it every permission is refused.
        answers: Functions for other requests of the agent, by method: `fs/read_text_file`, `fs/write_text_file`, the five
            of `terminal/`, and extensions, which begin with an underscore. They get the parameters and return the result.
            What is not here is not advertised, and refused.
        fallback: What happens to a reminder if the agent does not support reminders.
        show: Shows a reminder to the user, for the fallback `show`.
        answer_seconds: How long the agent may take to answer a request other than a prompt.
        client_info: The `name` and `version` of your program.
    """
    chosen = _read_fallback(fallback, show)
    requests = AgentRequests(ask_permission, answers or {})
    if not answer_seconds > 0:
        raise InvalidOption(
            f"answer_seconds must be more than 0, not {shown(answer_seconds)}",
            field="answer_seconds",
            value=answer_seconds,
        )
    process: ChildProcess | None = None
    if isinstance(agent, str | Sequence):
        environment = os.environ if env is None else env
        process = await _started(_argv(agent), Path(_absolute(cwd or ".")), environment)
        transport: Transport = process.pipes
    elif cwd is not None or env is not None:
        raise InvalidOption("cwd and env belong to a command; a connection has neither", field="cwd")
    else:
        transport = agent
    client = AgentClient(
        transport,
        process,
        requests,
        cwd=cwd or ".",
        fallback=chosen,
        show=show,
        answer_seconds=answer_seconds,
    )
    try:
        await client.initialize(client_info or {"name": "sideband", "version": __version__})
        yield client
    finally:
        await client.close()


async def _started(argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> ChildProcess:
    try:
        return await start_child(argv, cwd=cwd, environment=environment, what="the agent")
    except ChildNotStarted as error:
        raise AgentNotStarted(str(error)) from None


def _argv(agent: str | Sequence[str]) -> list[str]:
    try:
        argv = shlex.split(agent) if isinstance(agent, str) else list(agent)
    except ValueError as error:
        raise InvalidOption(f"the command {shown(agent)} cannot be read: {error}", field="agent", value=agent) from None
    if not argv:
        raise InvalidOption("the command of the agent is empty", field="agent", value=agent)
    return argv


def _read_fallback(fallback: str, show: ShowReminder | None) -> Fallback:
    if fallback not in tuple(Fallback):
        words = ", ".join(repr(word.value) for word in Fallback)
        raise InvalidOption(f"fallback must be one of {words}, not {shown(fallback)}", field="fallback", value=fallback)
    if (fallback == Fallback.SHOW) != (show is not None):
        raise InvalidOption("fallback='show' and show= belong together", field="show", value=show)
    return Fallback(fallback)


class AgentClient:
    """A connection to an agent; made by `connect`.

    `capabilities` is what the agent can do, `info` its name and version, `auth_methods` the ways to log in.
    """

    def __init__(
        self,
        transport: Transport,
        process: ChildProcess | None,
        requests: AgentRequests,
        *,
        cwd: str | Path,
        fallback: Fallback,
        show: ShowReminder | None,
        answer_seconds: float,
    ) -> None:
        self.capabilities = PeerCapabilities()
        self.info: Mapping[str, Any] = {}
        self.auth_methods: tuple[Mapping[str, Any], ...] = ()
        self.fallback = fallback
        self.show = show
        self._cwd = cwd
        self._process = process
        self._requests = requests
        self._answer_seconds = answer_seconds
        self._peer = Peer(transport, self._handle)
        self._serving = asyncio.create_task(self._serve(), name="sideband-acp-client")
        self._streams: set[UpdateStream[Any]] = set()
        self._turns: set[asyncio.Task[Any]] = set()
        self._is_working = False
        self._is_closing = False

    @property
    def stderr(self) -> str:
        """The end of the agent's standard error; empty if it was not started by this client."""
        return "" if self._process is None else self._process.stderr

    # Sessions.

    async def new_session(
        self, cwd: str | Path | None = None, *, mcp_servers: Sequence[Mapping[str, Any]] = ()
    ) -> AgentSession:
        """Begin a session that works in the folder `cwd`; the default is the folder that `connect` was called with."""
        result = await self.request("session/new", self._place(cwd, mcp_servers))
        session_id = member(result, "sessionId")
        if not isinstance(session_id, str):
            raise self.misunderstood("session/new", result)
        return AgentSession(self, session_id)

    async def load_session(
        self, session_id: str, cwd: str | Path | None = None, *, mcp_servers: Sequence[Mapping[str, Any]] = ()
    ) -> AgentSession:
        """Open a session and let the agent replay it; read the replay from a stream made before, with `updates`."""
        if not self.capabilities.loads:
            raise NotSupportedByAgent("session/load", "it cannot open a session that was begun before")
        await self.request("session/load", {"sessionId": session_id, **self._place(cwd, mcp_servers)})
        return AgentSession(self, session_id)

    async def resume_session(
        self, session_id: str, cwd: str | Path | None = None, *, mcp_servers: Sequence[Mapping[str, Any]] = ()
    ) -> AgentSession:
        """Open a session without a replay."""
        if not self.capabilities.resumes:
            raise NotSupportedByAgent(
                "session/resume", "it cannot continue a session without a replay; load the session instead"
            )
        await self.request("session/resume", {"sessionId": session_id, **self._place(cwd, mcp_servers)})
        return AgentSession(self, session_id)

    def _place(self, cwd: str | Path | None, mcp_servers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {"cwd": _absolute(self._cwd if cwd is None else cwd), "mcpServers": list(mcp_servers)}

    def session(self, session_id: str) -> AgentSession:
        """A session that is open in this connection already, or that need not be opened; nothing is sent."""
        return AgentSession(self, session_id)

    async def list_sessions(self, cwd: str | Path | None = None) -> AsyncIterator[ListedSession]:
        """The sessions that the agent keeps, or only those of a folder."""
        if not self.capabilities.lists:
            raise NotSupportedByAgent("session/list", "it cannot list its sessions")
        params = {} if cwd is None else {"cwd": _absolute(cwd)}
        for _ in range(MAX_PAGES):
            page = await self.request("session/list", params)
            sessions = member(page, "sessions")
            for listed in sessions if isinstance(sessions, list) else ():
                if isinstance(session_id := member(listed, "sessionId"), str):
                    yield ListedSession(session_id, _text(listed, "cwd"), _text(listed, "title"), listed)
            cursor = _text(page, "nextCursor")
            if cursor is None or cursor == params.get("cursor"):
                return
            params["cursor"] = cursor

    async def authenticate(self, method_id: str) -> None:
        """Log in by one of the `auth_methods`; this has no time limit, because a person may have to act."""
        await self.request("authenticate", {"methodId": method_id}, limited=False)

    # What the agent reports.

    def updates(self) -> UpdateStream[tuple[str, dict[str, Any]]]:
        """All updates of all sessions from now on, each with the id of its session."""
        return self.stream(lambda session_id, update: ((session_id, update),))

    def reminder_updates(self) -> UpdateStream[tuple[str, ReminderUpdate]]:
        """What happens to reminders in all sessions from now on, each with the id of the session."""
        reader = ReminderReader()

        def select(session_id: str, update: dict[str, Any]) -> Iterable[tuple[str, ReminderUpdate]]:
            found = reader.read(session_id, update)
            return () if found is None else ((session_id, found),)

        return self.stream(select)

    def stream(self, select: Callable[[str, dict[str, Any]], Iterable[Any]]) -> UpdateStream[Any]:
        """A stream of what `select` returns for each update and the id of its session."""
        made: UpdateStream[Any] = UpdateStream(select)
        if self._serving.done():
            made.close()
        else:
            self._streams.add(made)
        return made

    # Requests of ours.

    async def request(self, method: str, params: Mapping[str, Any], *, limited: bool = True) -> Any:  # noqa: ANN401 - any JSON value
        """Call any method of the agent and return its result; without `limited`, it may take any time.

        A refusal is a `ReminderError` if the agent gives a reason that Sideband knows, otherwise an `RpcError`.
        """
        try:
            async with asyncio.timeout(self._answer_seconds if limited else None):
                return await self._peer.begin(method, params)
        except TimeoutError:
            raise self._silence(method) from None
        except (ConnectionLost, RpcError) as error:
            raise await self._failed(error, method, params) from error

    def start_turn(self, params: Mapping[str, Any]) -> asyncio.Task[Any]:
        """Send a prompt before anything that is sent later; the task has the result, and ends with the connection."""
        try:
            answer = self._peer.begin("session/prompt", params)
        except ConnectionLost as error:
            answer = asyncio.get_running_loop().create_future()
            answer.set_exception(error)
        task = asyncio.create_task(self._turn(answer, params))
        self._turns.add(task)
        task.add_done_callback(lambda done: self._end_turn(done, answer, params))
        return task

    async def _turn(self, answer: asyncio.Future[Any], params: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
        try:
            return await answer
        except (ConnectionLost, RpcError) as error:
            raise await self._failed(error, "session/prompt", params) from error

    def _end_turn(self, task: asyncio.Task[Any], answer: asyncio.Future[Any], params: Mapping[str, Any]) -> None:
        self._turns.discard(task)
        if task.cancelled():
            # The task may have been cancelled before it began to wait for the answer.
            answer.cancel()
            self.cancel_turn(params["sessionId"])
        else:
            # A caller may read the updates only, and learns of an error there.
            task.exception()

    def cancel_turn(self, session_id: str) -> None:
        """End the running turn of a session, and withdraw the questions that the agent has asked for it."""
        self.notify("session/cancel", {"sessionId": session_id})
        self._requests.withdraw_questions(session_id)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification to the agent."""
        self._peer.notify(method, params)

    async def initialize(self, client_info: Mapping[str, str]) -> None:
        """Agree on the protocol version and exchange the capabilities; `connect` does this."""
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": {
                **self._requests.capabilities(),
                "_meta": {"sideband": {"reminders": {"emit": True}}},
            },
            "clientInfo": dict(client_info),
        }
        try:
            reply = await self.request("initialize", params)
        except (RpcError, NotSupportedByAgent, ReminderError) as error:
            raise self._failure(
                AgentNotUnderstood, f"refused to begin a connection ({error}); check that it is an ACP agent"
            ) from error
        version = member(reply, "protocolVersion")
        if not isinstance(version, int) or isinstance(version, bool):
            raise self.misunderstood("initialize", reply)
        if version != PROTOCOL_VERSION:
            raise self._failure(
                AgentNotUnderstood,
                f"speaks version {version} of ACP, and this client speaks version {PROTOCOL_VERSION}; "
                f"use a version of the agent that speaks {PROTOCOL_VERSION}, or a newer Sideband",
            )
        self._is_working = True
        methods = reply.get("authMethods")
        self.capabilities = read_capabilities(reply)
        self.info = info if isinstance(info := reply.get("agentInfo"), dict) else {}
        self.auth_methods = (
            tuple(method for method in methods if isinstance(method, dict)) if isinstance(methods, list) else ()
        )

    # Calls of the agent.

    async def _handle(self, call: Call) -> Later | None:
        # This never waits, so that an update is in the streams before the answer that follows it is read.
        if call.request_id is None:
            if call.method == "session/update":
                self._publish(call.params)
            return None
        return self._requests.answer(call)

    def _publish(self, params: Mapping[str, Any]) -> None:
        session_id, update = params.get("sessionId"), params.get("update")
        if not self._streams or not isinstance(session_id, str) or not isinstance(update, dict):
            return
        size = len(encode(update))
        for stream in tuple(self._streams):
            stream.feed(session_id, update, size)
            if stream.is_over:
                self._streams.discard(stream)

    # The end, and failures.

    async def _serve(self) -> None:
        error: Exception | None = None
        try:
            await self._peer.serve()
            error = None if self._is_closing else await self._loss("session/update")
        finally:
            for stream in self._streams:
                stream.close(error)
            self._streams.clear()

    async def close(self) -> None:
        """End the turns and streams, the connection, and the agent if it was started for it; `connect` does this."""
        if self._is_closing:
            return
        self._is_closing = True
        turns = tuple(self._turns)
        for task in turns:
            task.cancel()
        try:
            if self._process is None:
                await self._peer.transport.close()
            else:
                await self._process.end(is_working=self._is_working)
        finally:
            self._serving.cancel()
            await asyncio.wait({self._serving, *turns})

    def misunderstood(self, method: str, result: object) -> AgentNotUnderstood:
        """The error for a result that is not what the protocol says."""
        return self._failure(
            AgentNotUnderstood,
            f"answered {method} with {shown(result)}, which is not ACP; check that it is an ACP agent",
        )

    def _silence(self, method: str) -> AgentSilent:
        seconds = self._answer_seconds
        if method != "initialize":
            return self._failure(
                AgentSilent, f"did not answer {method} within {seconds:g} s; try again, or allow it more time"
            )
        return self._failure(
            AgentSilent,
            f"did not answer within {seconds:g} s{self._said()}; check that the command starts an ACP agent (some need "
            "an option for it, for example --acp), or allow it more time if it is only slow to start",
        )

    async def _failed(self, error: ConnectionLost | RpcError, method: str, params: Mapping[str, Any]) -> Exception:
        if isinstance(error, ConnectionLost):
            return await self._loss(method)
        return self._login() if error.code == _AUTH_REQUIRED else refused_by_agent(error, method, params)

    async def _loss(self, method: str) -> AgentEnded:
        if self._is_closing:
            return AgentEnded(f"the connection was closed before {method} was answered")
        if self._process is None:
            return AgentEnded(f"the agent closed the connection before it answered {method}; connect again")
        if self._process.pipes.is_overrun:
            return self._failure(AgentEnded, "does not read its standard input, so it was given up; start it again")
        code = await self._process.exit_code()
        ended = "closed its standard output" if code is None else _exit(code)
        return self._failure(
            AgentEnded, f"{ended} before it answered {method}{self._said()}; run the command in a terminal to see why"
        )

    def _said(self) -> str:
        pipes = None if self._process is None else self._process.pipes
        if pipes is None or not pipes.other_lines:
            return ""
        lines = "1 line" if pipes.other_lines == 1 else f"{pipes.other_lines:,} lines"
        return f", and wrote {lines} that are not ACP, first {shown(pipes.first_other_line)}"

    def _failure(self, kind: type[_FailureT], what: str) -> _FailureT:
        name = "the agent" if self._process is None else f"the agent {shown(self._process.command)}"
        return kind(f"{name} {what}", stderr=self.stderr)

    def _login(self) -> LoginRequired:
        ways = ", ".join(shown(way.get("id")) for way in self.auth_methods) or "none that it names"
        return self._failure(
            LoginRequired, f"requires a login; log in with its own command, or by one of its methods: {ways}"
        )


# Reading what an agent answers.


def _absolute(path: str | Path) -> str:
    return str(Path(path).absolute())


def _text(value: object, name: str) -> str | None:
    found = member(value, name)
    return found if isinstance(found, str) else None


def _exit(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
