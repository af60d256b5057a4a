"""Damaged store files: what is refused at opening, what is refused when read, and what only the whole check finds."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import apsw
import pytest

from sideband.core.errors import StoreDamaged
from sideband.core.events import Event, InjectAccepted, QueuedMessage, Started
from sideband.core.seams import InjectMode
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS
from sideband.inspect.sessions import inspect_store
from sideband.ports import Logged
from sideband.store.codec import is_as_written
from sideband.store.inspector import verify
from sideband.store.sqlite import reader
from tests.decisions import deciding
from tests.unit.store.sqlite.test_wal import log_of, put
from tests.unit.store.twins import SqliteTwin, a_start, last_of, played, told, written_at

MESSAGES = 180
# Longer than a page of the file, so that each row has overflow pages.
LONG = "x" * 10_000


def a_message(number: int) -> Event:
    content = ({"type": "text", "text": LONG},)
    return InjectAccepted(
        item=QueuedMessage(message_id=f"m{number}", content=content, mode=InjectMode.QUEUE, provenance=IN_PROCESS)
    )


def many_messages(_state: SessionState) -> Iterable[Event]:
    return map(a_message, range(MESSAGES))


@pytest.fixture
def filled(sqlite: SqliteTwin) -> SqliteTwin:
    """A store with many rows of one session, then some of another."""

    async def fill() -> None:
        async with sqlite.open() as store:
            await store.commit("long", deciding(many_messages))
            for _ in range(30):
                await store.commit("short", a_start)

    played(fill)
    return sqlite


async def all_of(twin: SqliteTwin) -> list[Logged]:
    async with twin.open() as store:
        return await told(store)


async def opened(twin: SqliteTwin) -> None:
    async with twin.open():
        pass


def overwrite(twin: SqliteTwin, *, page: int, page_bytes: int = 4096) -> None:
    """Overwrite one page of the file."""
    with twin.path.open("r+b") as file:
        file.seek((page - 1) * page_bytes)
        file.write(b"\xa5" * page_bytes)


@contextmanager
def unchecked(twin: SqliteTwin, table: str) -> Iterator[apsw.Connection]:
    """A connection to which the table accepts values of every type: a changed bit can turn one type into another."""
    connection = apsw.Connection(str(twin.path))
    strict: str = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).get
    connection.close()
    set_sql(twin, table, strict.replace(" STRICT", "").replace(" NOT NULL", ""))
    connection = apsw.Connection(str(twin.path))
    yield connection
    connection.close()
    set_sql(twin, table, strict)


def set_sql(twin: SqliteTwin, table: str, sql: str) -> None:
    connection = apsw.Connection(str(twin.path))
    connection.pragma("writable_schema", "on")
    connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, table))
    connection.close()


OTHER_TYPES = pytest.mark.parametrize(
    "value", [pytest.param('{"event":"started"}', id="text"), pytest.param(None, id="null"), pytest.param(7, id="int")]
)


def pages_of(twin: SqliteTwin, kind: str) -> list[int]:
    connection = apsw.Connection(str(twin.path))
    pages = [page for (page,) in connection.execute("SELECT pageno FROM dbstat WHERE pagetype = ? ORDER BY 1", (kind,))]
    connection.close()
    return pages


def test_opening_a_file_reads_no_row(filled: SqliteTwin, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def noting(sequence: int, session_id: str, total: int, body: bytes) -> bool:
        read.append(sequence)
        return is_as_written(sequence, session_id, total, body)

    monkeypatch.setattr(reader, "is_as_written", noting)
    played(lambda: opened(filled))
    assert read == []


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
def test_an_overwritten_page_is_refused_when_it_is_read_and_other_sessions_go_on(filled: SqliteTwin) -> None:
    overwrite(filled, page=pages_of(filled, "overflow")[0])

    async def story() -> None:
        async with filled.open() as store:
            with pytest.raises(StoreDamaged, match=r"store\.db is damaged .* restore it from a backup"):
                await store.open("long")
            with pytest.raises(StoreDamaged):
                await store.commit("long", a_start)
            assert await written_at(store, "short", a_start) == MESSAGES + 31

    played(story)


def test_an_overwritten_page_is_found_by_the_whole_check(filled: SqliteTwin) -> None:
    overwrite(filled, page=pages_of(filled, "overflow")[0])
    with inspect_store(f"sqlite:///{filled.path}") as store:
        assert [*store.faults()]
        assert {stored.session_id: bool(verify(store, stored).faults) for stored in store.sessions()} == {
            "long": True,
            "short": False,
        }


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
def test_a_file_that_was_cut_short_is_refused(filled: SqliteTwin) -> None:
    whole = filled.path.read_bytes()
    for length in (len(whole) - 4096, len(whole) - 100, len(whole) // 2):
        filled.path.write_bytes(whole[:length])
        with pytest.raises(StoreDamaged, match="is damaged"):
            played(lambda: opened(filled))
        assert filled.path.stat().st_size == length, "it stays as it was found"


async def left_by_a_crash(twin: SqliteTwin, commits: int) -> tuple[bytes, bytes]:
    """The file and the log that a process leaves which is killed after its last commit."""
    async with twin.open() as store:
        for _ in range(commits):
            await store.commit("short", a_start)
        return twin.path.read_bytes(), log_of(twin)


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
@pytest.mark.parametrize("commits", [1, 20])
def test_a_file_that_was_cut_short_is_refused_after_a_crash_too(filled: SqliteTwin, commits: int) -> None:
    whole, log = played(lambda: left_by_a_crash(filled, commits))
    filled.path.unlink()
    for length in (len(whole) - 4 * 4096, len(whole) - 3 * 4096 - 100, len(whole) // 2):
        put(filled, whole[:length], log)
        with pytest.raises(StoreDamaged, match="it is shorter than its header says"):
            played(lambda: opened(filled))
        assert filled.path.stat().st_size == length, "it stays as it was found"
    put(filled, whole, log)
    assert len(played(lambda: all_of(filled))) == MESSAGES + 30 + commits


def test_a_file_whose_last_pages_are_still_in_the_log_is_opened(sqlite: SqliteTwin) -> None:
    async def crash_before_a_checkpoint() -> tuple[bytes, bytes]:
        async with sqlite.open() as store:
            await store.commit("long", deciding(many_messages))
            return sqlite.path.read_bytes(), log_of(sqlite)

    whole, log = played(crash_before_a_checkpoint)
    assert len(whole) < len(log) // 2
    put(sqlite, whole, log)
    assert len(played(lambda: all_of(sqlite))) == MESSAGES


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        pytest.param("DROP INDEX journal_of_session", "it has no index journal_of_session", id="an-index"),
        pytest.param("DROP TABLE lease", "it has no index lease_of_address", id="a-table"),
    ],
)
def test_a_file_without_a_table_or_an_index_is_refused(filled: SqliteTwin, statement: str, message: str) -> None:
    connection = apsw.Connection(str(filled.path))
    connection.execute(statement)
    connection.close()
    with pytest.raises(StoreDamaged, match=message):
        played(lambda: opened(filled))


def test_a_name_that_is_no_text_any_longer_is_damage_wherever_it_is_read(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            await store.commit("s", a_start)
        connection = apsw.Connection(str(sqlite.path))
        connection.execute("UPDATE journal SET session_id = CAST(x'73FF' AS TEXT)")
        connection.close()
        async with sqlite.open() as store:
            with pytest.raises(StoreDamaged, match="can't decode byte 0xff"):
                await anext(store.history())

    played(story)


def damage_the_index(twin: SqliteTwin, entry: bytes) -> None:
    """Replace the index entry of row 90 of the session `long`."""
    whole = twin.path.read_bytes()
    listed = b"long\x5a"
    assert whole.count(listed) == 1
    twin.path.write_bytes(whole.replace(listed, entry))


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        pytest.param(b"bong\x5a", "row 90 of the journal was changed", id="another-session"),
        pytest.param(b"long\x5b", "row 91 of the journal is listed twice", id="another-row"),
    ],
)
def test_a_wrong_index_entry_is_refused_when_its_session_is_read(
    filled: SqliteTwin, entry: bytes, message: str
) -> None:
    damage_the_index(filled, entry)

    async def story() -> None:
        async with filled.open() as store:
            with pytest.raises(StoreDamaged, match=message):
                await store.open("long")
            await store.open("short")

    played(story)


def test_a_row_that_the_index_has_lost_is_found_by_the_whole_check(filled: SqliteTwin) -> None:
    damage_the_index(filled, b"lung\x5a")
    with inspect_store(f"sqlite:///{filled.path}") as store:
        assert any("journal_of_session" in fault for fault in store.faults())


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
@OTHER_TYPES
def test_a_row_that_is_of_another_type_now_is_refused_to_its_session_alone(
    filled: SqliteTwin, value: str | int | None
) -> None:
    with unchecked(filled, "journal") as connection:
        connection.execute("UPDATE journal SET body = ? WHERE sequence = 90", (value,))

    async def story() -> None:
        async with filled.open() as store:
            damaged, sound = await asyncio.gather(
                store.commit("long", a_start), store.commit("short", a_start), return_exceptions=True
            )
            assert isinstance(damaged, StoreDamaged)
            assert sound == (Started(),)
            assert await last_of(store) == MESSAGES + 31
            with pytest.raises(StoreDamaged, match="row 90 of the journal was changed"):
                await store.open("long")
            with pytest.raises(StoreDamaged, match="row 90 of the journal was changed"):
                await told(store)

    played(story)
    with inspect_store(f"sqlite:///{filled.path}") as store:
        assert [*store.faults()]
        assert {stored.session_id: verify(store, stored).faults for stored in store.sessions()} == {
            "long": ("row 90 was changed",),
            "short": (),
        }


@pytest.fixture
def pruned(filled: SqliteTwin) -> SqliteTwin:
    """The same, where the session `short` has a snapshot."""

    async def prune() -> None:
        async with filled.open() as store:
            assert await store.prune("short", keep_events=10)

    played(prune)
    return filled


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
@OTHER_TYPES
def test_a_snapshot_that_is_of_another_type_now_is_refused_to_its_session_alone(
    pruned: SqliteTwin, value: str | int | None
) -> None:
    with unchecked(pruned, "snapshot") as connection:
        connection.execute("UPDATE snapshot SET body = ?", (value,))

    async def story() -> None:
        async with pruned.open() as store:
            damaged, sound = await asyncio.gather(
                store.commit("short", a_start), store.commit("long", a_start), return_exceptions=True
            )
            assert isinstance(damaged, StoreDamaged)
            assert sound == (Started(),)
            with pytest.raises(StoreDamaged, match="the snapshot of session 'short' was changed"):
                await store.open("short")

    played(story)
    with inspect_store(f"sqlite:///{pruned.path}") as store:
        assert {stored.session_id: verify(store, stored).faults for stored in store.sessions()} == {
            "long": (),
            "short": (f"its snapshot at {MESSAGES + 30} was changed",),
        }


def test_how_far_a_journal_was_pruned_is_a_number_or_damage(pruned: SqliteTwin) -> None:
    with unchecked(pruned, "snapshot") as connection:
        connection.execute("UPDATE snapshot SET pruned_through = 'far'")

    async def story() -> None:
        async with pruned.open() as store:
            with pytest.raises(StoreDamaged, match="pruned_through of a snapshot was changed"):
                await told(store)

    played(story)
    with inspect_store(f"sqlite:///{pruned.path}") as store:
        with pytest.raises(StoreDamaged, match="a row of the table snapshot was changed"):
            store.sessions()
        with pytest.raises(StoreDamaged, match="a row of the table snapshot was changed"):
            store.missing()


@pytest.mark.parametrize("value", ["soon", None])
def test_a_lease_that_is_of_another_type_now_is_damage_to_its_session_alone(
    filled: SqliteTwin, value: str | None
) -> None:
    async def story() -> None:
        async with filled.open() as store:
            await store.acquire("short", "somebody")
        with unchecked(filled, "lease") as connection:
            connection.execute("UPDATE lease SET expires_at = ?", (value,))
        async with filled.open() as store:
            damaged, sound = await asyncio.gather(
                store.commit("short", a_start), store.commit("long", a_start), return_exceptions=True
            )
            assert isinstance(damaged, StoreDamaged)
            assert sound == (Started(),)
            with pytest.raises(StoreDamaged, match="the lease of session 'short' was changed"):
                await store.acquire("short", "somebody else")

    played(story)
    with (
        inspect_store(f"sqlite:///{filled.path}") as store,
        pytest.raises(StoreDamaged, match="a row of the table lease was changed"),
    ):
        store.sessions()
