"""What the studio costs over sockets: events for many watchers, reminders over HTTP, its memory, and its page.

Every server is a process of its own. The client writes HTTP/1.1 as bytes to sockets, and of what it reads it looks only
for the frames that it waits for, because it shares the processors with the server. What is compared takes turns, so that
all meet the same machine.
"""

import asyncio
import os
import resource
import shutil
import socket
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter_ns, process_time_ns
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from benchmarks.a2a import Connection, Server
from benchmarks.acp_servers import ROOMY
from benchmarks.durable import late
from benchmarks.effort import Effort, Progress
from benchmarks.report import MIB, Figure, Report, Table, Target, duration, size, times
from benchmarks.studio_servers import BODY, TOKEN
from sideband.core.reminder import Source
from sideband.core.surfaces import Surface
from sideband.runtime.producer import Producer
from sideband.runtime.store import open_store
from sideband.studio.app import STATIC
from sideband.studio.auth import PROGRAM

PART: Final = "studio"
ROOT: Final = Path(__file__).parents[1]
ROUNDS: Final = 4
MAX_EVENT_NS: Final = 500e6
MAX_REMIND_RATIO: Final = 2.0
MAX_GROWTH: Final = 64.0 * MIB
MAX_PAINT_NS: Final = 1e9

STORES: Final = ("in memory", "in a store file")
EVENT: Final = "a reminder, to each of {streams:,} watchers, {store}"
STREAM: Final = "memory of the server for each watcher, {store}"
ROUTE: Final = "a bare Starlette route that reads JSON"
COMMIT: Final = "a commit by Producer.remind in process, {store}"
REMIND: Final = "POST remind, {store}"
GROWTH: Final = "memory of the server, for {events:,} events {store}"
ROOT_PAGE: Final = "the first answer, on a new connection"
FILES: Final = "all {count} files, one after the other"
PAINT: Final = "first contentful paint in Chromium"
LISTED: Final = "the list of sessions is drawn in Chromium"

WATCHERS: Final = 20
# So many events are accepted per second, by all sessions in turn.
RATE: Final = 200
# How often the client looks whether something has arrived, and how long a server has to notice that a watcher has left.
POLL_SECONDS: Final = 0.002
LEAVING_SECONDS: Final = 0.5
# No further round begins after this time, so that a slow disk cannot make the part long.
MOST_SECONDS: Final = 20.0
# A server that does not answer ends the benchmark.
TIMEOUT_SECONDS: Final = 300.0
# What a process has open besides the streams.
SPARE_FILES: Final = 200
KIB: Final = 1024
# The route needs none, but an address of the same length.
UNKNOWN_SESSION: Final = "01981f6b-7d51-7c1d-bb02-0a1b2c3d4e5f"
CHROMIUM: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
)

_BLANK: Final = b"\r\n\r\n"
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode

TimedCall = Callable[[], Awaitable[int]]
"""Returns the nanoseconds that it took."""
ProtocolT = TypeVar("ProtocolT", bound=asyncio.Protocol)


class Size(NamedTuple):
    """Each of `sessions` has `WATCHERS` and accepts `events`. `calls` are those of one round.

    A session is filled with `filled` events. The page is loaded `loads` times.
    """

    sessions: int
    events: int
    rounds: int
    calls: int
    filled: int
    loads: int

    @property
    def streams(self) -> int:
        return self.sessions * WATCHERS

    @property
    def steps(self) -> int:
        return len(STORES) * (self.sessions + 1 + self.events + 2) + self.rounds + 1 + self.loads


def measure(effort: Effort, progress: Progress) -> Report:
    amount = Size(
        sessions=max(2, effort.calls // 5),
        events=max(2, 2 * effort.rounds),
        rounds=ROUNDS * effort.rounds,
        calls=max(5, effort.calls // 10),
        filled=max(1_000, 100 * effort.calls),
        loads=effort.rounds,
    )
    _raise_file_limit(amount.streams + amount.sessions + SPARE_FILES)
    steps = Steps(progress, amount.steps)
    watched: dict[str, Watched] = {}
    filled: dict[str, Filled] = {}
    with tempfile.TemporaryDirectory(prefix="sideband-") as directory:
        for store in STORES:
            watched[store] = asyncio.run(_watched(_store_url(store, Path(directory), "watched"), amount, steps))
        spent = asyncio.run(_reminded(Path(directory), amount, steps))
        for store in STORES:
            filled[store] = asyncio.run(_filled(_store_url(store, Path(directory), "filled"), amount, steps))
        page = asyncio.run(_page(amount, steps))
    return _report(amount, watched, spent, filled, page)


class Steps:
    """How far the part has come."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def step(self) -> None:
        self._done += 1
        self._progress.step(PART, self._done, self._total)


def _store_url(store: str, directory: Path, name: str) -> str:
    return "memory:" if store == STORES[0] else f"sqlite:///{directory / name}.db"


def _raise_file_limit(wanted: int) -> None:
    """Let this process, and the servers that it starts, have so many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )


# Servers, and requests to them.


class StudioServer(Server):
    """A process of this benchmark; what it prints are answers to the lines that it reads."""

    async def fill(self, session_id: str, events: int) -> int:
        """Let the server write so many events to a session; return how many it has written."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{session_id} {events}\n".encode())
        return int(await self.process.stdout.readline())

    def processor_seconds(self) -> float | None:
        """The seconds of processor time of the process; None where the system does not tell."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        if not stat.exists():
            return None
        # The name of the program, in parentheses, may have spaces.
        fields = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def _server(*arguments: str) -> AsyncIterator[StudioServer]:
    """A new process of a server; it ends when its standard input does."""
    command = (sys.executable, "-m", "benchmarks.studio_servers", *arguments)
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield StudioServer(process, int(await process.stdout.readline()))
    finally:
        process.stdin.close()
        await process.wait()


@asynccontextmanager
async def _connection(server: Server) -> AsyncIterator[Connection]:
    with socket.socket() as sock:
        sock.settimeout(0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", server.port))
        yield Connection(sock)


def _request(server: Server, method: str, path: str, body: object = None) -> bytes:
    head = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}", f"Authorization: Bearer {TOKEN}"]
    written = b"" if body is None else _encode(body)
    if written:
        head += ["Content-Type: application/json", f"Content-Length: {len(written)}"]
    return "\r\n".join(head).encode() + _BLANK + written


async def _call(server: Server, connection: Connection, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - any answer
    """The answer to a request that is not timed."""
    answer = _decode((await connection.post(_request(server, method, path, body)))[1])
    assert "error" not in answer, answer
    return answer


async def _begin(server: Server, connection: Connection, title: str) -> tuple[str, int]:
    """Begin a session; return its id and the cursor that its updates continue."""
    session_id: str = (await _call(server, connection, "POST", "/api/sessions", {"title": title}))["id"]
    return session_id, (await _call(server, connection, "GET", f"/api/sessions/{session_id}/timeline"))["cursor"]


def _remind(server: Server, session_id: str, body: str) -> bytes:
    return _request(server, "POST", f"/api/sessions/{session_id}/remind", _reminder(body))


def _reminder(body: str) -> dict[str, Any]:
    """A newer one with the same key replaces it, so that the inbox does not grow."""
    return {
        "body": body,
        "tags": ["workspace", "file_changed"],
        "dedupeKey": "file_changed:src/app.py",
        "ttlTurns": 2,
        "propagate": "none",
        "roleHint": "user_block",
    }


# Watchers.

# The body of a reminder says when it was sent, with so many digits.
SENT: Final = "sent at "
_MARK: Final = b'"body":"' + SENT.encode()
_DIGITS: Final = 19
_WIDTH: Final = len(_MARK) + _DIGITS


class Watched(NamedTuple):
    """How long it took until each watcher had each event, in nanoseconds.

    `opening` is the time in which all streams were opened, divided by their number. `growth` is the memory of the server
    for each stream in bytes, and `share` the part of one processor that it used while the events were sent; None where
    the system does not tell. `client_share` is that of this process. `received` are the bytes per second of all streams,
    and `load` is the load average of the machine.
    """

    spent: list[int]
    opening: float
    growth: float | None
    share: float | None
    client_share: float
    received: float
    load: str


class Audience:
    """All watchers, and how long each event took to arrive at each of them."""

    def __init__(self) -> None:
        self.opened = 0
        self.spent: list[int] = []
        self.received = 0

    async def until(self, *, opened: int = 0, events: int = 0) -> None:
        """Wait until so many streams are open and so many events have arrived."""
        while self.opened < opened or len(self.spent) < events:  # noqa: ASYNC110 - cheaper than a check of each event
            await asyncio.sleep(POLL_SECONDS)


class Watcher(asyncio.Protocol):
    """The client's end of an event stream."""

    def __init__(self, audience: Audience, request: bytes) -> None:
        self._audience = audience
        self._request = request
        self._is_open = False
        # The end of what has arrived, if a frame was cut there.
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.WriteTransport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        moment = perf_counter_ns()
        self._audience.received += len(data)
        if self._rest:
            data = self._rest + data
        at = 0
        while (found := data.find(_MARK, at)) >= 0 and len(data) >= found + _WIDTH:
            at = found + _WIDTH
            self._audience.spent.append(moment - int(data[at - _DIGITS : at]))
        self._rest = b"" if data.endswith(b"\n") else data[max(at, len(data) - _WIDTH) :]
        if not self._is_open and b"event: " in data:
            self._is_open = True
            self._audience.opened += 1


class Sender(asyncio.Protocol):
    """Sends reminders to one session, on a connection of its own."""

    def __init__(self, server: Server, session_id: str) -> None:
        self._server = server
        self._session_id = session_id
        self.accepted = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self.accepted += data.count(b"HTTP/1.1 200")

    def send(self) -> None:
        self._transport.write(_remind(self._server, self._session_id, f"{SENT}{perf_counter_ns():0{_DIGITS}}"))


async def _watched(store_url: str, amount: Size, steps: Steps) -> Watched:
    """Open the streams of all sessions, and send reminders to the sessions in turn."""
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        _server("studio", store_url) as server,
        _connection(server) as connection,
        AsyncExitStack() as stack,
    ):
        begun = [await _begin(server, connection, f"Session {number}") for number in range(amount.sessions)]
        senders = [await _connect(server, Sender(server, session_id), stack) for session_id, _ in begun]
        audience, before, start = Audience(), server.memory(), perf_counter_ns()
        for number, (session_id, cursor) in enumerate(begun, start=1):
            request = _request(server, "GET", f"/api/stream?session={session_id}&after={cursor}")
            for _ in range(WATCHERS):
                await _connect(server, Watcher(audience, request), stack)
            await audience.until(opened=number * WATCHERS)
            steps.step()
        opening, grown = (perf_counter_ns() - start) / amount.streams, server.memory()
        # The first event of each session is the warm-up.
        await _send(senders, 1, steps)
        await audience.until(events=amount.streams)
        audience.spent, audience.received = [], 0
        start, client, used = perf_counter_ns(), process_time_ns(), server.processor_seconds()
        await _send(senders, amount.events, steps)
        await audience.until(events=amount.events * amount.streams)
        seconds = (perf_counter_ns() - start) / 1e9
        client_share, ended = (process_time_ns() - client) / 1e9 / seconds, server.processor_seconds()
        assert sum(sender.accepted for sender in senders) == (amount.events + 1) * amount.sessions
    return Watched(
        spent=audience.spent,
        opening=opening,
        growth=None if before is None or grown is None else (grown - before) / amount.streams,
        share=None if used is None or ended is None else (ended - used) / seconds,
        client_share=client_share,
        received=audience.received / seconds,
        load=_load(),
    )


async def _connect(server: Server, end: ProtocolT, stack: AsyncExitStack) -> ProtocolT:
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: end, "127.0.0.1", server.port)
    stack.callback(transport.abort)
    return end


async def _send(senders: Sequence[Sender], events: int, steps: Steps) -> None:
    """Send so many reminders to each session, at a steady rate that does not wait for answers."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    for number in range(events * len(senders)):
        await asyncio.sleep(max(0.0, start + number / RATE - loop.time()))
        senders[number % len(senders)].send()
        if (number + 1) % len(senders) == 0:
            steps.step()


# Reminders over HTTP.

Spent = dict[str, list[list[int]]]
"""The nanoseconds of every call of every round, by what was called."""


async def _reminded(directory: Path, amount: Size, steps: Steps) -> Spent:
    spent: Spent = {}
    async with asyncio.timeout(TIMEOUT_SECONDS), AsyncExitStack() as stack:
        calls = {ROUTE: await _http_calls(stack, "floor")}
        for store in STORES:
            calls[COMMIT.format(store=store)] = await _commits(stack, _store_url(store, directory, "commits"))
            calls[REMIND.format(store=store)] = await _http_calls(
                stack, "studio", _store_url(store, directory, "reminded")
            )
        until = perf_counter_ns() + MOST_SECONDS * 1e9
        # The first round is the warm-up.
        for done in range(amount.rounds + 1):
            for name, timed in calls.items():
                values = [await timed() for _ in range(amount.calls)]
                if done:
                    spent.setdefault(name, []).append(values)
            steps.step()
            if done and perf_counter_ns() > until:
                break
    return spent


async def _http_calls(stack: AsyncExitStack, *role: str) -> TimedCall:
    """Sends one reminder to a server of this role, on a connection that is kept open."""
    server = await stack.enter_async_context(_server(*role))
    connection = await stack.enter_async_context(_connection(server))
    is_studio = role[0] == "studio"
    session_id = (await _begin(server, connection, "Reminded"))[0] if is_studio else UNKNOWN_SESSION
    request = _remind(server, session_id, BODY)

    async def timed() -> int:
        spent, answer = await connection.post(request)
        assert b'"reminderId"' in answer, answer
        return spent

    return timed


async def _commits(stack: AsyncExitStack, store_url: str) -> TimedCall:
    """Accepts the same reminder in this process, from the same bytes."""
    store = await stack.enter_async_context(open_store(store_url, limits=ROOMY))
    producer = Producer(await store.begin(), PROGRAM, surface=Surface.HTTP, source=Source.BRIDGE)
    payload = _encode(_reminder(BODY))

    async def timed() -> int:
        start = perf_counter_ns()
        await producer.remind(payload)
        return perf_counter_ns() - start

    return timed


# Memory.


class Filled(NamedTuple):
    """The memory of a server in bytes, before the events, after half of them, after all, and when its watcher has left.

    None where the system does not tell. `events` is their number.
    """

    events: int
    before: int | None
    half: int | None
    after: int | None
    left: int | None

    @property
    def growth(self) -> int | None:
        return None if self.before is None or self.after is None else self.after - self.before


async def _filled(store_url: str, amount: Size, steps: Steps) -> Filled:
    """Let a server accept and clear reminders while its session is watched."""
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        _server("studio", store_url) as server,
        _connection(server) as connection,
    ):
        session_id, cursor = await _begin(server, connection, "Filled")
        # What is loaded with the first events does not count.
        await server.fill(session_id, 1)
        before, audience = server.memory(), Audience()
        async with AsyncExitStack() as stack:
            request = _request(server, "GET", f"/api/stream?session={session_id}&after={cursor}")
            await _connect(server, Watcher(audience, request), stack)
            await audience.until(opened=1)
            events = await server.fill(session_id, amount.filled // 2)
            half = server.memory()
            steps.step()
            events += await server.fill(session_id, amount.filled - amount.filled // 2)
            after = server.memory()
            steps.step()
        # A connection that was closed is noticed before this is answered. It needs a new one: the server has closed the first
        # one, which was idle meanwhile.
        async with _connection(server) as another:
            await _call(server, another, "GET", f"/api/sessions/{session_id}")
        await asyncio.sleep(LEAVING_SECONDS)
        return Filled(events, before, half, after, server.memory())


# The page.


class Page(NamedTuple):
    """The nanoseconds of each load: to the first answer, to the last file, and in a browser to what is to be seen.

    `files` and `total` are the number and the bytes of the files. Without a browser, nothing was `painted` or `listed`.
    """

    first: list[int]
    whole: list[int]
    files: int
    total: int
    painted: list[float]
    listed: list[float]


async def _page(amount: Size, steps: Steps) -> Page:
    first, whole, total = [], [], 0
    paths = ["/", *(f"/static/{path.relative_to(STATIC).as_posix()}" for path in _static_files())]
    async with asyncio.timeout(TIMEOUT_SECONDS), _server("studio", "memory:") as server:
        async with _connection(server) as connection:
            await _begin(server, connection, "Shown")
        for _ in range(amount.loads):
            start = perf_counter_ns()
            async with _connection(server) as connection:
                sizes = []
                for path in paths:
                    _, content = await connection.post(_request(server, "GET", path))
                    sizes.append(len(content))
                    if len(sizes) == 1:
                        first.append(perf_counter_ns() - start)
            whole.append(perf_counter_ns() - start)
            total = sum(sizes)
            steps.step()
        painted, listed = await _seen(server, amount.loads) if _has_browser() else ([], [])
    return Page(first, whole, len(paths), total, painted, listed)


def _static_files() -> list[Path]:
    # The page itself is served at another address.
    return [path for path in sorted(STATIC.rglob("*")) if path.suffix in (".css", ".js", ".svg")]


def _has_browser() -> bool:
    return shutil.which("chromium") is not None and find_spec("playwright") is not None


async def _seen(server: StudioServer, loads: int) -> tuple[list[float], list[float]]:
    """The nanoseconds until a browser with an empty cache that opens the link of a login paints, and shows the sessions."""
    from playwright.async_api import async_playwright  # noqa: PLC0415 - not installed everywhere

    painted, listed = [], []
    async with async_playwright() as playwright, _connection(server) as connection:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=[*CHROMIUM])
        # The first load is the warm-up: the browser starts processes.
        for done in range(loads + 1):
            context = await browser.new_context()
            page = await context.new_page()
            await page.goto((await _call(server, connection, "POST", "/api/links", {}))["url"])
            await page.locator("#sessions li").first.wait_for()
            shown, paint = await page.evaluate(
                "() => [performance.now(), performance.getEntriesByName('first-contentful-paint')[0].startTime]"
            )
            if done:
                painted.append(paint * 1e6)
                listed.append(shown * 1e6)
            await context.close()
        await browser.close()
    return painted, listed


# The report.


def _report(
    amount: Size, watched: Mapping[str, Watched], spent: Spent, filled: Mapping[str, Filled], page: Page
) -> Report:
    events = {store: EVENT.format(streams=amount.streams, store=store) for store in STORES}
    growths = {store: GROWTH.format(events=amount.filled, store=store) for store in STORES}
    durable = filled[STORES[1]]
    ratios = {store: _beside_floor(spent, store) for store in STORES}
    painted = median(page.painted) if page.painted else None
    return Report(
        part=PART,
        tables=(
            _watched_table(amount, watched, events),
            _reminded_table(amount, spent, ratios),
            _filled_table(filled),
            _page_table(amount, page),
        ),
        targets=(
            *(
                Target(name=f"{events[store]}, 99 %", limit=MAX_EVENT_NS, measured=late(found.spent), unit="ns")
                for store, found in watched.items()
            ),
            *(
                Target(
                    name=f"{REMIND.format(store=store)}, beside a bare route and a commit",
                    limit=MAX_REMIND_RATIO,
                    measured=ratio,
                )
                for store, ratio in ratios.items()
            ),
            Target(name=growths[STORES[1]], limit=MAX_GROWTH, measured=durable.growth, unit="bytes"),
            Target(name=PAINT, limit=MAX_PAINT_NS, measured=painted, unit="ns"),
        ),
        figures=(
            *(Figure(name=events[store], value=median(found.spent)) for store, found in watched.items()),
            *(
                Figure(name=STREAM.format(store=store), value=found.growth, unit="bytes")
                for store, found in watched.items()
                if found.growth is not None
            ),
            *(Figure(name=name, value=median(_all(rounds))) for name, rounds in spent.items()),
            *(
                Figure(name=growths[store], value=found.growth, unit="bytes")
                for store, found in filled.items()
                if found.growth is not None
            ),
            Figure(name=FILES.format(count=page.files), value=median(page.whole)),
            *(() if painted is None else (Figure(name=PAINT, value=painted),)),
        ),
        remarks=() if page.painted else (f"{PAINT}: not measured, Chromium or Playwright is not installed",),
    )


def _beside_floor(spent: Spent, store: str) -> float:
    """The median of the ratios of all rounds."""
    rounds = zip(spent[ROUTE], spent[COMMIT.format(store=store)], spent[REMIND.format(store=store)], strict=True)
    return median(median(remind) / (median(route) + median(commit)) for route, commit, remind in rounds)


def _watched_table(amount: Size, watched: Mapping[str, Watched], names: Mapping[str, str]) -> Table:
    return Table(
        title=f"Studio: events for {amount.streams:,} watchers",
        note=f"Time from a request with a reminder to the receipt of its event: {amount.sessions} sessions with {WATCHERS} "
        f"watchers each, {amount.events} events for each\nsession, {RATE} events per second in total. One process serves, "
        f"another sends and reads all. The load is that of the machine\nat the end of the row.",
        columns=("what", "median", "99 %", "longest", "opening", "memory", "server", "client", "received", "load"),
        rows=tuple(
            (
                names[store],
                duration(median(found.spent)),
                duration(late(found.spent)),
                duration(max(found.spent)),
                duration(found.opening),
                "-" if found.growth is None else f"{found.growth / KIB:.0f} KiB",
                "-" if found.share is None else f"{found.share:.0%}",
                f"{found.client_share:.0%}",
                f"{size(found.received)}/s",
                found.load,
            )
            for store, found in watched.items()
        ),
    )


def _reminded_table(amount: Size, spent: Spent, ratios: Mapping[str, float]) -> Table:
    beside = {REMIND.format(store=store): times(ratio) for store, ratio in ratios.items()}
    return Table(
        title="Studio: a reminder over HTTP",
        note=f"Time from the request to its answer, on a connection that is kept open: {amount.calls:,} in each of "
        f"{len(spent[ROUTE])} rounds, measured in turn.\nThe ratio is that to the route and the commit together, the median of "
        "the rounds.",
        columns=("what", "median", "99 %", "x route and commit"),
        rows=tuple(
            (name, duration(median(_all(rounds))), duration(late(_all(rounds))), beside.get(name, "-"))
            for name, rounds in spent.items()
        ),
    )


def _filled_table(filled: Mapping[str, Filled]) -> Table:
    return Table(
        title="Studio: memory of the server",
        note="Before and after reminders were accepted and cleared in one session, while it was watched; the journal is "
        "pruned as by default. A store\nin memory keeps the last 100,000 events of a session there.",
        columns=("what", "before", "half", "after", "watcher left", "for an event"),
        rows=tuple(
            (
                GROWTH.format(events=found.events, store=store),
                *(
                    "-" if value is None else size(value)
                    for value in (found.before, found.half, found.after, found.left)
                ),
                "-" if found.growth is None else f"{found.growth / found.events:.0f} B",
            )
            for store, found in filled.items()
        ),
    )


def _page_table(amount: Size, page: Page) -> Table:
    rows: Mapping[str, Sequence[float]] = {
        ROOT_PAGE: page.first,
        FILES.format(count=page.files): page.whole,
        PAINT: page.painted,
        LISTED: page.listed,
    }
    return Table(
        title="Studio: the page",
        note=f"Over one connection; in Chromium with an empty cache, after the link that logs in was opened: "
        f"{amount.loads} loads of {page.total / KIB:.0f} KiB.",
        columns=("what", "median", "longest"),
        rows=tuple(
            (name, duration(median(spent)), duration(max(spent))) if spent else (name, "-", "-")
            for name, spent in rows.items()
        ),
    )


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _all(rounds: Sequence[Sequence[int]]) -> list[int]:
    return [value for values in rounds for value in values]
