"""Opening a PostgreSQL store: created if it is missing, migrated if it is old, refused if it is damaged."""

import asyncio
from collections.abc import Sequence

import psycopg
import pytest

from sideband.core.errors import NotStorable, StoreClosed, StoreDamaged, StoreNewer, StoreRefused, StoreUnavailable
from sideband.core.events import Started
from sideband.runtime.store import open_store
from sideband.store.codec import LONGEST_NAME, encode_event
from sideband.store.postgres import open_postgres
from sideband.store.postgres.reader import row_sum
from sideband.store.postgres.schema import latest, migrations
from tests.programs import run_python
from tests.unit.store.old_stores import make_old
from tests.unit.store.twins import PostgresTwin, a_start, played, told, written_at

STARTED = encode_event(Started())


def version_of(twin: PostgresTwin) -> object:
    return twin.execute("SELECT version FROM sideband.version")


def tables(twin: PostgresTwin) -> Sequence[object]:
    """Every column of every table of the store."""
    return twin.execute(
        "SELECT table_name, column_name, data_type, column_default, is_nullable FROM information_schema.columns "
        "WHERE table_schema = 'sideband' ORDER BY table_name, column_name"
    )


async def opened(twin: PostgresTwin) -> None:
    async with twin.open():
        pass


# Making and bringing forward.


def test_a_store_is_made_once_and_has_the_newest_tables(postgres: PostgresTwin) -> None:
    played(lambda: opened(postgres))
    made = tables(postgres)
    assert version_of(postgres) == [(latest(),)]
    played(lambda: opened(postgres))
    assert tables(postgres) == made


def test_a_store_is_migrated_while_a_process_of_an_earlier_version_commits(postgres: PostgresTwin) -> None:
    make_old(postgres, latest() - 1)

    async def story() -> None:
        async with await psycopg.AsyncConnection.connect(postgres.url) as old:
            await old.execute("SELECT FROM sideband.session WHERE session_id = 'plain' FOR UPDATE")
            opening = asyncio.create_task(opened(postgres))
            await asyncio.to_thread(postgres.is_waited_for)
            await old.execute("SELECT FROM sideband.journal WHERE session_id = 'plain'")
            await old.commit()
            await opening

    played(story)
    assert version_of(postgres) == [(latest(),)]


@pytest.mark.parametrize("version", range(1, latest()))
def test_a_store_of_every_earlier_version_is_brought_forward_with_all_it_has(
    postgres: PostgresTwin, version: int
) -> None:
    for statement in ("CREATE SCHEMA sideband", "CREATE TABLE sideband.version (version integer NOT NULL)"):
        postgres.execute(statement)
    postgres.execute("INSERT INTO sideband.version VALUES (%s)", version)
    for migration in migrations()[:version]:
        postgres.execute(migration)
    postgres.execute("UPDATE sideband.counter SET last = 1")
    postgres.execute("INSERT INTO sideband.session (session_id) VALUES ('s')")
    values = "s", STARTED.word, row_sum("s", STARTED.body), STARTED.body
    postgres.execute("INSERT INTO sideband.journal VALUES (1, %s, %s, %s, %s)", *values)

    async def story() -> None:
        async with postgres.open() as store:
            await store.open("s")
            assert store.state("s").running
            await store.acquire("s", "me")
            assert await written_at(store, "s", a_start) == 2
            assert await store.prune("s") == 1

    played(story)
    assert version_of(postgres) == [(latest(),)]
    forward = tables(postgres)
    postgres.execute("DROP SCHEMA sideband CASCADE")
    played(lambda: opened(postgres))
    assert tables(postgres) == forward


def test_an_empty_schema_of_that_name_is_taken(postgres: PostgresTwin) -> None:
    postgres.execute("CREATE SCHEMA sideband")
    played(lambda: opened(postgres))
    assert version_of(postgres) == [(latest(),)]


def test_several_processes_may_open_a_new_store_at_once(postgres: PostgresTwin) -> None:
    async def story() -> None:
        await asyncio.gather(*(opened(postgres) for _ in range(4)))

    played(story)
    assert version_of(postgres) == [(latest(),)]


# Refusing.


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
def test_a_newer_store_is_refused_and_left_alone(postgres: PostgresTwin) -> None:
    played(lambda: opened(postgres))
    postgres.execute("UPDATE sideband.version SET version = %s", latest() + 1)
    with pytest.raises(StoreNewer, match=f"version {latest() + 1} of its tables.*upgrade sideband"):
        played(lambda: opened(postgres))
    assert version_of(postgres) == [(latest() + 1,)]


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused")
def test_a_store_that_becomes_newer_while_it_is_open_is_not_written_to(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await store.commit("s", a_start)
            postgres.execute("UPDATE sideband.version SET version = %s", latest() + 1)
            with pytest.raises(StoreNewer):
                await store.commit("s", a_start)
            assert len(await told(store)) == 1
            postgres.execute("UPDATE sideband.version SET version = %s", latest())
            assert await written_at(store, "s", a_start) == 2

    played(story)


@pytest.mark.requirement("store:open:damaged-or-newer-is-refused", "store:durable:torn-tail-is-detected")
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        pytest.param(
            "DELETE FROM sideband.journal WHERE sequence = 3", "counter says 3.* is 2", id="its-end-is-missing"
        ),
        pytest.param("TRUNCATE sideband.journal", "counter says 3.* is 0", id="its-journal-is-empty"),
        pytest.param("UPDATE sideband.counter SET last = 1", "counter says 1.* is 3", id="its-counter-went-back"),
        pytest.param("DELETE FROM sideband.counter", "counter says None", id="its-counter-is-missing"),
        pytest.param("DELETE FROM sideband.version", "version of its tables is missing", id="its-version-is-missing"),
    ],
)
def test_a_damaged_store_is_refused_and_never_begun_anew(postgres: PostgresTwin, harm: str, said: str) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            for _ in range(3):
                await store.commit("s", a_start)
        postgres.execute(harm)
        with pytest.raises(StoreDamaged, match=f"(?s){said}.*restore the database from a backup"):
            await opened(postgres)

    played(story)


@pytest.mark.parametrize(
    ("harm", "values", "session_id"),
    [
        pytest.param("UPDATE sideband.journal SET body = body || 'x' WHERE sequence = 1", (), "a", id="an-event"),
        pytest.param("UPDATE sideband.journal SET session_id = 'b' WHERE sequence = 1", (), "b", id="whose-it-is"),
        pytest.param(
            "UPDATE sideband.journal SET body = '{}', checksum = %s WHERE sequence = 1",
            (row_sum("a", b"{}"),),
            "a",
            id="all-of-it",
        ),
    ],
)
def test_a_row_that_was_changed_is_told_from_one_that_was_written(
    postgres: PostgresTwin, harm: str, values: Sequence[object], session_id: str
) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await store.commit("a", a_start)
            await store.commit("c", a_start)
        postgres.execute(harm, *values)
        async with postgres.open() as store:
            outcomes = await asyncio.gather(
                store.open(session_id),
                store.commit(session_id, a_start),
                store.commit("c", a_start),
                told(store),
                store.prune(session_id),
                return_exceptions=True,
            )
            assert [isinstance(outcome, StoreDamaged) for outcome in outcomes] == [True, True, False, True, True]
            assert "row 1 of the journal" in str(outcomes[0])

    played(story)


def test_a_schema_of_another_program_is_left_alone(postgres: PostgresTwin) -> None:
    postgres.execute("CREATE SCHEMA sideband")
    postgres.execute("CREATE TABLE sideband.invoices (id integer)")
    with pytest.raises(StoreRefused, match="not a store of Sideband"):
        played(lambda: opened(postgres))
    assert [row for row in tables(postgres) if row] == [("invoices", "id", "integer", None, "YES")]


@pytest.mark.parametrize(
    ("url", "error"),
    [
        pytest.param("postgresql://me:secret@/x?host=/nowhere", StoreUnavailable, id="no-server"),
        pytest.param("postgresql://me:secret@host/x?colour=red", StoreRefused, id="not-an-address"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused_without_a_word_about_the_password(
    url: str, error: type[Exception]
) -> None:
    with pytest.raises(error) as refused:
        played(lambda: open_postgres(url))
    assert "secret" not in str(refused.value)


def test_a_database_that_cannot_hold_every_text_is_refused(postgres: PostgresTwin) -> None:
    name = f"{postgres.name}_ascii"
    postgres.server.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0")
    try:
        with pytest.raises(StoreRefused, match="created with ENCODING 'UTF8'"):
            played(lambda: open_postgres(postgres.server.url(name)))
    finally:
        postgres.server.execute(f"DROP DATABASE {name} WITH (FORCE)")


# Names and settings.


@pytest.mark.parametrize("name", ["a\x00b", "\ud800", "x" * (LONGEST_NAME + 1)], ids=["nul", "surrogate", "too-long"])
def test_a_name_that_the_server_cannot_hold_is_refused_before_it_holds_others_up(
    postgres: PostgresTwin, name: str
) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            asked = [store.open(name), store.commit(name, a_start), store.acquire(name, "me"), store.prune(name)]
            outcomes = await asyncio.gather(*asked, store.commit("s", a_start), return_exceptions=True)
            assert [isinstance(outcome, NotStorable) for outcome in outcomes] == [True] * 4 + [False]

    played(story)


@pytest.mark.parametrize("name", ["", "ü", "x" * LONGEST_NAME, "'; DROP SCHEMA sideband; --", "100% {a}"])
def test_any_other_name_will_do(postgres: PostgresTwin, name: str) -> None:
    async def story() -> None:
        async with postgres.open() as store, postgres.open() as other:
            await other.open(name)
            woken = other.wake(name)
            lease = await store.acquire(name, name)
            await store.commit(name, a_start, lease=lease)
            await woken.wait()
            assert other.state(name).running
            assert [entry.session_id for entry in await told(other, session_id=name)] == [name]

    played(story)


def test_a_commit_waits_for_the_disk_also_where_the_database_would_not(postgres: PostgresTwin) -> None:
    postgres.server.execute(f"ALTER DATABASE {postgres.name} SET synchronous_commit = off")

    async def story() -> None:
        async with postgres.open() as store:
            seen = await store._writing.run(lambda connection: connection.execute("SHOW synchronous_commit"))
            assert await seen.fetchone() == ("on",)

    try:
        played(story)
    finally:
        postgres.server.execute(f"ALTER DATABASE {postgres.name} RESET ALL")


def test_nothing_can_be_asked_of_a_store_that_is_closed(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            lease = await store.acquire("s", "me")
        await store.close()
        asked = [
            store.open("s"),
            store.commit("s", a_start),
            store.acquire("s", "me"),
            store.renew(lease),
            store.release(lease),
            store.prune("s"),
            told(store),
            anext(store.subscribe()),
        ]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreClosed] * len(asked)

    played(story)


# By its address.


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_program_opens_it_by_its_address(postgres: PostgresTwin, scheme: str) -> None:
    url = postgres.url.replace("postgresql://", f"{scheme}://")

    async def story() -> None:
        async with open_store(url) as store:
            accepted = await (await store.session("s")).remind("The build is red.", dedupe_key="build")
        async with open_store(url) as store:
            session = await store.session("s")
            assert [item.reminder.id for item in await session.pending()] == [accepted.reminder_id]
            assert (await session.remind("The build is green.", dedupe_key="build")).deduped_count == 1

    played(story)


def test_without_the_extra_one_sentence_says_what_to_install() -> None:
    answer = run_python(
        "-c",
        "import asyncio, sys; sys.modules['psycopg'] = None; import sideband; "
        "asyncio.run(sideband.open_store('postgresql://nowhere/x').session())",
    )
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1].endswith(
        "a PostgreSQL store needs psycopg, which is not installed: pip install 'sideband[postgres]'"
    )
