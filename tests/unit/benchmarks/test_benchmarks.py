"""The benchmark runs and prints every row and target. No speed is asserted here."""

from pathlib import Path
from typing import Final

import msgspec
import pytest

from benchmarks.__main__ import exit_code, main
from benchmarks.effort import QUICK
from benchmarks.report import Results, Target, aligned, duration
from benchmarks.workloads import ON_INBOX, ON_LIVE, Operation, Subject, with_live, with_waiting

ROWS: Final = (
    "python -c pass",
    "import sideband",
    "sideband --help",
    "sb.agent_loop, sb.open_store",
    "bare asyncio loop",
    "ours",
    "ours, 10 reminders live",
    "ours, reminders=False",
    "lines of JSON, a fixed result",
    "session/inject_reminder, in memory",
    "ext_method of the official SDK, a fixed result",
    "a commit to a store file, in process",
    "session/inject_reminder, in a store file",
    "updates of session/load, through one pipe",
    "an update, by a forwarder of lines",
    "an update, by sideband acp-proxy",
    "a request and its answer, by a forwarder of lines",
    "a request and its answer, by sideband acp-proxy",
    "sideband acp, to the answer of initialize",
    "a notification of the SDK, to its client",
    "a reminder, to the host",
    "a reminder, to the inbox of a session in memory",
    "a changed file, to the inbox: the first four",
    "a changed file, to the inbox: a newer version of one that waits",
    "memory of the host, for 10,000 events on one key",
    "a bare Starlette route, a fixed result",
    "tasks/inject_reminder, in memory",
    "SendMessage of the official SDK, completed at once",
    "tasks/inject_reminder, in a store file",
    "the end of a reminder, to each of 20 streams",
    "a reminder, to each of 40 watchers, in memory",
    "a reminder, to each of 40 watchers, in a store file",
    "a bare Starlette route that reads JSON",
    "a commit by Producer.remind in process, in memory",
    "POST remind, in memory",
    "a commit by Producer.remind in process, in a store file",
    "POST remind, in a store file",
    "memory of the server, for 1,000 events in memory",
    "memory of the server, for 1,000 events in a store file",
    "the first answer, on a new connection",
    "first contentful paint in Chromium",
    "the list of sessions is drawn in Chromium",
    "append and fsync",
    "accept",
    "accept, 64 at once",
    "accept, 64 at once, one session",
    "accept to wake-up in another process",
    "opening a session of 100 events",
    "memory after 300 refused accepts",
    "insert a row",
    "insert 64 rows at once",
    "accept on PostgreSQL",
    "accept on PostgreSQL, 64 at once",
    "accept on PostgreSQL to wake-up in another process",
    "listed, memory",
    "listed, sqlite",
    "listed, postgresql",
    "ACP: JSON to record to JSON",
    "ACP: JSON, decode and validate",
    "ACP: record, encode",
    "ACP: dict, validate",
    "A2A, 12 fields: JSON to record to JSON",
    "A2A, 12 fields: JSON, decode and validate",
    "A2A, 12 fields: record, encode",
    "A2A, 12 fields: dict, validate",
    "ACP, lines of other text: JSON to record to JSON",
    "ACP, with an envelope: JSON to record to JSON",
    "replayed, operator",
    "followed, peer",
    "inject, new key",
    "inject, colliding key",
    "accept, new key",
    "accept, colliding key",
    "TTL pass, nothing due",
    "TTL pass, 10 % expire",
    "clear by tag, 2 % hit",
    "clear by tag, none hit",
    "revoke by id",
    "list all with their TTL",
)
TARGETS: Final = (
    ("sideband --help, beside python -c pass", 4.0),
    ("accept of a controller / accept in process", 1.3),
    ("updates replayed to the operator", 50_000.0),
    ("inject, colliding key at 50 pending, beside 10", 8.0),
    ("TTL pass, nothing due at 50 pending, beside 10", 2.0),
)
ACP_TARGETS: Final = (
    ("session/inject_reminder, in memory, beside lines of JSON, a fixed result", 2.0),
    ("session/inject_reminder, in a store file, beside in memory and a commit", 1.2),
    ("updates of session/load, through one pipe", 15_000.0),
    ("an update, by sideband acp-proxy, beside a forwarder of lines", 1.5),
    ("a request and its answer, by sideband acp-proxy, beside a forwarder of lines", 1.5),
    ("sideband acp, to the answer of initialize", 500e6),
)
MCP_TARGETS: Final = (
    ("a reminder, to the host, beside a notification of the SDK, to its client", 1.2),
    ("a changed file, to the inbox: the first four", 250e6),
    ("a changed file, to the inbox: a newer version of one that waits", 250e6),
    ("memory of the host, for 10,000 events on one key", 16 * 2**20),
)
A2A_TARGETS: Final = (
    ("tasks/inject_reminder, in memory, beside a bare Starlette route, a fixed result", 1.6),
    ("SendMessage of the official SDK, completed at once, beside tasks/inject_reminder, in memory", 5.0),
    ("the end of a reminder, to each of 20 streams, 99 %", 1e9),
)
STUDIO_TARGETS: Final = (
    ("a reminder, to each of 40 watchers, in memory, 99 %", 500e6),
    ("a reminder, to each of 40 watchers, in a store file, 99 %", 500e6),
    ("POST remind, in memory, beside a bare route and a commit", 2.0),
    ("POST remind, in a store file, beside a bare route and a commit", 2.0),
    ("memory of the server, for 1,000 events in a store file", 64 * 2**20),
)
# Not measured where no browser is installed.
BROWSER_TARGETS: Final = (("first contentful paint in Chromium", 1e9),)
DURABLE_TARGETS: Final = (
    ("accept, beside append and fsync", 0.35),
    ("accept, 64 at once, beside append and fsync", 4.0),
    ("accept to wake-up in another process", 5e6),
    ("opening a session of 100 events", 200e6),
    ("memory after 300 refused accepts", 50 * 2**20),
)
POSTGRES_TARGETS: Final = (
    ("accept on PostgreSQL, 64 at once, beside insert 64 rows at once", 0.3),
    ("accept on PostgreSQL to wake-up in another process", 5e6),
)
SESSION_TARGETS: Final = (
    ("listing 30 sessions, memory", 50e6),
    ("listing 30 sessions, sqlite", 50e6),
    ("listing 30 sessions, postgresql", 50e6),
    ("opening a session of 30, beside one of 10, sqlite", 2.0),
    ("opening a session of 30, beside one of 10, postgresql", 2.0),
)
LOOP_TARGETS: Final = (
    ("sb.agent_loop, sb.open_store: time", 250e6),
    ("sb.agent_loop, sb.open_store: peak memory", 60 * 2**20),
    ("ours at turn 4, beside turn 2", 1.2),
)
RENDERING_TARGETS: Final = (
    ("cost beside the law, relative error", 1e-9),
    ("building a request at turn 4, beside orjson over the whole body", 0.25),
    ("an official client, CPU time over httpx2", 600e3),
)
# Not measured where the other frameworks are not installed.
PEER_TARGETS: Final = (
    ("langgraph, two nodes, beside ours", 15.0),
    ("langchain, create_agent, beside ours", 15.0),
    ("pydantic-ai, Agent, beside ours", 15.0),
    ("openai-agents, Runner, beside ours", 15.0),
)
# How many reminders one call ends, of 100 that are pending.
ENDED: Final = {
    Operation.INJECT_NEW: 0,
    Operation.INJECT_COLLIDING: 1,
    Operation.ACCEPT_NEW: 0,
    Operation.ACCEPT_COLLIDING: 1,
    Operation.NOTHING_DUE: 0,
    Operation.TENTH_DUE: 10,
    Operation.CLEAR: 2,
    Operation.CLEAR_ABSENT: 0,
    Operation.REVOKE: 1,
}


WORKLOADS: Final = {**ON_LIVE, **ON_INBOX}


def a_target(measured: float | None) -> Target:
    return Target(name="half of nothing", limit=2.0, measured=measured)


def a_subject(name: str, operation: Operation, size: int) -> Subject:
    return (with_live if operation in ON_LIVE else with_waiting)(name, size)


def test_a_quick_run_prints_every_row_and_every_target_and_writes_their_figures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    written = tmp_path / "figures.json"
    assert main(["--quick", "--json", str(written)]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert [row for row in ROWS if not any(line.startswith(f"{row}  ") for line in lines)] == []
    shown = lines[lines.index("Targets") :]
    wanted = (
        *TARGETS,
        *ACP_TARGETS,
        *MCP_TARGETS,
        *A2A_TARGETS,
        *STUDIO_TARGETS,
        *BROWSER_TARGETS,
        *DURABLE_TARGETS,
        *POSTGRES_TARGETS,
        *SESSION_TARGETS,
        *LOOP_TARGETS,
        *RENDERING_TARGETS,
        *PEER_TARGETS,
    )
    assert [name for name, _ in wanted if not any(line.startswith(f"{name}  ") for line in shown)] == []
    results = msgspec.json.decode(written.read_bytes(), type=Results)
    assert results.quick
    assert {target.name: target.limit for target in results.targets} == dict(wanted)
    optional = dict((*BROWSER_TARGETS, *PEER_TARGETS))
    assert all(target.measured is not None for target in results.targets if target.name not in optional)
    assert len(results.figures["engine"]) == len(Operation) * len(QUICK.sizes) * 2
    assert all(figure.value > 0 for figures in results.figures.values() for figure in figures)
    assert "engine: 100 %" in printed.err


def test_one_part_runs_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--part", "engine"]) == 0
    printed = capsys.readouterr().out
    assert "revoke by id" in printed
    assert "Codec:" not in printed


@pytest.mark.parametrize("operation", WORKLOADS)
@pytest.mark.parametrize("name", ["ours", "naive"])
def test_the_number_pending_is_the_same_whenever_a_call_begins(name: str, operation: Operation) -> None:
    subject = a_subject(name, operation, 100)
    calls = WORKLOADS[operation](subject, 100, range(5))
    begun_with = []
    for call in calls:
        begun_with.append(len(subject))
        call()
    assert begun_with == [100] * 5
    assert len(subject) == 100


@pytest.mark.parametrize(("operation", "ended"), ENDED.items())
@pytest.mark.parametrize("name", ["ours", "naive"])
def test_both_do_what_the_name_of_the_row_says(name: str, operation: Operation, ended: int) -> None:
    subject = a_subject(name, operation, 100)
    calls = WORKLOADS[operation](subject, 100, range(3))
    assert [call() for call in calls] == [ended] * 3


def test_both_list_the_same_reminders_with_what_remains_of_their_ttl() -> None:
    ours, naive = ({(r.dedupe_key, r.ttl_turns) for r in with_live(name, 20).listing()} for name in ("ours", "naive"))
    assert ours == naive
    assert len(ours) == 20


@pytest.mark.parametrize(
    ("measured", "verdict", "strict"),
    [
        pytest.param(2.0, "met", 0, id="exactly-the-limit-is-met"),
        pytest.param(2.01, "MISSED", 1, id="more-is-missed"),
        pytest.param(None, "not measured", 1, id="what-was-not-measured-is-not-met"),
    ],
)
def test_only_a_strict_run_fails_for_a_target(measured: float | None, verdict: str, strict: int) -> None:
    target = a_target(measured)
    assert target.verdict == verdict
    assert exit_code([a_target(1.0), target], strict=True) == strict
    assert exit_code([a_target(1.0), target], strict=False) == 0


def test_columns_stand_under_each_other() -> None:
    assert list(aligned([("row", "us"), ("a", "1.5"), ("longer", "22")])) == [
        "row      us",
        "------  ---",
        "a       1.5",
        "longer   22",
    ]


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0.5, "0.50 ns"), (42, "42.0 ns"), (999, "999 ns"), (1_000, "1.00 us"), (12_340_000, "12.3 ms"), (2e9, "2.00 s")],
)
def test_a_duration_has_a_unit_that_suits_it(nanoseconds: float, text: str) -> None:
    assert duration(nanoseconds) == text
