"""What reminders over MCP cost beside the SDK's own notifications, and how long a file takes to the inbox of a session.

Servers are processes of their own, on standard input and output. The clocks of both processes are the same.
"""

import asyncio
import os
import resource
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any, Final, NamedTuple

from mcp import Client, StdioServerParameters

from benchmarks.durable import late
from benchmarks.effort import Effort, Progress
from benchmarks.report import Figure, Report, Table, Target, duration, size, times
from sideband.core.limits import Limits
from sideband.protocols.mcp.config import ServerConfig
from sideband.protocols.mcp.host import Admission, HostReport, McpHost, ReminderReport, ServerReport, ServerState
from sideband.runtime.session import Session
from sideband.runtime.store import open_store

PART: Final = "mcp"
ROOT: Final = Path(__file__).parents[1]
ROUNDS: Final = 2
MAX_RATIO: Final = 1.2
MAX_FILE_NS: Final = 250e6
MAX_GROWTH: Final = 16 * 1024**2
# What a session accepts of one server at once, whatever the rate.
BURST: Final = 4
FLOOD: Final = 10_000

SDK: Final = "a notification of the SDK, to its client"
RECEIVED: Final = "a reminder, to the host"
ACCEPTED: Final = "a reminder, to the inbox of a session in memory"
FIRST: Final = "a changed file, to the inbox: the first four"
NEWER: Final = "a changed file, to the inbox: a newer version of one that waits"
GROWTH: Final = "memory of the host, for 10,000 events on one key"

UNLIMITED: Final = Limits(accept_rate={}, pending_per_source={}, pending_per_session=1_000_000)


class Costs(NamedTuple):
    """Nanoseconds by what was measured; one list for each round of what is compared."""

    sent: dict[str, list[list[int]]]
    files: dict[str, list[int]]
    growth: int
    accepted: int


def measure(effort: Effort, progress: Progress) -> Report:
    count = max(5, effort.calls // 2)
    costs = asyncio.run(_costs(count, ROUNDS * effort.rounds, max(2, effort.processes), progress))
    ratio = median(
        median(ours) / median(theirs) for ours, theirs in zip(costs.sent[RECEIVED], costs.sent[SDK], strict=True)
    )
    return Report(
        part=PART,
        tables=_tables(costs, ratio, count),
        targets=(
            Target(name=f"{RECEIVED}, beside {SDK}", limit=MAX_RATIO, measured=ratio),
            Target(name=FIRST, limit=MAX_FILE_NS, measured=max(costs.files[FIRST]), unit="ns"),
            Target(name=NEWER, limit=MAX_FILE_NS, measured=max(costs.files[NEWER]), unit="ns"),
            Target(name=GROWTH, limit=MAX_GROWTH, measured=costs.growth, unit="bytes"),
        ),
        figures=(
            *(Figure(name=name, value=median(_all(rounds))) for name, rounds in costs.sent.items()),
            *(Figure(name=name, value=median(spent)) for name, spent in costs.files.items()),
        ),
    )


async def _costs(count: int, rounds: int, files: int, progress: Progress) -> Costs:
    sent: dict[str, list[list[int]]] = {SDK: [], RECEIVED: [], ACCEPTED: []}
    steps = rounds + files + 1
    for number in range(rounds):
        sent[SDK].append(await _changes(count))
        received, accepted = await _reminders(count)
        sent[RECEIVED].append(received)
        sent[ACCEPTED].append(accepted)
        progress.step(PART, number + 1, steps)
    spent: dict[str, list[int]] = {FIRST: [], NEWER: []}
    for number in range(files):
        await _files(spent)
        progress.step(PART, rounds + number + 1, steps)
    growth, accepted_count = await _flood()
    progress.step(PART, steps, steps)
    return Costs(sent, spent, growth, accepted_count)


# Notifications.

_SERVER: Final = (sys.executable, "-m", "benchmarks.mcp_server")


async def _changes(count: int) -> list[int]:
    """The SDK's own notifications on a listen stream, to its own client."""
    arrived: list[int] = []
    server = StdioServerParameters(command=_SERVER[0], args=list(_SERVER[1:]), cwd=ROOT, env=_environment())
    async with Client(server) as client, client.listen(tools_list_changed=True) as stream:

        async def note() -> None:
            while await anext(stream, None) is not None:
                arrived.append(perf_counter_ns())

        noting = asyncio.create_task(note())
        result = await client.call_tool("send_changes", {"count": count})
        await _until(lambda: len(arrived) >= count)
        noting.cancel()
    return _spent(result.content, arrived)


async def _reminders(count: int) -> tuple[list[int], list[int]]:
    """Reminders on a listen stream: until the host has them, and until they are in the inbox."""
    received: list[int] = []
    accepted: list[int] = []

    def on_report(report: HostReport) -> None:
        if isinstance(report, ReminderReport) and report.admission is Admission.ACCEPTED:
            accepted.append(perf_counter_ns())

    async with _host(ServerConfig(name="ours", command=_SERVER, cwd=ROOT, env=_environment()), on_report) as (host, _):
        connection = host.connections["ours"]
        receive = connection.receiver.receive

        def noted(method: str, params: object, frame: bytes | None) -> None:
            received.append(perf_counter_ns())
            receive(method, params, frame)

        connection.receiver.receive = noted  # type: ignore[method-assign]  # the place that is measured
        result = await connection.call_tool("send_reminders", {"count": count})
        await _until(lambda: len(accepted) >= count)
    return _spent(result.content, received), _spent(result.content, accepted)


def _spent(content: Any, arrived: list[int]) -> list[int]:  # noqa: ANN401 - the blocks of the SDK
    sent = [*map(int, content[0].text.split())]
    return [end - begin for begin, end in zip(sent, arrived, strict=True)]


@asynccontextmanager
async def _host(
    server: ServerConfig, on_report: Callable[[HostReport], None], *, limits: Limits = UNLIMITED
) -> AsyncIterator[tuple[McpHost, Session]]:
    is_listening = asyncio.Event()

    def noted(report: HostReport) -> None:
        if isinstance(report, ServerReport) and report.state is ServerState.LISTENING:
            is_listening.set()
        on_report(report)

    async with open_store("memory:", limits=limits) as store, McpHost([server], on_report=noted) as host:
        session = await store.session("s")
        await host.attach(session)
        await is_listening.wait()
        yield host, session


# Files.


async def _files(spent: dict[str, list[int]]) -> None:
    """Change four files, each when the one before has arrived, and then each of them again while it waits."""
    arrived: dict[str, int] = {}

    def on_report(report: HostReport) -> None:
        if isinstance(report, ReminderReport) and report.admission is Admission.ACCEPTED:
            arrived[report.dedupe_key or ""] = perf_counter_ns()

    with tempfile.TemporaryDirectory(prefix="sideband-") as folder:
        paths = [Path(folder) / f"file{number}.txt" for number in range(BURST)]
        for path in paths:
            path.write_text("before", encoding="utf-8")
        command = (sys.executable, "-m", "sideband.cli", "mcp", "watch-files", folder)
        # The limits of every session.
        async with _host(ServerConfig(name="watch", command=command), on_report, limits=Limits()):
            for name, text in ((FIRST, "changed"), (NEWER, "changed again")):
                for path in paths:
                    arrived.clear()
                    began = perf_counter_ns()
                    path.write_text(text, encoding="utf-8")
                    await _until(partial(arrived.__contains__, f"file_changed:{path.name}"))
                    spent[name].append(arrived[f"file_changed:{path.name}"] - began)


# A flood.


async def _flood() -> tuple[int, int]:
    """How much the host grows, and how many versions of the one reminder were accepted."""
    bodies: list[str] = []

    def on_report(report: HostReport) -> None:
        if isinstance(report, ReminderReport) and report.admission is Admission.ACCEPTED:
            bodies[:] = [report.body or ""]

    server = ServerConfig(name="ours", command=_SERVER, cwd=ROOT, env=_environment())
    async with _host(server, on_report, limits=Limits()) as (host, session):
        await host.connections["ours"].call_tool("flood", {"count": 100})
        before = _memory()
        result = await host.connections["ours"].call_tool("flood", {"count": FLOOD})
        last = result.content[0].text  # type: ignore[union-attr]  # of the benchmark's own server
        await _until(lambda: bodies == [last])
        growth = _memory() - before
        return max(0, growth), len(await session.pending())


def _memory() -> int:
    """The most that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}


async def _until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - there is no event for all of these
            await asyncio.sleep(0.0005)


# The report.


def _all(rounds: list[list[int]]) -> list[int]:
    return [spent for one in rounds for spent in one]


def _tables(costs: Costs, ratio: float, count: int) -> tuple[Table, ...]:
    def row(name: str, spent: list[int]) -> tuple[str, ...]:
        return name, duration(median(spent)), duration(late(spent)), duration(max(spent))

    return (
        Table(
            title="MCP: a notification over pipes",
            note=f"Time from the call that sends it to its receipt, of {count:,} in each of {len(costs.sent[SDK])} rounds, in "
            f"turn.\nA reminder takes {times(ratio)} as long (median of the rounds).",
            columns=("what", "median", "99 %", "longest"),
            rows=tuple(row(name, _all(rounds)) for name, rounds in costs.sent.items()),
        ),
        Table(
            title="MCP: a file on disk",
            note="Time from the write to the reminder in the inbox, through `sideband mcp watch-files` with its debounce of "
            "100 ms,\nwith the limits of every session.",
            columns=("what", "median", "99 %", "longest"),
            rows=tuple(row(name, spent) for name, spent in costs.files.items()),
        ),
        Table(
            title="MCP: a flood on one key",
            note=f"The growth of the host while a server sends {FLOOD:,} reminders without a pause, and what is pending after it.",
            columns=("what", "memory", "pending"),
            rows=((GROWTH, size(costs.growth), str(costs.accepted)),),
        ),
    )
