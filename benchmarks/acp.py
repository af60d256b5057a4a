"""What the ACP agent and the proxy cost over real pipes, beside the least that a program on asyncio needs.

Every server is a process of its own. The client is asyncio, like most clients of the protocol: it writes a line, reads
lines and decodes their envelopes. What is compared takes turns, so that both meet the same machine.
"""

import asyncio
import shutil
import subprocess
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any, Final, NamedTuple

import msgspec

from benchmarks import accepts
from benchmarks.acp_servers import SESSION
from benchmarks.durable import late
from benchmarks.effort import Effort, Progress
from benchmarks.report import Figure, Report, Table, Target, duration, rate, times
from benchmarks.startup import BARE, environment
from benchmarks.updates import BODY
from sideband.store.sqlite import open_sqlite

PART: Final = "acp"
ROOT: Final = Path(__file__).parents[1]
ROUNDS: Final = 4
MAX_REMINDER_RATIO: Final = 2.0
MAX_DURABLE_RATIO: Final = 1.2
LEAST_UPDATES: Final = 15_000.0
MAX_PROXY_RATIO: Final = 1.5
MAX_START_NS: Final = 500e6

FLOOR: Final = "lines of JSON, a fixed result"
MEMORY: Final = "session/inject_reminder, in memory"
DURABLE: Final = "session/inject_reminder, in a store file"
SDK: Final = "ext_method of the official SDK, a fixed result"
COMMIT: Final = "a commit to a store file, in process"
REPLAY: Final = "updates of session/load, through one pipe"
FORWARDED: Final = "an update, by a forwarder of lines"
PROXIED: Final = "an update, by sideband acp-proxy"
ASKED: Final = "a request and its answer, by a forwarder of lines"
ASKED_PROXY: Final = "a request and its answer, by sideband acp-proxy"
START: Final = "sideband acp, to the answer of initialize"

HAS_SDK: Final = find_spec("acp") is not None
INITIALIZE: Final = {"protocolVersion": 1, "clientCapabilities": {}}

Spent = dict[str, list[list[int]]]
"""The nanoseconds of every call of every round, by what was called."""


class Size(NamedTuple):
    """`calls` are those of one round; a session has `turns`; an agent streams `chunks` for one prompt.

    Each command is started as often as `processes` says.
    """

    rounds: int
    calls: int
    turns: int
    chunks: int
    processes: int

    @property
    def steps(self) -> int:
        return self.processes + self.rounds


class Costs(NamedTuple):
    """`updates` are per second, one figure for each round; `replayed` is their number in one.

    `starts` are the nanoseconds of new processes, by what they do.
    """

    spent: Spent
    updates: list[float]
    replayed: int
    starts: Mapping[str, list[int]]


def measure(effort: Effort, progress: Progress) -> Report:
    amount = Size(
        rounds=ROUNDS * effort.rounds,
        calls=max(3, effort.calls // 10),
        turns=max(10, 2 * effort.calls),
        chunks=5 * effort.calls,
        processes=effort.processes,
    )
    with tempfile.TemporaryDirectory(prefix="sideband-") as directory:
        starts = _starts(Path(directory), amount, progress)
        costs = asyncio.run(_costs(Path(directory), amount, starts, progress))
    ratios = _ratios(costs)
    return Report(
        part=PART,
        tables=_tables(costs, ratios, amount),
        targets=_targets(costs, ratios),
        figures=(
            *(Figure(name=name, value=median(_all(rounds))) for name, rounds in costs.spent.items()),
            Figure(name=REPLAY, value=median(costs.updates), unit="/s"),
            *(Figure(name=name, value=median(spent)) for name, spent in costs.starts.items()),
        ),
        remarks=() if HAS_SDK else (f"{SDK}: skipped, agent-client-protocol is not installed",),
    )


# The client.


class _Frame(msgspec.Struct):
    """What a client must know of a frame to handle it."""

    id: int | None = None
    result: Any = None


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Frame).decode


class Answer(NamedTuple):
    """`frames` is the number of notifications that came before the answer."""

    result: Any
    spent: int
    frames: int


class Client:
    """The other end of the pipes of a process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._last_id = 0

    async def call(self, method: str, params: Mapping[str, Any]) -> Answer:
        line = self._line(method, params)
        frames = 0
        start = perf_counter_ns()
        self._writer.write(line)
        while (frame := _decode(await self._reader.readline())).id != self._last_id:
            frames += 1
        spent = perf_counter_ns() - start
        assert frame.result is not None, method
        return Answer(frame.result, spent, frames)

    async def burst(self, chunks: int) -> int:
        """Nanoseconds per update of a prompt that is answered with so many, from the first that arrives."""
        self._writer.write(self._line("session/prompt", {"sessionId": SESSION, "prompt": [_text(str(chunks))]}))
        early = arrived = await self._count()
        start = perf_counter_ns()
        while arrived < chunks:
            arrived += await self._count()
        spent = (perf_counter_ns() - start) // max(1, arrived - early)
        if arrived == chunks:
            # The answer, before which the proxy records the end of the turn.
            await self._count()
        return spent

    async def _count(self) -> int:
        """How many lines end in what has arrived."""
        data = await self._reader.read(2**16)
        assert data, "the process has ended"
        return data.count(b"\n")

    def _line(self, method: str, params: Mapping[str, Any]) -> bytes:
        self._last_id += 1
        return _encode({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}) + b"\n"


@asynccontextmanager
async def _client(*command: str) -> AsyncIterator[Client]:
    """A client of a new process; the process ends when its standard input does."""
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE, limit=2**20)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Client(process.stdout, process.stdin)
    finally:
        process.stdin.close()
        await process.wait()


def _server(role: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "benchmarks.acp_servers", role, *arguments)


def _sideband(*arguments: str) -> tuple[str, ...]:
    script = shutil.which("sideband", path=str(Path(sys.executable).parent))
    return (script or "sideband", *arguments)


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _reminder(session_id: str, number: int) -> dict[str, Any]:
    """A reminder as an editor sends it when a file has changed; each has a key of its own."""
    return {
        "sessionId": session_id,
        "body": "File changed externally: src/app.py. Re-read it before editing.",
        "tags": ["workspace", "file_changed"],
        "dedupeKey": f"file_changed:src/app{number}.py",
        "ttlTurns": 2,
        "preserveOnCompact": False,
        "propagate": "session",
        "roleHint": "system",
        "mode": "finish_step",
    }


# Measuring.


async def _costs(directory: Path, amount: Size, starts: Mapping[str, list[int]], progress: Progress) -> Costs:
    spent: Spent = {}
    updates: list[float] = []
    replayed = 0
    async with AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(_client(*command)) for name, command in _commands(directory, amount)
        }
        sessions = {name: await _begin(client) for name, client in clients.items() if name not in (FLOOR, SDK)}
        if HAS_SDK:
            await clients[SDK].call("initialize", INITIALIZE)
        store = await open_sqlite(directory / "commits.db")
        stack.push_async_callback(store.close)
        # The first round is the warm-up.
        for done in range(amount.rounds + 1):
            found = await _reminded(clients, sessions, range(done * amount.calls, (done + 1) * amount.calls))
            found[COMMIT] = await accepts.committed(store, amount.calls)
            found |= await _forwarded(clients, sessions, amount)
            loaded = await clients[MEMORY].call("session/load", {"sessionId": SESSION, "cwd": "/", "mcpServers": []})
            progress.step(PART, amount.processes + done, amount.steps)
            if done:
                replayed = loaded.frames
                updates.append(loaded.frames * 1e9 / loaded.spent)
                for name, values in found.items():
                    spent.setdefault(name, []).append(values)
    return Costs(spent, updates, replayed, starts)


def _commands(directory: Path, amount: Size) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield FLOOR, _server("floor")
    yield MEMORY, _server("agent", "memory:", str(amount.turns))
    if HAS_SDK:
        yield SDK, _server("sdk")
    yield DURABLE, _server("agent", f"sqlite:///{directory / 'agent.db'}", "0")
    chatter = _server("chatter")
    yield FORWARDED, _server("forwarder", *chatter)
    yield PROXIED, _sideband("acp-proxy", "--store", f"sqlite:///{directory / 'proxy.db'}", "--", *chatter)


async def _reminded(
    clients: Mapping[str, Client], sessions: Mapping[str, str], numbers: Sequence[int]
) -> dict[str, list[int]]:
    """The time of each reminder, sent to each server in turn."""
    found: dict[str, list[int]] = {}
    for name in (FLOOR, MEMORY, SDK, DURABLE):
        if name in clients:
            # The SDK hands a method to the extensions of an agent if its name begins with an underscore.
            method = "_session/inject_reminder" if name == SDK else "session/inject_reminder"
            reminders = (_reminder(sessions.get(name, ""), number) for number in numbers)
            found[name] = [(await clients[name].call(method, reminder)).spent for reminder in reminders]
    return found


async def _forwarded(clients: Mapping[str, Client], sessions: Mapping[str, str], amount: Size) -> dict[str, list[int]]:
    """The time per update of a long reply, and the time of each request, by the forwarder and by the proxy."""
    found: dict[str, list[int]] = {}
    for name, asked in ((FORWARDED, ASKED), (PROXIED, ASKED_PROXY)):
        found[name] = [await clients[name].burst(amount.chunks)]
        mode = {"sessionId": sessions[name], "modeId": "ask"}
        found[asked] = [(await clients[name].call("session/set_mode", mode)).spent for _ in range(amount.calls)]
    return found


async def _begin(client: Client) -> str:
    """Begin the conversation; return the id of a new session."""
    await client.call("initialize", INITIALIZE)
    session_id: str = (await client.call("session/new", {"cwd": "/", "mcpServers": []})).result["sessionId"]
    return session_id


def _starts(directory: Path, amount: Size, progress: Progress) -> dict[str, list[int]]:
    """The time of a new process to its first answer, beside that of an interpreter to its end."""
    command = _sideband("acp", "--store", f"sqlite:///{directory / 'started.db'}")
    found: dict[str, list[int]] = {BARE: [], START: []}
    # Once more than is counted: a store is created when it is first used.
    for done in range(amount.processes + 1):
        bare, started = _started((sys.executable, "-c", "pass"), b""), _started(command, _FIRST)
        progress.step(PART, done, amount.steps)
        if done:
            found[BARE].append(bare)
            found[START].append(started)
    return found


_FIRST: Final = _encode({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}) + b"\n"


def _started(command: Sequence[str], line: bytes) -> int:
    """Nanoseconds until the process has answered a line, or has ended."""
    start = perf_counter_ns()
    with subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603 - our own commands
        assert process.stdin is not None
        assert process.stdout is not None
        if line:
            process.stdin.write(line)
            process.stdin.flush()
        answer = process.stdout.readline()
        spent = perf_counter_ns() - start
        assert bool(line) == (b'"result"' in answer)
        process.stdin.close()
    return spent


# Reporting.


class Ratios(NamedTuple):
    """The medians of the ratios of all rounds."""

    reminder: float
    durable: float
    update: float
    request: float


def _ratios(costs: Costs) -> Ratios:
    medians = {name: [median(values) for values in rounds] for name, rounds in costs.spent.items()}

    def beside(name: str, floor: Sequence[float]) -> float:
        return median(one / other for one, other in zip(medians[name], floor, strict=True))

    least = [sum(both) for both in zip(medians[MEMORY], medians[COMMIT], strict=True)]
    return Ratios(
        reminder=beside(MEMORY, medians[FLOOR]),
        durable=beside(DURABLE, least),
        update=beside(PROXIED, medians[FORWARDED]),
        request=beside(ASKED_PROXY, medians[ASKED]),
    )


def _targets(costs: Costs, ratios: Ratios) -> tuple[Target, ...]:
    return (
        Target(name=f"{MEMORY}, beside {FLOOR}", limit=MAX_REMINDER_RATIO, measured=ratios.reminder),
        Target(name=f"{DURABLE}, beside in memory and a commit", limit=MAX_DURABLE_RATIO, measured=ratios.durable),
        Target(name=REPLAY, limit=LEAST_UPDATES, measured=median(costs.updates), unit="/s", at_least=True),
        Target(name=f"{PROXIED}, beside a forwarder of lines", limit=MAX_PROXY_RATIO, measured=ratios.update),
        Target(name=f"{ASKED_PROXY}, beside a forwarder of lines", limit=MAX_PROXY_RATIO, measured=ratios.request),
        Target(name=START, limit=MAX_START_NS, measured=median(costs.starts[START]), unit="ns"),
    )


def _tables(costs: Costs, ratios: Ratios, amount: Size) -> tuple[Table, ...]:
    def timed(name: str, base: str) -> tuple[str, ...]:
        spent = _all(costs.spent[name])
        return (
            name,
            duration(median(spent)),
            duration(late(spent)),
            times(median(spent) / median(_all(costs.spent[base]))),
        )

    def started(name: str) -> tuple[str, ...]:
        spent = median(costs.starts[name])
        return (name, duration(spent), times(spent / median(costs.starts[BARE])))

    turns = f"{amount.rounds} rounds, measured in turn"
    return (
        Table(
            title="ACP: a reminder over pipes",
            note=f"Time from the request to its answer: the median and the 99th percentile of {amount.calls:,} in each of "
            f"{turns}.\nIn memory it is {times(ratios.reminder)} the lines of JSON; in a store file "
            f"{times(ratios.durable)} the sum of that in memory and a commit (medians of the rounds).",
            columns=("what", "median", "99 %", "x lines"),
            rows=tuple(timed(name, FLOOR) for name in (FLOOR, MEMORY, SDK, COMMIT, DURABLE) if name in costs.spent),
        ),
        Table(
            title="ACP: a long session is loaded",
            note=f"Updates per second that a client has read; {costs.replayed:,} updates of {amount.turns:,} turns: the "
            f"message of the user, the reply, and\nthe beginning and the end of a reminder, with texts of {len(BODY)} bytes. In {turns}.",
            columns=("what", "best", "median"),
            rows=((REPLAY, rate(max(costs.updates)), rate(median(costs.updates))),),
        ),
        Table(
            title="ACP: frames through the proxy",
            note=f"Time per update of a reply of {amount.chunks:,}, each with 200 bytes of text; time of a request that is "
            f"not for the proxy and its answer. In {turns}.\nThe proxy takes {times(ratios.update)} and "
            f"{times(ratios.request)} the time of the forwarder (medians of the rounds).",
            columns=("what", "median", "99 %", "x lines"),
            rows=(
                timed(FORWARDED, FORWARDED),
                timed(PROXIED, FORWARDED),
                timed(ASKED, ASKED),
                timed(ASKED_PROXY, ASKED),
            ),
        ),
        Table(
            title="ACP: a new process",
            note=f"Time from the start of the process: the median of {len(costs.starts[START])} runs, in turn.",
            columns=("command", "time", "x bare"),
            rows=(started(BARE), started(START)),
        ),
    )


def _all(rounds: Sequence[Sequence[int]]) -> list[int]:
    return [value for values in rounds for value in values]
