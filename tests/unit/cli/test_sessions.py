"""`sideband sessions`: how it stands with each session of a store."""

import json
from pathlib import Path

import pytest

from sideband.cli.doctor import doctor
from sideband.cli.sessions import HEADINGS, sessions
from sideband.core.events import Closed, Idled, Injected, Started, TurnCommitted
from sideband.core.trust import IN_PROCESS
from sideband.store.sqlite.doorbell import directory_for
from tests.builders import a_draft, a_reminder
from tests.decisions import saying
from tests.unit.cli.stores import address, prune
from tests.unit.store.sqlite.test_doorbell import a_dead_bell
from tests.unit.store.test_inspector import change
from tests.unit.store.twins import Sender, SqliteTwin, Twin, played

Captured = pytest.CaptureFixture[str]

KILLED = "killed"
A_LEASE = "INSERT INTO {store}lease (session_id, holder, address, token, expires_at) VALUES ('s', 'worker', %s, 1, %s)"


async def fill(twin: Twin) -> None:
    """One session of each kind; the lease of the running one is never released."""
    async with twin.open() as store:
        for name in ("closed", "idle", "left"):
            await store.commit(name, saying(Started()))
        live = Injected(reminder=a_reminder("r9"), provenance=IN_PROCESS)
        await store.commit("idle", saying(TurnCommitted(turn=1), TurnCommitted(turn=2), Idled(), live))
        await Sender(store).send(a_draft(), session_id="idle")
        await store.commit("closed", saying(Closed()))


def test_every_session_is_listed_with_its_state_turn_and_what_is_pending(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    assert sessions(store=address(durable), json=True) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(entry["session"], entry["state"], entry["turn"], entry["pending"]) for entry in listed] == [
        ("closed", "closed", 0, 0),
        ("idle", "idle", 2, 2),
        ("left", "left", 0, 0),
    ]
    assert [(entry["events"], entry["last_sequence"], entry["last_event"]) for entry in listed] == [
        (2, 9, "closed"),
        (6, 8, "queued"),
        (1, 3, "started"),
    ]


def test_a_session_with_a_valid_lease_is_running(durable: Twin, capsys: Captured) -> None:
    async def story() -> None:
        async with durable.open() as store:
            lease = await store.acquire("s", "worker")
            await store.commit("s", saying(Started()), lease=lease)
            assert sessions(store=address(durable), json=True) == 0

    if hasattr(durable, "now_ms"):
        # By the clock of the process that inspects the store.
        durable.now_ms = lambda: 2**52
    played(story)
    assert json.loads(capsys.readouterr().out)["state"] == "running"


def test_a_session_whose_process_was_killed_is_left_though_its_lease_has_not_lapsed(
    sqlite: SqliteTwin, capsys: Captured
) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            await store.commit("s", saying(Started()))

    played(story)
    change(sqlite, A_LEASE, KILLED, 2**52)
    assert sessions(store=address(sqlite), json=True) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "running", "whether it has died is not known"
    directory_for(sqlite.path).mkdir()
    a_dead_bell(directory_for(sqlite.path), KILLED)
    assert sessions(store=address(sqlite), json=True) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "left"
    assert doctor(verify=True, store=address(sqlite)) == 0
    assert "worker, token 1, until 9999-12-31T23:59:59Z, but its process has died" in capsys.readouterr().out


def test_people_get_a_table_that_fits_what_is_in_it(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    assert sessions(store=address(durable)) == 0
    heading, *rows, total = capsys.readouterr().out.splitlines()
    assert heading.split("  ")[0] == HEADINGS[0]
    assert [row.split()[:7] for row in rows] == [
        ["closed", "closed", "0", "0", "2", "9", "closed"],
        ["idle", "idle", "2", "2", "6", "8", "queued"],
        ["left", "left", "0", "0", "1", "3", "started"],
    ]
    assert len({row.index(row.split()[6], 40) for row in rows}) == 1
    assert total == "3 sessions"


def test_a_session_of_which_only_a_snapshot_is_left_is_there(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    played(lambda: prune(durable, keep=0, session_id="idle"))
    assert sessions(store=address(durable), json=True) == 0
    idle = json.loads(capsys.readouterr().out.splitlines()[1])
    assert (idle["state"], idle["turn"], idle["pending"], idle["events"], idle["last_event"]) == ("idle", 2, 2, 0, "")


def test_a_session_that_cannot_be_read_is_listed_as_damaged(durable: Twin, capsys: Captured) -> None:
    played(lambda: fill(durable))
    change(durable, "UPDATE {store}journal SET checksum = 0 WHERE sequence = 1")
    assert sessions(store=address(durable)) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[:7] == ["closed", "damaged", "-", "-", "2", "9", "closed"]


@pytest.mark.parametrize(("count", "total"), [(0, "0 sessions"), (1, "1 session")])
def test_few_sessions_are_counted_as_people_count(durable: Twin, count: int, total: str, capsys: Captured) -> None:
    async def story() -> None:
        async with durable.open() as store:
            for number in range(count):
                await store.commit(f"s{number}", saying(Started()))

    played(story)
    assert sessions(store=address(durable)) == 0
    assert capsys.readouterr().out.splitlines()[-1] == total


def test_where_there_is_no_store_it_says_so(tmp_path: Path, capsys: Captured) -> None:
    assert sessions(store=f"sqlite:///{tmp_path / 'nothing.db'}") == 2
    assert "there is no store" in capsys.readouterr().err
