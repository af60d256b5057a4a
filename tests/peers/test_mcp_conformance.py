"""The conformance suite of MCP, for both revisions: a server with reminders, and a client with the tap of the host."""

import asyncio
import re
import shlex
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.loopback import over_sockets, within
from tests.peers.clients import HERE, NODE, environment, process
from tests.peers.schemas import PACKAGES

SUITE: Final = PACKAGES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
# The scenarios that count for each revision; a release of the suite never changes them.
SERVER_SCENARIOS: Final[Mapping[str, int]] = {"2025-11-25": 30, "2026-07-28": 37}
CLIENT_SCENARIOS: Final[Mapping[str, int]] = {"2025-11-25": 18, "2026-07-28": 32}
# Those in which the server asks the user nothing and wants no authorization, which is all that the host offers a server.
HOST_SCENARIOS: Final = (
    ("initialize", "2025-11-25"),
    ("tools_call", "2025-11-25"),
    ("sse-retry", "2025-11-25"),
    ("tools_call", "2026-07-28"),
    ("request-metadata", "2026-07-28"),
    ("http-standard-headers", "2026-07-28"),
    ("http-custom-headers", "2026-07-28"),
    ("http-invalid-tool-headers", "2026-07-28"),
    ("json-schema-ref-no-deref", "2026-07-28"),
    ("json-schema-2020-12-preservation", "2026-07-28"),
)
# Ten times what the slowest takes on an idle machine.
_SUITE_SECONDS: Final = 300

_SCENARIO: Final = re.compile(r"^([✓✗]) (\S+): \d+ passed, \d+ failed", re.MULTILINE)
_NOT_SCORED: Final = re.compile(r"^  [✓✗] (\S+) \(", re.MULTILINE)


class Outcome(NamedTuple):
    """The scenarios that passed and failed, and those of both that do not count."""

    passed: frozenset[str]
    failed: frozenset[str]
    not_scored: frozenset[str]
    log: str

    @property
    def lost(self) -> list[str]:
        return sorted(self.failed - self.not_scored)

    @property
    def scored(self) -> int:
        return len(self.passed - self.not_scored)


async def run(*arguments: str, folder: Path) -> tuple[int | None, str]:
    """The exit code and the output of the suite, which writes its results into this folder."""
    suite = await asyncio.create_subprocess_exec(
        *(str(NODE), str(SUITE), *arguments, "--output-dir", str(folder)),
        cwd=folder,
        env=environment(folder),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await suite.communicate()
    finally:
        if suite.returncode is None:
            suite.kill()
            await suite.wait()
    return suite.returncode, output.decode()


async def run_requirements(*arguments: str, revision: str, folder: Path) -> Outcome:
    """Run all scenarios of a revision."""
    code, log = await run(*arguments, "--requirements", revision, folder=folder)
    found = _SCENARIO.findall(log)
    outcome = Outcome(
        passed=frozenset(name for mark, name in found if mark == "✓"),
        failed=frozenset(name for mark, name in found if mark == "✗"),
        not_scored=frozenset(_NOT_SCORED.findall(log)),
        log=log,
    )
    # The suite ends with an error exactly if a scenario that counts has failed.
    assert (code == 0) == (not outcome.lost), log
    return outcome


@asynccontextmanager
async def a_fixture_server(mode: str, folder: Path) -> AsyncIterator[str]:
    """The URL of the fixture server."""
    command = [sys.executable, "-W", "ignore", str(HERE / "mcp_fixture_server.py"), mode]
    async with process(command, folder) as server:
        assert server.stdout is not None
        yield (await server.stdout.readline()).decode().strip()


async def serve_and_run(mode: str, revision: str, folder: Path) -> Outcome:
    async with a_fixture_server(mode, folder) as url:
        return await run_requirements("server", "--url", url, revision=revision, folder=folder)


def client(kind: str) -> str:
    """The command of the fixture client for the suite, which gives it to a shell."""
    return shlex.join([sys.executable, "-W", "ignore", str(HERE / "mcp_fixture_client.py"), kind])


def failures(outcome: Outcome, names: Sequence[str]) -> str:
    """What the suite wrote about these scenarios."""
    return f"lost: {', '.join(names)}\n{outcome.log}"


@pytest.mark.parametrize("revision", SERVER_SCENARIOS)
@within(_SUITE_SECONDS)
async def test_reminders_cost_a_server_no_scenario(revision: str, tmp_path: Path) -> None:
    without = await serve_and_run("without", revision, tmp_path)
    assert without.lost == [], failures(without, without.lost)
    assert without.scored == SERVER_SCENARIOS[revision]
    for mode in ("mounted", "emitting"):
        outcome = await serve_and_run(mode, revision, tmp_path)
        # Scenarios that do not count must not change either.
        lost = sorted(without.passed - outcome.passed)
        assert lost == [], failures(outcome, lost)
        assert outcome.scored == SERVER_SCENARIOS[revision]


@pytest.mark.parametrize("revision", CLIENT_SCENARIOS)
@within(_SUITE_SECONDS)
async def test_the_tap_of_the_host_costs_a_client_no_scenario(revision: str, tmp_path: Path) -> None:
    """`plain` instead of `tapped` shows how the SDK does without the tap."""
    outcome = await run_requirements("client", "--command", client("tapped"), revision=revision, folder=tmp_path)
    assert outcome.lost == [], failures(outcome, outcome.lost)
    assert outcome.scored == CLIENT_SCENARIOS[revision]


@pytest.mark.parametrize(("scenario", "revision"), HOST_SCENARIOS)
@over_sockets
async def test_the_host_passes_what_is_about_tools(scenario: str, revision: str, tmp_path: Path) -> None:
    choice = ("--scenario", scenario, "--spec-version", revision)
    code, log = await run("client", "--command", client("host"), *choice, folder=tmp_path)
    assert code == 0, log
    assert "Passed: " in log
