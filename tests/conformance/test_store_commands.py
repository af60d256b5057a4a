"""The commands that read a store, started as a user starts them."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import apsw
import pytest

from sideband.core.errors import CursorExpired
from sideband.core.events import RequestCommitted
from sideband.runtime.agents import agent_loop
from tests.builders import a_draft
from tests.loopback import a_loopback
from tests.model_kinds import ANTHROPIC
from tests.programs import ROOT, run_sideband
from tests.stored_agents import TASK, a_session, address, run
from tests.unit.store.twins import PostgresTwin, Sender, SqliteTwin, Twin, played, told


async def fill(twin: Twin) -> None:
    async with twin.open() as store:
        session = await a_session(store, "worked")
        await session.remind("The build is red.", dedupe_key="build", ttl_turns=1)
        await session.remind("Never force-push.")
        await run(session)
        await Sender(store).send(a_draft(), session_id="waiting")


@pytest.mark.requirement("cli:events:public-projection")
def test_events_prints_the_public_form_of_every_event(durable: Twin) -> None:
    played(lambda: fill(durable))
    answer = run_sideband("events", "--all", "--store", address(durable), "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    sequences = [line["seq"] for line in lines]
    assert sequences == sorted(set(sequences))
    assert {line["session_id"] for line in lines} == {"worked", "waiting"}
    assert all(line["payload"]["session_id"] == line["session_id"] for line in lines)
    for body in ("The build is red.", "Never force-push.", TASK):
        assert body not in answer.stdout
    only = run_sideband(
        "events",
        "--store",
        address(durable),
        "--json",
        "--to",
        "worked",
        "--kind",
        "transcript.reminder.f",
        "--after",
        "1",
    )
    chosen = [line for line in lines if line["session_id"] == "worked" and line["kind"] == "transcript.reminder.fired"]
    assert [json.loads(line) for line in only.stdout.splitlines()] == chosen
    assert len(chosen) == 2


@pytest.mark.requirement("cli:events:follows-other-processes")
def test_events_follows_what_other_processes_do(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as store:
            await Sender(store, name="before").send(a_draft())
            arguments = ("-m", "sideband.cli", "events", "--all", "--store", address(durable), "--follow", "--json")
            following = await asyncio.create_subprocess_exec(
                sys.executable, *arguments, cwd=ROOT, stdout=PIPE, stderr=PIPE
            )
            assert following.stdout is not None
            try:
                heard = [json.loads(await following.stdout.readline())]
                for number in range(3):
                    await Sender(store, name=f"n{number}").send(a_draft())
                    heard.append(json.loads(await following.stdout.readline()))
                following.send_signal(signal.SIGINT)
                rest = await following.communicate()
            finally:
                if following.returncode is None:
                    following.kill()
            assert (following.returncode, rest) == (0, (b"", b""))
            assert [line["payload"]["reminder_id"] for line in heard] == ["before-1", "n0-1", "n1-1", "n2-1"]

    played(story)


@pytest.mark.requirement("cli:events:says-where-to-resume")
def test_events_says_where_to_go_on_when_its_place_is_no_longer_kept(durable: Twin) -> None:
    async def story() -> int:
        assert isinstance(durable, SqliteTwin | PostgresTwin)
        async with durable.open() as store:
            await store.prune("worked", keep_events=2)
            with pytest.raises(CursorExpired) as expired:
                await told(store, after=1)
            return expired.value.oldest

    played(lambda: fill(durable))
    oldest = played(story)
    answer = run_sideband("events", "--all", "--store", address(durable), "--after", "1")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == f"error: some events up to {oldest} have been pruned; continue with --after {oldest}\n"
    assert run_sideband("events", "--all", "--store", address(durable), "--after", str(oldest)).returncode == 0


@pytest.mark.requirement("cli:store:commands-make-no-store")
@pytest.mark.parametrize(
    "command",
    [
        ("events", "--all"),
        ("events", "--all", "--follow"),
        ("events", "--to", "s", "--follow"),
        ("sessions",),
        ("render",),
        ("pending",),
        ("transcript",),
        ("doctor", "--verify"),
        ("remind", "x"),
        ("inject", "x"),
        ("revoke", "x"),
        ("clear", "--key", "x"),
    ],
    ids=" ".join,
)
def test_a_command_that_reads_a_store_makes_none(command: tuple[str, ...], tmp_path: Path) -> None:
    answer = run_sideband(*command, "--store", f"sqlite:///{tmp_path / 'nothing.db'}")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith(f"error: there is no store: {tmp_path / 'nothing.db'} does not exist\n")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.requirement("cli:sessions:lists-them")
def test_sessions_lists_every_session_with_how_it_stands(durable: Twin) -> None:
    played(lambda: fill(durable))
    answer = run_sideband("sessions", "--store", address(durable), "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    listed = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [(entry["session"], entry["state"], entry["turn"], entry["pending"]) for entry in listed] == [
        ("waiting", "idle", 0, 1),
        ("worked", "idle", 1, 1),
    ]


async def rendered(twin: Twin) -> list[bytes]:
    """A session on a real client, and what it has sent; at the end a reminder waits."""
    async with a_loopback(ANTHROPIC.says("Mended."), ANTHROPIC.says("Tested.")) as service, twin.open() as store:
        session = await a_session(store, "fix-login")
        model = ANTHROPIC.model(service)
        await session.remind("The build is red.", ttl_turns=1)
        await session.remind("Never force-push.")
        for task in ("Mend it.", "Test it."):
            result = await agent_loop(task, session=session, model=model, system="Be brief.", reminders=False)
            assert result.error is None
        await session.remind("The build is green.", ttl_turns=1)
    return service.bodies


def shown(twin: Twin, *options: str) -> dict[str, Any]:
    answer = run_sideband("render", "--store", address(twin), "--json", *options)
    assert (answer.returncode, answer.stderr) == (0, "")
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.mark.requirement("cli:render:as-it-was-sent")
def test_render_shows_what_was_sent_in_any_turn_while_a_process_has_the_session(durable: Twin) -> None:
    bodies = asyncio.run(rendered(durable))

    async def story() -> None:
        async with durable.open() as store:
            await store.open("fix-login")
            lease = await store.acquire("fix-login", "worker")
            before = store.state("fix-login").live.turn
            for turn, body in enumerate(bodies, start=1):
                found = await asyncio.to_thread(shown, durable, "--to", "fix-login", "--turn", str(turn))
                assert (found["body"].encode(), found["as_sent"]) == (body, True)
            assert (await asyncio.to_thread(shown, durable))["body"].encode() == bodies[-1]
            assert (await store.renew(lease)).token == lease.token
            assert store.state("fix-login").live.turn == before

    asyncio.run(story())


@pytest.mark.requirement("cli:render:as-another-model")
def test_render_shows_what_another_model_or_placement_would_have_got(sqlite: SqliteTwin) -> None:
    bodies = asyncio.run(rendered(sqlite))
    other = shown(sqlite, "--model", "openai:gpt-6-sol")
    assert (other["model"], other["wire"], other["as_sent"]) == ("openai:gpt-6-sol", "openai_responses", False)
    assert json.loads(other["body"])["model"] == "gpt-6-sol"
    assert "Mended." in other["body"]
    seed = shown(sqlite, "--placement", "seed")
    assert "Never force-push." in json.loads(seed["body"])["system"][0]["text"]
    assert "Never force-push." not in json.loads(bodies[1])["system"][0]["text"]


@pytest.mark.requirement("cli:render:the-next-request")
def test_render_shows_what_would_come_next_with_what_waits(sqlite: SqliteTwin) -> None:
    asyncio.run(rendered(sqlite))
    coming = shown(sqlite, "--next")
    assert (coming["turn"], coming["outcome"]) == (3, "coming")
    assert [entry["body"] for entry in coming["reminders"]] == ["Never force-push.", "The build is green."]
    assert shown(sqlite)["turn"] == 2


@pytest.mark.requirement("render:ledger:head-on-record")
def test_what_a_route_is_is_on_record_once(sqlite: SqliteTwin) -> None:
    asyncio.run(rendered(sqlite))

    async def story() -> list[RequestCommitted]:
        async with sqlite.open() as store:
            history = [logged.event async for logged in store.history(session_id="fix-login")]
        return [event for event in history if isinstance(event, RequestCommitted)]

    first, second = asyncio.run(story())
    assert first.head is not None
    assert (first.head.route, first.head.model) == (first.route, f"anthropic:{ANTHROPIC.models[0]}")
    assert (first.head.system, second.route, second.head) == ("Be brief.", first.route, None)


@pytest.mark.requirement("cli:doctor:verifies-a-store")
def test_doctor_rebuilds_every_session_and_finds_nothing_wrong(durable: Twin) -> None:
    played(lambda: fill(durable))
    answer = run_sideband("doctor", "--verify", "--store", address(durable))
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines()[-1] == "No problems found."
    found = json.loads(run_sideband("doctor", "--json", "--verify", "--store", address(durable)).stdout)
    assert found["sessions"]["rebuilt from the first event"] == 2


@pytest.mark.requirement("cli:doctor:verifies-a-store")
def test_doctor_names_every_row_that_was_changed_or_is_missing(durable: Twin) -> None:
    played(lambda: fill(durable))
    for statement in (
        "UPDATE {0}journal SET checksum = 7 WHERE sequence = 2",
        "DELETE FROM {0}journal WHERE sequence = 4",
    ):
        if isinstance(durable, PostgresTwin):
            durable.execute(statement.format("sideband."))
        else:
            assert isinstance(durable, SqliteTwin)
            connection = apsw.Connection(str(durable.path))
            connection.execute(statement.format(""))
            connection.close()
    answer = run_sideband("doctor", "--verify", "--store", address(durable))
    assert answer.returncode == 1
    assert [line for line in answer.stdout.splitlines() if line.startswith("!")] == [
        "! gap 1: row 4 is missing from the journal, although nothing was pruned there",
        "! worked: row 2 was changed (session 'worked')",
    ]
