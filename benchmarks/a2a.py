"""What the A2A server costs over sockets, beside a bare route of its web framework and beside the official SDK.

Every server is a process of its own. The client writes HTTP/1.1 as bytes to a socket and reads the answer, because a
client library would take longer than the servers. What is compared takes turns, so that all meet the same machine.
"""

import asyncio
import re
import resource
import socket
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any, Final, NamedTuple, cast

import msgspec

from benchmarks.a2a_servers import REPLY
from benchmarks.durable import late
from benchmarks.effort import Effort, Progress
from benchmarks.report import Figure, Report, Table, Target, duration, times

PART: Final = "a2a"
ROOT: Final = Path(__file__).parents[1]
ROUNDS: Final = 4
MAX_REMINDER_RATIO: Final = 1.6
LEAST_SDK_RATIO: Final = 5.0
MAX_EVENT_NS: Final = 1e9

FLOOR: Final = "a bare Starlette route, a fixed result"
MEMORY: Final = "tasks/inject_reminder, in memory"
DURABLE: Final = "tasks/inject_reminder, in a store file"
SDK: Final = "SendMessage of the official SDK, completed at once"
EVENT: Final = "the end of a reminder"
STREAM: Final = "memory of the server, for each stream"

EXTENSION: Final = "urn:sideband:a2a:reminders:v1"
BODY: Final = "File changed externally: src/app.py. Re-read it before editing."
# No further round begins after this time, so that a slow disk cannot make the part long.
MOST_SECONDS: Final = 30.0
# A server that does not answer ends the benchmark.
TIMEOUT_SECONDS: Final = 60.0
# Fewer than a listening socket may have waiting.
OPENED_AT_ONCE: Final = 50
# All streams read that a reminder was accepted, but do not tell it; this is not part of the time of the next event.
PAUSE_SECONDS: Final = 0.3
# What a process has open besides the streams.
SPARE_FILES: Final = 200
KIB: Final = 1024


class Size(NamedTuple):
    """`calls` are those of one round; each of `events` goes to all `streams`."""

    rounds: int
    calls: int
    streams: int
    events: int

    @property
    def steps(self) -> int:
        return self.rounds + 1 + self.events


class Fanned(NamedTuple):
    """How long it took until the streams had an event, one list for each event.

    `opening` is the time in which all were opened, divided by their number. `growth` is the memory of the server for
    each stream in bytes; None where the system does not tell.
    """

    spent: list[list[int]]
    opening: float
    growth: float | None


def measure(effort: Effort, progress: Progress) -> Report:
    amount = Size(
        rounds=ROUNDS * effort.rounds,
        calls=max(5, effort.calls // 10),
        streams=max(20, effort.calls),
        events=max(2, effort.rounds),
    )
    _raise_file_limit(amount.streams + SPARE_FILES)
    with tempfile.TemporaryDirectory(prefix="sideband-") as directory:
        spent = asyncio.run(_calls(Path(directory), amount, progress))
        fanned = asyncio.run(_fanned(amount, progress))
    return _report(spent, fanned, amount)


def _raise_file_limit(wanted: int) -> None:
    """Let this process, and the servers that it starts, have so many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )


# Servers.


class Server(NamedTuple):
    """A process that listens on a port of this machine."""

    process: Process
    port: int

    def memory(self) -> int | None:
        """The resident memory of the process in bytes; None where the system does not tell."""
        status = Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            return None
        found = re.search(r"^VmRSS:\s*(\d+) kB$", status.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
        return None if found is None else int(found[1]) * KIB


@asynccontextmanager
async def _process(*arguments: str) -> AsyncIterator[Process]:
    """A new process of a server; it ends when its standard input does."""
    command = (sys.executable, "-m", "benchmarks.a2a_servers", *arguments)
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        await process.wait()


async def _listening(process: Process) -> Server:
    assert process.stdout is not None
    return Server(process, int(await process.stdout.readline()))


# The client.

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_BLANK: Final = b"\r\n\r\n"
_encode: Final = msgspec.json.Encoder().encode


class Connection:
    """A connection that is kept open; one request at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()

    async def post(self, request: bytes) -> tuple[int, bytes]:
        """The nanoseconds from the request to its whole answer, and the body of the answer."""
        start = perf_counter_ns()
        await self._loop.sock_sendall(self._sock, request)
        data, length = b"", None
        while length is None or len(data) < length:
            read = await self._loop.sock_recv(self._sock, 2**16)
            assert read, "the server has closed the connection"
            data += read
            if length is None and (end := data.find(_BLANK)) >= 0:
                found = _LENGTH.search(data, 0, end)
                assert found is not None, data
                length = end + len(_BLANK) + int(found[1])
        return perf_counter_ns() - start, data.partition(_BLANK)[2]

    async def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a call that is not timed."""
        return _result((await self.post(_request(method, params)))[1])


@asynccontextmanager
async def _connection(server: Server) -> AsyncIterator[Connection]:
    with socket.socket() as sock:
        sock.settimeout(0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", server.port))
        yield Connection(sock)


def _request(method: str, params: Mapping[str, Any], *headers: str) -> bytes:
    body = _encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    head = (
        "POST / HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "A2A-Version: 1.0",
        *headers,
    )
    return "\r\n".join(head).encode() + _BLANK + body


def _result(body: bytes) -> dict[str, Any]:
    answer = msgspec.json.decode(body)
    assert "result" in answer, answer
    return cast("dict[str, Any]", answer["result"])


def _message(text: str) -> dict[str, Any]:
    return {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}]}


def _reminder(task_id: str) -> dict[str, Any]:
    """A reminder as a coordinator sends it; a newer one with the same key replaces it, so that the inbox does not grow."""
    reminder = {
        "body": BODY,
        "source": "coordinator",
        "tags": ["workspace", "file_changed"],
        "dedupeKey": "file_changed:src/app.py",
        "ttlTurns": 2,
        "propagate": "none",
        "roleHint": "user_block",
    }
    return {"taskId": task_id, "reminder": reminder}


async def _begin(server: Server) -> str:
    """Begin a task and return its id when its agent waits in a tool."""
    async with _connection(server) as connection:
        sent = await connection.call(
            "SendMessage", {"message": _message("Fix the build."), "configuration": {"returnImmediately": True}}
        )
        task_id: str = sent["task"]["id"]
        while REPLY not in str(await connection.call("GetTask", {"id": task_id})):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.005)
    return task_id


# Calls.

Spent = dict[str, list[list[int]]]
"""The nanoseconds of every call of every round, by what was called."""


async def _calls(directory: Path, amount: Size, progress: Progress) -> Spent:
    spent: Spent = {}
    async with asyncio.timeout(TIMEOUT_SECONDS), AsyncExitStack() as stack:
        # All are started before the first has its port, because they take a second to load.
        processes = {name: await stack.enter_async_context(_process(*role)) for name, role in _roles(directory)}
        servers = {name: await _listening(process) for name, process in processes.items()}
        requests = {SDK: _request("SendMessage", {"message": _message(BODY)})}
        for name in (MEMORY, DURABLE):
            requests[name] = _request("tasks/inject_reminder", _reminder(await _begin(servers[name])))
        # The route is sent the same bytes.
        requests[FLOOR] = requests[MEMORY]
        until = perf_counter_ns() + MOST_SECONDS * 1e9
        # The first round is the warm-up.
        for done in range(amount.rounds + 1):
            for name, server in servers.items():
                values = await _timed(server, requests[name], amount.calls)
                if done:
                    spent.setdefault(name, []).append(values)
            progress.step(PART, done, amount.steps)
            if done and perf_counter_ns() > until:
                break
    return spent


def _roles(directory: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield FLOOR, ("floor",)
    yield MEMORY, ("agent", "memory:")
    yield SDK, ("sdk",)
    yield DURABLE, ("agent", f"sqlite:///{directory / 'agent.db'}")


async def _timed(server: Server, request: bytes, calls: int) -> list[int]:
    async with _connection(server) as connection:
        # A web server accepts a connection, and sets it up, with its first request.
        _result((await connection.post(request))[1])
        answers = [await connection.post(request) for _ in range(calls)]
    assert all(b'"result"' in body for _, body in answers)
    return [spent for spent, _ in answers]


# Streams.


class Audience:
    """All streams, and when each of them got what is wanted."""

    def __init__(self) -> None:
        self.wanted = b""
        self._left = 0
        self._arrived: list[int] = []
        self._done = asyncio.Event()

    def expect(self, wanted: bytes, streams: int) -> None:
        """Begin to wait for so many streams to get these bytes."""
        self.wanted, self._left, self._arrived = wanted, streams, []
        self._done.clear()

    def note(self, moment: int) -> None:
        self._arrived.append(moment)
        self._left -= 1
        if not self._left:
            self._done.set()

    async def arrivals(self) -> list[int]:
        """When each stream got them."""
        await self._done.wait()
        return self._arrived


class Stream(asyncio.Protocol):
    """The client's end of an event stream."""

    def __init__(self, audience: Audience, request: bytes) -> None:
        self._audience = audience
        self._request = request
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.WriteTransport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        moment = perf_counter_ns()
        self._unread += data
        if self._audience.wanted in self._unread:
            self._unread = b""
            self._audience.note(moment)


async def _fanned(amount: Size, progress: Progress) -> Fanned:
    """Open many streams on one task, and end reminders of the task one after the other."""
    async with asyncio.timeout(TIMEOUT_SECONDS), _process("agent", "memory:") as process, AsyncExitStack() as stack:
        server = await _listening(process)
        task_id = await _begin(server)
        before = server.memory()
        audience = Audience()
        start = perf_counter_ns()
        await _open_streams(server, task_id, amount.streams, audience, stack)
        opening = (perf_counter_ns() - start) / amount.streams
        spent = []
        for number in range(amount.events):
            spent.append(await _ended(server, task_id, amount.streams, audience))
            progress.step(PART, amount.rounds + 2 + number, amount.steps)
        after = server.memory()
    growth = None if before is None or after is None else (after - before) / amount.streams
    return Fanned(spent, opening, growth)


async def _open_streams(server: Server, task_id: str, count: int, audience: Audience, stack: AsyncExitStack) -> None:
    loop = asyncio.get_running_loop()
    request = _request("SubscribeToTask", {"id": task_id}, f"A2A-Extensions: {EXTENSION}")
    for begun in range(0, count, OPENED_AT_ONCE):
        together = min(OPENED_AT_ONCE, count - begun)
        # Each stream begins with the task.
        audience.expect(b'"history"', together)
        for _ in range(together):
            transport, _stream = await loop.create_connection(
                lambda: Stream(audience, request), "127.0.0.1", server.port
            )
            stack.callback(transport.abort)
        await audience.arrivals()


async def _ended(server: Server, task_id: str, streams: int, audience: Audience) -> list[int]:
    """The nanoseconds from the request that ends a reminder to the receipt of its end by each stream."""
    async with _connection(server) as connection:
        reminder_id = (await connection.call("tasks/inject_reminder", _reminder(task_id)))["reminderId"]
        await asyncio.sleep(PAUSE_SECONDS)
        audience.expect(reminder_id.encode(), streams)
        start = perf_counter_ns()
        cleared = await connection.call("tasks/clear_reminders", {"taskId": task_id, "id": reminder_id})
        assert cleared["removedCount"] == 1, cleared
        return [moment - start for moment in await audience.arrivals()]


# The report.


def _report(spent: Spent, fanned: Fanned, amount: Size) -> Report:
    medians = {name: [median(values) for values in rounds] for name, rounds in spent.items()}

    def beside(name: str, base: str) -> float:
        return median(one / other for one, other in zip(medians[name], medians[base], strict=True))

    event = f"{EVENT}, to each of {amount.streams:,} streams"
    ends = _all(fanned.spent)
    growth = fanned.growth
    return Report(
        part=PART,
        tables=(
            Table(
                title="A2A: a request over a socket",
                note=f"Time from the request to its answer, on a connection that is kept open: the median and the 99th "
                f"percentile of {amount.calls:,} in each of\n{len(spent[FLOOR])} rounds, measured in turn, while an agent "
                "waits in a tool; the ratios are medians of those of the rounds.",
                columns=("what", "median", "99 %", "x route", "x SDK"),
                rows=tuple(
                    _row(name, _all(rounds), beside(name, FLOOR), beside(name, SDK)) for name, rounds in spent.items()
                ),
            ),
            Table(
                title=f"A2A: one event for {amount.streams:,} streams",
                note=f"Time from tasks/clear_reminders to the receipt by each stream: {amount.events} events, all streams on one "
                f"task of one process and read by one client.\nOpening a stream took {duration(fanned.opening)} "
                f"({OPENED_AT_ONCE} at once). The server's memory grew by "
                f"{'an unknown number of' if growth is None else f'{growth / KIB:.0f}'} KiB for each stream.",
                columns=("what", "median", "99 %", "longest"),
                rows=((event, duration(median(ends)), duration(late(ends)), duration(max(ends))),),
            ),
        ),
        targets=(
            Target(name=f"{MEMORY}, beside {FLOOR}", limit=MAX_REMINDER_RATIO, measured=beside(MEMORY, FLOOR)),
            Target(name=f"{SDK}, beside {MEMORY}", limit=LEAST_SDK_RATIO, measured=beside(SDK, MEMORY), at_least=True),
            Target(name=f"{event}, 99 %", limit=MAX_EVENT_NS, measured=late(ends), unit="ns"),
        ),
        figures=(
            *(Figure(name=name, value=median(_all(rounds))) for name, rounds in spent.items()),
            Figure(name=event, value=median(ends)),
            *(() if growth is None else (Figure(name=STREAM, value=growth, unit="bytes"),)),
        ),
    )


def _row(name: str, spent: list[int], beside_route: float, beside_sdk: float) -> tuple[str, ...]:
    return name, duration(median(spent)), duration(late(spent)), times(beside_route), times(beside_sdk)


def _all(rounds: Sequence[Sequence[int]]) -> list[int]:
    return [value for values in rounds for value in values]
