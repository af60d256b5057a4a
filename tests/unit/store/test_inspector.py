"""Inspecting a store: it is not changed, and all damage is found and named."""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from sideband.core.drain import drain
from sideband.core.errors import StoreDamaged, StoreNewer, StoreRefused, StoreUnavailable
from sideband.core.events import Event, Revoked
from sideband.core.inbox import Receipt
from sideband.core.seams import Seam
from sideband.core.snapshot import encode
from sideband.core.state import SessionState
from sideband.core.turn import begin
from sideband.inspect.sessions import inspect_store
from sideband.store.codec import checksum, encode_event, encode_receipt, receipt_sum
from sideband.store.inspector import (
    Inspector,
    KeptSnapshot,
    Missing,
    StoredSession,
    UnreadableSession,
    Verdict,
    restored,
    unexplained,
    verify,
)
from sideband.store.postgres import schema as postgres_schema
from sideband.store.postgres.reader import row_sum
from sideband.store.sqlite import schema
from sideband.store.sqlite.inspector import SqliteInspector
from sideband.testing import FakeClock
from tests.builders import a_draft
from tests.decisions import deciding
from tests.unit.core.test_snapshot import facts
from tests.unit.store.twins import PostgresTwin, Sender, SqliteTwin, Twin, a_start, played


def inspecting(twin: Twin) -> AbstractContextManager[Inspector]:
    assert isinstance(twin, SqliteTwin | PostgresTwin)
    return inspect_store(twin.url if isinstance(twin, PostgresTwin) else f"sqlite:///{twin.path}")


def change(twin: Twin, statement: str, *values: object) -> None:
    """Execute a statement directly in a store; `{store}` is the prefix of its tables, `%s` a value."""
    if isinstance(twin, PostgresTwin):
        twin.execute(statement.format(store="sideband."), *values)
        return
    assert isinstance(twin, SqliteTwin)
    connection = apsw.Connection(str(twin.path))
    connection.execute(statement.format(store="").replace("%s", "?"), values)
    connection.close()


def a_drain(state: SessionState) -> Iterable[Event]:
    return drain(state, Seam.ITERATION_START).events


async def fill(twin: Twin, *, rounds: int = 12) -> dict[str, dict[str, Any]]:
    """Two sessions that have lived a little; all that each of them knows."""
    async with twin.open() as store:
        for name in ("long", "short"):
            sender = Sender(store, name=name)
            for number in range(rounds if name == "long" else 2):
                await sender.send(a_draft(dedupe_key=f"k{number % 5}"), session_id=name)
                if number % 4 == 3:
                    await store.commit(name, deciding(a_drain))
        return {name: facts(store.state(name)) for name in ("long", "short")}


async def prune(twin: Twin, session_id: str, *, keep: int) -> None:
    assert isinstance(twin, SqliteTwin | PostgresTwin)
    async with twin.open() as store:
        await store.prune(session_id, keep_events=keep)


def verdicts(twin: Twin) -> dict[str, Verdict]:
    with inspecting(twin) as store:
        return {stored.session_id: verify(store, stored) for stored in store.sessions()}


def faults_of(twin: Twin, session_id: str = "long") -> list[str]:
    """What is wrong with a session; nothing is with the other."""
    found = verdicts(twin)
    assert all(not verdict.faults for name, verdict in found.items() if name != session_id)
    return [*found[session_id].faults]


# A store in order.


def test_the_sessions_of_a_store_are_told_with_what_is_kept_of_them(durable: Twin) -> None:
    played(lambda: fill(durable))
    with inspecting(durable) as store:
        assert [*store.faults()] == []
        assert [*store.missing()] == []
        long, short = store.sessions()
        known = store.facts()
    assert (long.session_id, long.last_word, long.snapshot_at, long.pruned_through) == ("long", "checkpoint", 0, 0)
    begun_at = FakeClock().now_ms()
    assert short == StoredSession(
        "short", begun=long.last + 1, begun_at=begun_at, events=2, last=long.last + 2, last_word="queued"
    )
    assert (known["events"], known["last sequence"]) == (long.events + 2, long.last + 2)


def test_a_session_is_restored_as_a_process_would_have_it(durable: Twin) -> None:
    states = played(lambda: fill(durable))
    for _ in range(2):
        with inspecting(durable) as store:
            for stored in store.sessions():
                assert facts(restored(store, stored)) == states[stored.session_id]
        played(lambda: prune(durable, "long", keep=3))


def test_every_session_is_rebuilt_from_its_first_event_or_from_its_snapshot(durable: Twin) -> None:
    played(lambda: fill(durable))
    assert {name: (found.from_start, found.faults) for name, found in verdicts(durable).items()} == {
        "long": (True, ()),
        "short": (True, ()),
    }
    played(lambda: prune(durable, "long", keep=100))
    assert verdicts(durable)["long"][1:] == (True, ())
    played(lambda: prune(durable, "long", keep=3))
    found = verdicts(durable)
    assert (found["long"][1:], found["short"][1:]) == ((False, ()), (True, ()))
    with inspecting(durable) as store:
        assert [*store.missing()] == [], "what was pruned is not missing"


def test_leases_are_told_until_they_are_given_back(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as store:
            lease = await store.acquire("s", "worker-1")
            with inspecting(durable) as look:
                (stored,) = look.sessions()
            assert stored.lease is not None
            assert (stored.session_id, stored.events, stored.lease.holder, stored.lease.token) == (
                "s",
                0,
                "worker-1",
                1,
            )
            assert stored.lease.expires_at == lease.expires_at
            await store.release(lease)
            with inspecting(durable) as look:
                assert all(stored.lease is None for stored in look.sessions())

    played(story)


def test_a_look_is_of_one_moment_whatever_others_write(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as store:
            await store.commit("s", a_start)
            with inspecting(durable) as look:
                assert look.facts()["events"] == 1
                await store.commit("s", a_start)
                (stored,) = look.sessions()
                assert (stored.events, len([*look.entries("s")])) == (1, 1)
            with inspecting(durable) as look:
                assert look.facts()["events"] == 2

    played(story)


def test_looking_changes_nothing(sqlite: SqliteTwin) -> None:
    played(lambda: fill(sqlite))
    before = digests(sqlite)
    with inspecting(sqlite) as store:
        assert [*store.faults()] == []
        assert [verify(store, stored).faults for stored in store.sessions()] == [(), ()]
    assert digests(sqlite) == before


def log_of(sqlite: SqliteTwin) -> bytes:
    return Path(f"{sqlite.path}-wal").read_bytes()


def digests(sqlite: SqliteTwin) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sqlite.path.parent.iterdir()}


def test_what_a_killed_process_left_in_the_log_is_read_and_stays_there(sqlite: SqliteTwin) -> None:
    async def story() -> tuple[bytes, bytes]:
        async with sqlite.open() as store:
            await Sender(store).send(a_draft())
            return sqlite.path.read_bytes(), log_of(sqlite)

    file, log = played(story)
    sqlite.path.write_bytes(file)
    Path(f"{sqlite.path}-wal").write_bytes(log)
    with inspecting(sqlite) as store:
        assert [*store.faults()] == []
        (stored,) = store.sessions()
    assert stored.events == 1
    assert (sqlite.path.read_bytes(), log_of(sqlite)) == (file, log)


# What is wrong is found.


def spoil_body(twin: Twin) -> None:
    change(twin, "UPDATE {store}journal SET body = %s WHERE sequence = 3", b'{"event":"started"}')


def forge_row(twin: Twin, body: bytes, word: str) -> None:
    """Put another event, with a checksum that is right, in the place of the third."""
    total = row_sum("long", body) if isinstance(twin, PostgresTwin) else checksum(3, "long", body)
    statement = "UPDATE {store}journal SET body = %s, checksum = %s, word = %s, time = 0 WHERE sequence = 3"
    change(twin, statement, body, total, word)


def forge_snapshot(twin: Twin, state: SessionState) -> None:
    body = encode(state)
    change(twin, "UPDATE {store}snapshot SET body = %s, checksum = %s", body, checksum(snapshot_at(twin), "long", body))


def snapshot_at(twin: Twin) -> int:
    with inspecting(twin) as store:
        kept = store.kept("long")
    assert isinstance(kept, KeptSnapshot)
    return kept.sequence


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        pytest.param(spoil_body, "row 3 was changed", id="a-row-that-was-changed"),
        pytest.param(
            lambda twin: forge_row(twin, b"{}", "started"), "row 3 is not an event", id="a-row-that-is-no-event"
        ),
        pytest.param(
            lambda twin: forge_row(twin, encode_event(Revoked(reminder_id="x")).body, "fired"),
            "row 3 is listed as fired and is revoked",
            id="a-row-under-the-wrong-word",
        ),
        pytest.param(
            lambda twin: forge_row(twin, encode_event(Revoked(reminder_id="x")).body, "revoked"),
            "row 3 (revoked) does not fit what was before it: KeyError",
            id="an-event-that-does-not-fit",
        ),
    ],
)
def test_a_row_that_is_not_what_was_written_is_named(durable: Twin, spoil: Callable[[Twin], None], fault: str) -> None:
    played(lambda: fill(durable))
    spoil(durable)
    (found,) = faults_of(durable)
    assert found.startswith(fault)
    with inspecting(durable) as store, pytest.raises(UnreadableSession, match="row 3"):
        restored(store, store.sessions()[0])


async def fill_tables(twin: Twin) -> None:
    """Two sessions with records and receipts."""
    async with twin.open() as store:
        for name in ("long", "short"):
            await store.commit(name, partial(begin, attributes={"a": "x", "b": "y", "d": 5}))
            for caller_id in ("r1", "r2"):
                await Sender(store).send(a_draft(caller_id=caller_id), session_id=name)


UNLISTED = {
    SqliteTwin: "DELETE FROM session WHERE session_id = 'long'",
    PostgresTwin: "UPDATE sideband.session SET begun = 0 WHERE session_id = 'long'",
}


@pytest.mark.parametrize(
    ("statements", "fault"),
    [
        pytest.param(["UNLISTED"], "it is not in the list of sessions", id="not-listed"),
        pytest.param(
            ["UPDATE {store}session SET begun_at = 5 WHERE session_id = 'long'"],
            "the list of sessions says that it was begun with row 1 at 5 ms, and its first row is 1 at ",
            id="listed-with-another-time",
        ),
        pytest.param(
            [
                "DELETE FROM {store}record WHERE session_id = 'long' AND name = 'b'",
                "UPDATE {store}record SET key = 'z' WHERE session_id = 'long' AND name = 'a'",
                "INSERT INTO {store}record VALUES ('long', 'c', '1')",
            ],
            "it is looked up by other records than it has: 'a', 'b', 'c' differ",
            id="looked-up-by-other-records",
        ),
        pytest.param(
            ["UPDATE {store}session SET records = '[]' WHERE session_id = 'long'"],
            "its records are not what its journal says: '[]'",
            id="other-records",
        ),
        pytest.param(
            ["UPDATE {store}receipt SET checksum = 7 WHERE session_id = 'long' AND caller_id = 'r1'"],
            "its receipt 'r1' was changed",
            id="a-changed-receipt",
        ),
        pytest.param(
            ["DELETE FROM {store}receipt WHERE session_id = 'long' AND caller_id = 'r1'"],
            "its receipt 'r1' is missing",
            id="no-receipt",
        ),
    ],
)
def test_rows_beside_the_journal_that_differ_from_it_are_named(
    durable: Twin, statements: list[str], fault: str
) -> None:
    played(lambda: fill_tables(durable))
    assert faults_of(durable) == []
    for statement in statements:
        change(durable, UNLISTED[type(durable)] if statement == "UNLISTED" else statement)
    (found,) = faults_of(durable)
    assert found.startswith(fault)


@pytest.mark.parametrize(
    ("caller_id", "fault"),
    [("r1", "its receipt 'r1' is not what its journal says"), ("r3", "its receipt 'r3' is of no row of its journal")],
    ids=["of-a-row", "of-no-row"],
)
def test_a_forged_receipt_is_named(durable: Twin, caller_id: str, fault: str) -> None:
    played(lambda: fill_tables(durable))
    body = encode_receipt(Receipt("me", "print", "id", 0, {}, {}))
    change(durable, "DELETE FROM {store}receipt WHERE session_id = 'long' AND caller_id = %s", caller_id)
    total = receipt_sum("long", caller_id, body)
    change(durable, "INSERT INTO {store}receipt VALUES ('long', %s, %s, %s)", caller_id, total, body)
    assert faults_of(durable) == [fault]


def test_a_session_that_is_listed_without_an_event_is_named(durable: Twin) -> None:
    played(lambda: fill_tables(durable))
    played(lambda: prune(durable, "short", keep=0))
    change(durable, "INSERT INTO {store}session (session_id, begun, begun_at) VALUES ('none', 99, 0)")
    assert faults_of(durable, "none") == ["it is in the list of sessions without an event"]


def test_a_snapshot_that_was_changed_is_named(durable: Twin) -> None:
    played(lambda: fill(durable))
    played(lambda: prune(durable, "long", keep=100))
    change(durable, "UPDATE {store}snapshot SET body = %s", b"{}")
    assert faults_of(durable) == [f"its snapshot at {snapshot_at(durable)} was changed"]


def test_a_snapshot_that_cannot_be_read_is_named(durable: Twin) -> None:
    played(lambda: fill(durable))
    played(lambda: prune(durable, "long", keep=100))
    change(
        durable,
        "UPDATE {store}snapshot SET body = %s, checksum = %s",
        b"{}",
        checksum(snapshot_at(durable), "long", b"{}"),
    )
    (found,) = faults_of(durable)
    assert found.startswith(f"its snapshot at {snapshot_at(durable)} cannot be read")


def test_a_snapshot_that_tells_another_story_than_the_journal_is_found_out(durable: Twin) -> None:
    played(lambda: fill(durable))
    played(lambda: prune(durable, "long", keep=100))
    other = SessionState()
    other.running, other.window = True, 7
    forge_snapshot(durable, other)
    (found,) = faults_of(durable)
    assert found.startswith(f"its snapshot at {snapshot_at(durable)} is not what its journal says: ")
    assert found.endswith(" differ")
    assert {"inbox", "running", "window"} <= {*found.partition(": ")[2].removesuffix(" differ").split(", ")}


def test_a_journal_that_was_pruned_without_a_snapshot_is_found_out(durable: Twin) -> None:
    played(lambda: fill(durable))
    played(lambda: prune(durable, "long", keep=3))
    if isinstance(durable, PostgresTwin):
        change(durable, "DELETE FROM {store}snapshot")
    else:
        change(durable, "UPDATE {store}snapshot SET sequence = 2, checksum = %s", 0)
    (found,) = faults_of(durable)
    assert found.startswith("its journal was pruned through")


def test_a_row_that_is_gone_leaves_a_gap(durable: Twin) -> None:
    played(lambda: fill(durable))
    change(durable, "DELETE FROM {store}journal WHERE sequence IN (3, 6, 7)")
    with inspecting(durable) as store:
        assert [*store.missing()] == [Missing(3, 3), Missing(6, 7)]


@pytest.mark.parametrize(
    ("gaps", "pruned", "missing"),
    [
        pytest.param([], 0, [], id="none"),
        pytest.param([(3, 3)], 0, [(3, 3)], id="nothing-was-pruned"),
        pytest.param([(3, 5)], 5, [], id="all-of-it-was"),
        pytest.param([(3, 5)], 4, [(5, 5)], id="a-part-of-it-was"),
        pytest.param([(1, 2), (4, 4), (9, 9)], 4, [(9, 9)], id="only-what-is-behind"),
    ],
)
def test_a_gap_is_explained_by_pruning_up_to_where_something_was_pruned(
    gaps: list[tuple[int, int]], pruned: int, missing: list[tuple[int, int]]
) -> None:
    assert [*map(tuple, unexplained(gaps, pruned_through=pruned))] == missing


@pytest.mark.parametrize(
    ("rounds", "first", "least"),
    [
        pytest.param(120, "Tree 13 page 13: btreeInitPage() returns error code 11", 6, id="page-by-page"),
        pytest.param(20, "database disk image is malformed", 1, id="so-that-it-cannot-be-gone-through"),
    ],
)
def test_a_file_whose_pages_are_damaged_says_so(sqlite: SqliteTwin, rounds: int, first: str, least: int) -> None:
    played(lambda: fill(sqlite, rounds=rounds))
    data = bytearray(sqlite.path.read_bytes())
    for start in range(4_096, len(data), 4_096):
        data[start : start + 16] = b"\xff" * 16
    sqlite.path.write_bytes(bytes(data))
    with inspecting(sqlite) as store:
        found = [*store.faults()]
        assert found[0] == first
        assert len(found) >= least
        with pytest.raises(StoreDamaged, match=r"store\.db is damaged"):
            store.sessions()


def test_a_log_that_was_changed_in_its_midst_says_so(sqlite: SqliteTwin) -> None:
    async def story() -> tuple[bytes, bytes]:
        async with sqlite.open() as store:
            sender = Sender(store)
            for _ in range(6):
                await sender.send(a_draft())
            return sqlite.path.read_bytes(), log_of(sqlite)

    file, log = played(story)
    changed = bytearray(log)
    changed[200] ^= 0xFF
    sqlite.path.write_bytes(file)
    Path(f"{sqlite.path}-wal").write_bytes(bytes(changed))
    with inspecting(sqlite) as store:
        assert [*store.faults()] == ["a commit in store.db-wal cannot be read, and later commits follow it"]
    assert log_of(sqlite) == bytes(changed), "it stays as it was found"


def test_a_counter_that_is_ahead_of_its_journal_says_so(postgres: PostgresTwin) -> None:
    played(lambda: fill(postgres))
    postgres.execute("UPDATE sideband.counter SET last = last + 1")
    with inspecting(postgres) as store:
        (fault,) = store.faults()
    assert fault.startswith("its counter says")


# What cannot be looked into.


def test_where_there_is_no_store_none_is_made(sqlite: SqliteTwin, postgres: PostgresTwin) -> None:
    with pytest.raises(StoreRefused, match=r"there is no store: .*store\.db does not exist"), inspecting(sqlite):
        pass
    assert [*sqlite.path.parent.iterdir()] == []
    with pytest.raises(StoreRefused, match="there is no store in postgresql://"), inspecting(postgres):
        pass
    assert postgres.execute("SELECT to_regnamespace('sideband')") == [(None,)]


def test_a_store_of_a_newer_version_is_left_alone(durable: Twin) -> None:
    played(lambda: fill(durable))
    if isinstance(durable, PostgresTwin):
        change(durable, "UPDATE {store}version SET version = %s", postgres_schema.latest() + 1)
    else:
        change(durable, f"PRAGMA user_version = {schema.latest() + 1}")
    with pytest.raises(StoreNewer, match="upgrade sideband"), inspecting(durable):
        pass


def test_a_store_of_an_older_version_is_not_brought_forward(durable: Twin) -> None:
    played(lambda: fill(durable))
    if isinstance(durable, PostgresTwin):
        change(durable, "UPDATE {store}version SET version = 2")
    else:
        change(durable, "PRAGMA user_version = 2")
    with pytest.raises(StoreRefused, match="of an older version"), inspecting(durable):
        pass


def test_a_database_without_its_version_is_damaged(postgres: PostgresTwin) -> None:
    played(lambda: fill(postgres))
    postgres.execute("DELETE FROM sideband.version")
    with pytest.raises(StoreDamaged, match="the version of its tables is missing"), inspecting(postgres):
        pass


def test_a_file_of_another_program_is_refused(sqlite: SqliteTwin) -> None:
    connection = apsw.Connection(str(sqlite.path))
    connection.execute("CREATE TABLE notes (text)")
    connection.close()
    with pytest.raises(StoreRefused, match="not a store of Sideband"), inspecting(sqlite):
        pass
    sqlite.path.write_text("not even a database, " * 300, encoding="utf-8")
    with pytest.raises(StoreDamaged), inspecting(sqlite):
        pass


def test_a_file_that_cannot_be_opened_is_refused(sqlite: SqliteTwin, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_args: object, **_options: object) -> None:
        raise apsw.CantOpenError("not now")

    played(lambda: fill(sqlite))
    monkeypatch.setattr("sideband.store.sqlite.inspector.connect", cannot)
    with pytest.raises(StoreUnavailable, match="cannot be used now"), inspecting(sqlite):
        pass


def test_a_server_that_is_not_there_is_named_without_a_password(tmp_path: Path) -> None:
    url = f"postgresql://me:hunter2@/nothing?host={tmp_path}"
    with pytest.raises(StoreUnavailable, match="cannot be used now") as refused, inspect_store(url):
        pass
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_inspector_can_be_made_for_any_moment(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            await store.acquire("s", "me")
            for now_ms, lapsed in ((0, False), (10**15, True)):
                look = SqliteInspector(sqlite.path, apsw.Connection(str(sqlite.path)), now_ms=now_ms).begin()
                (stored,) = look.sessions()
                look.close()
                assert stored.lease is not None
                assert stored.lease.has_lapsed is lapsed

    played(story)
