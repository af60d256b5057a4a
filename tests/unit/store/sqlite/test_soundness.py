"""A large file is not gone through when it is opened: what is refused then, what when it is read, and what later."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import apsw
import pytest

from sideband.core.events import Event, InjectAccepted
from sideband.core.failures import StoreDamaged
from sideband.core.items import QueuedMessage
from sideband.core.seams import InjectMode
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS
from sideband.ports import Committed
from sideband.runtime.inspecting import inspect_store
from sideband.store.inspection import verify
from sideband.store.records import checksum, is_as_written, record
from sideband.store.sqlite import reading, soundness
from tests.unit.store.twins import SqliteTwin, a_start, played, told

MESSAGES = 180
LONG = "x" * 50_000


def a_message(number: int) -> Event:
    content = ({"type": "text", "text": LONG},)
    return InjectAccepted(
        item=QueuedMessage(message_id=f"m{number}", content=content, mode=InjectMode.QUEUE, provenance=IN_PROCESS)
    )


def many_messages(_state: SessionState) -> Iterable[Event]:
    return map(a_message, range(MESSAGES))


@pytest.fixture
def large(sqlite: SqliteTwin) -> SqliteTwin:
    """A store that is too large to be gone through; what was written last is of another session."""

    async def fill() -> None:
        async with sqlite.open() as store:
            await store.commit("long", many_messages)
            for _ in range(30):
                await store.commit("short", a_start)

    played(fill)
    assert sqlite.path.stat().st_size > soundness.WHOLE_BYTES
    return sqlite


async def opened(twin: SqliteTwin) -> None:
    async with twin.open():
        pass


def overwrite(twin: SqliteTwin, *, page: int, page_bytes: int = 4096) -> None:
    """Let one page of the file be something else."""
    with twin.path.open("r+b") as file:
        file.seek((page - 1) * page_bytes)
        file.write(b"\xa5" * page_bytes)


@contextmanager
def unchecked(twin: SqliteTwin, table: str) -> Iterator[apsw.Connection]:
    """A table that takes values of every type for as long; as a changed bit makes of one type another."""
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


def test_of_a_large_file_only_the_end_is_read_when_it_is_opened(
    large: SqliteTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []

    def noting(sequence: int, session_id: str, total: int, body: bytes) -> bool:
        looked_at.append(sequence)
        return is_as_written(sequence, session_id, total, body)

    monkeypatch.setattr(soundness, "is_as_written", noting)
    played(lambda: opened(large))
    last = MESSAGES + 30
    assert looked_at[:30] == [*range(last, MESSAGES, -1)]
    assert 0 < len(looked_at[30:]) <= soundness.LAST_BYTES // len(LONG) + 1


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
def test_a_page_that_was_overwritten_is_noticed_by_whoever_reads_it_and_by_nobody_else(large: SqliteTwin) -> None:
    overwrite(large, page=pages_of(large, "overflow")[0])

    async def story() -> None:
        async with large.open() as store:
            with pytest.raises(StoreDamaged, match=r"store\.db is damaged .* restore it from a backup"):
                await store.open("long")
            with pytest.raises(StoreDamaged):
                await store.commit("long", a_start)
            assert (await store.commit("short", a_start)).sequence == MESSAGES + 31

    played(story)


def test_a_page_that_was_overwritten_is_found_by_whoever_goes_through_the_whole_file(large: SqliteTwin) -> None:
    overwrite(large, page=pages_of(large, "overflow")[0])
    with inspect_store(f"sqlite:///{large.path}") as store:
        assert [*store.faults()]
        assert {shelf.session_id: bool(verify(store, shelf).faults) for shelf in store.shelves()} == {
            "long": True,
            "short": False,
        }


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
def test_a_large_file_that_was_cut_off_is_refused(large: SqliteTwin) -> None:
    whole = large.path.read_bytes()
    for length in (len(whole) - 4096, len(whole) - 100, soundness.WHOLE_BYTES + 1):
        large.path.write_bytes(whole[:length])
        with pytest.raises(StoreDamaged, match="is damaged"):
            played(lambda: opened(large))
        assert large.path.stat().st_size == length, "it stays as it was found"


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        pytest.param(
            "UPDATE journal SET body = CAST(replace(body, 'started', 'startled') AS BLOB) WHERE sequence = 200",
            "row 200 of the journal was changed",
            id="a-row",
        ),
        pytest.param(
            "UPDATE journal SET session_id = CAST(x'73FF' AS TEXT) WHERE sequence = 200",
            "can't decode byte 0xff",
            id="a-name-that-is-no-text",
        ),
        pytest.param("DROP INDEX journal_of_session", "it has no index journal_of_session", id="an-index"),
        pytest.param("DROP TABLE lease", "it has no index lease_of_address", id="a-table"),
    ],
)
def test_a_large_file_is_refused_for_what_everybody_stands_on(large: SqliteTwin, statement: str, message: str) -> None:
    connection = apsw.Connection(str(large.path))
    connection.execute(statement)
    connection.close()
    with pytest.raises(StoreDamaged, match=message):
        played(lambda: opened(large))


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
def test_a_row_that_its_session_would_not_find_is_refused(large: SqliteTwin) -> None:
    connection = apsw.Connection(str(large.path))
    (index,) = connection.execute("SELECT * FROM sqlite_schema WHERE name = 'journal_of_session'")
    connection.pragma("writable_schema", "on")
    connection.execute("DELETE FROM sqlite_schema WHERE name = 'journal_of_session'")
    connection.close()
    connection = apsw.Connection(str(large.path))
    entry, sequence = record(*a_start(SessionState())), MESSAGES + 31
    total = checksum(sequence, "short", entry.body)
    connection.execute("INSERT INTO journal VALUES (?, 'short', ?, ?, ?)", (sequence, entry.word, total, entry.body))
    connection.pragma("writable_schema", "on")
    connection.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", index)
    connection.close()
    with pytest.raises(StoreDamaged, match=f"row {sequence} of the journal is not listed for its session"):
        played(lambda: opened(large))


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


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        pytest.param(
            b"lung\x5a", "row 90 of the journal is not listed for its session", id="behind-it-in-the-alphabet"
        ),
        pytest.param(b"bong\x5a", "row 90 of the journal was changed", id="before-it-in-the-alphabet"),
        pytest.param(b"long\x5b", "row 91 of the journal is listed twice", id="another-row"),
    ],
)
def test_a_session_of_which_the_index_has_lost_a_row_is_refused_when_it_is_read(
    large: SqliteTwin, entry: bytes, message: str
) -> None:
    whole = large.path.read_bytes()
    listed = b"long\x5a"
    assert whole.count(listed) == 1
    large.path.write_bytes(whole.replace(listed, entry))

    async def story() -> None:
        async with large.open() as store:
            with pytest.raises(StoreDamaged, match=message):
                await store.open("long")
            await store.open("short")

    played(story)


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
@OTHER_TYPES
def test_a_row_that_is_of_another_type_now_is_refused_to_its_session_alone(
    large: SqliteTwin, value: str | int | None
) -> None:
    with unchecked(large, "journal") as connection:
        connection.execute("UPDATE journal SET body = ? WHERE sequence = 90", (value,))

    async def story() -> None:
        async with large.open() as store:
            damaged, sound = await asyncio.gather(
                store.commit("long", a_start), store.commit("short", a_start), return_exceptions=True
            )
            assert isinstance(damaged, StoreDamaged)
            assert isinstance(sound, Committed)
            assert sound.sequence == MESSAGES + 31
            with pytest.raises(StoreDamaged, match="row 90 of the journal was changed"):
                await store.open("long")
            with pytest.raises(StoreDamaged, match="row 90 of the journal was changed"):
                await told(store)

    played(story)
    with inspect_store(f"sqlite:///{large.path}") as store:
        assert [*store.faults()]
        assert {shelf.session_id: verify(store, shelf).faults for shelf in store.shelves()} == {
            "long": ("row 90 was changed",),
            "short": (),
        }


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
@OTHER_TYPES
def test_a_large_file_whose_last_row_is_of_another_type_is_refused(large: SqliteTwin, value: str | int | None) -> None:
    with unchecked(large, "journal") as connection:
        connection.execute("UPDATE journal SET body = ? WHERE sequence = 200", (value,))
    with pytest.raises(StoreDamaged, match="row 200 of the journal was changed"):
        played(lambda: opened(large))


@pytest.fixture
def pruned(large: SqliteTwin) -> SqliteTwin:
    """The same, where the session that was written last has a snapshot."""

    async def prune() -> None:
        async with large.open() as store:
            assert await store.prune("short", keep_events=10)

    played(prune)
    return large


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
            assert isinstance(sound, Committed)
            with pytest.raises(StoreDamaged, match="the snapshot of session 'short' was changed"):
                await store.open("short")

    played(story)
    with inspect_store(f"sqlite:///{pruned.path}") as store:
        assert {shelf.session_id: verify(store, shelf).faults for shelf in store.shelves()} == {
            "long": (),
            "short": (f"its snapshot at {MESSAGES + 30} was changed",),
        }


def test_how_far_a_journal_was_pruned_is_a_number_or_damage(pruned: SqliteTwin) -> None:
    with unchecked(pruned, "snapshot") as connection:
        connection.execute("UPDATE snapshot SET pruned_through = 'far'")

    async def story() -> None:
        async with pruned.open() as store:
            with pytest.raises(StoreDamaged, match="how far the journal was pruned was changed"):
                await told(store)

    played(story)
    with inspect_store(f"sqlite:///{pruned.path}") as store:
        with pytest.raises(StoreDamaged, match="a row of the table snapshot was changed"):
            store.shelves()
        with pytest.raises(StoreDamaged, match="a row of the table snapshot was changed"):
            store.missing()


@pytest.mark.parametrize("value", ["soon", None])
def test_a_lease_that_is_of_another_type_now_is_damage_to_its_session_alone(
    large: SqliteTwin, value: str | None
) -> None:
    async def story() -> None:
        async with large.open() as store:
            await store.acquire("short", "somebody")
        with unchecked(large, "lease") as connection:
            connection.execute("UPDATE lease SET expires_at = ?", (value,))
        async with large.open() as store:
            damaged, sound = await asyncio.gather(
                store.commit("short", a_start), store.commit("long", a_start), return_exceptions=True
            )
            assert isinstance(damaged, StoreDamaged)
            assert isinstance(sound, Committed)
            with pytest.raises(StoreDamaged, match="the lease of session 'short' was changed"):
                await store.acquire("short", "somebody else")

    played(story)
    with (
        inspect_store(f"sqlite:///{large.path}") as store,
        pytest.raises(StoreDamaged, match="a row of the table lease was changed"),
    ):
        store.shelves()


@pytest.mark.parametrize("query", [reading.MISNAMED_BEFORE, reading.MISNAMED_BEHIND], ids=["before", "behind"])
def test_the_neighbours_of_a_session_are_found_without_going_through_it(large: SqliteTwin, query: str) -> None:
    connection = apsw.Connection(str(large.path))
    plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", ("long", 90))]
    connection.close()
    assert any("journal_of_session ((session_id,rowid)" in step for step in plan), plan
