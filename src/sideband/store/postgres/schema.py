"""The schema of a PostgreSQL store, and the checks made before a database is used."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final

from psycopg import errors

from sideband.core.errors import StoreDamaged, StoreNewer, StoreRefused
from sideband.store.postgres import backfill
from sideband.store.postgres.connection import Connection, Link, pooled

# The first version with MATERIALIZED common table expressions.
OLDEST_SERVER: Final = 120_000
# The advisory lock by which processes that open a new store at once take turns.
_TURN: Final = 0x53424E44
# After so long, a process will not ask any more whether its last transaction was committed.
FORGOTTEN_DAYS: Final = 30


# Commits use these tables in this order. A migration that locked the journal first would deadlock with the processes of an
# earlier version that are still running.
_LOCK: Final = "LOCK TABLE sideband.session, sideband.journal IN ACCESS EXCLUSIVE MODE"


# What is done after the script that leads to a version.
_BACKFILLS: Final[Mapping[int, Callable[[Connection], Awaitable[None]]]] = MappingProxyType({4: backfill.fill})


@cache
def migrations() -> Sequence[str]:
    """The SQL scripts that lead from each version to the next, starting with an empty schema."""
    folder = resources.files("sideband.store.postgres").joinpath("sql")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return tuple(file.read_text(encoding="utf-8") for file in files)


def latest() -> int:
    return len(migrations())


def refuse_newer(version: int, place: str) -> None:
    """Refuse a schema that this version does not know."""
    if version > latest():
        raise StoreNewer(
            f"{place} was written by a newer Sideband (version {version} of its tables, this one knows {latest()}); "
            "upgrade sideband, or open another database"
        )


def damaged(place: str, detail: object) -> StoreDamaged:
    return StoreDamaged(f"{place} is damaged ({detail}); restore the database from a backup")


async def prepare(connection: Connection, place: str) -> None:
    """Create or migrate the tables, and check them."""
    if connection.info.parameter_status("server_encoding") != "UTF8":
        raise StoreRefused(f"{place} cannot hold every text; use a database that was created with ENCODING 'UTF8'")
    if connection.info.server_version < OLDEST_SERVER:
        raise StoreRefused(f"{place} is too old; a store needs PostgreSQL {OLDEST_SERVER // 10_000} or newer")
    try:
        async with connection.transaction():
            # A migration by another process may take longer than a lock may take otherwise.
            await connection.execute("SET LOCAL lock_timeout = 0")
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_TURN,))
            version = await _version(connection, place)
            refuse_newer(version, place)
            await migrate(connection, version)
        await _check(connection, place)
    except errors.InsufficientPrivilege as error:
        who = connection.info.user
        raise StoreRefused(
            f"the role {who} lacks a permission in {place} ({error.diag.message_primary}); have an administrator run "
            f'CREATE SCHEMA sideband AUTHORIZATION "{who}", or open the store as the owner of that schema'
        ) from error
    await connection.execute(
        "DELETE FROM sideband.writer WHERE written_at < clock_timestamp() - make_interval(days => %s)",
        (FORGOTTEN_DAYS,),
    )


async def migrate(connection: Connection, version: int) -> None:
    """Migrate tables of this version; call it inside a transaction."""
    if version == latest():
        return
    if version == 0:
        await _make_schema(connection)
        await connection.execute("CREATE TABLE sideband.version (version integer NOT NULL)")
        await connection.execute("INSERT INTO sideband.version VALUES (0)")
    else:
        await connection.execute(_LOCK)
    for reached, script in enumerate(migrations()[version:], start=version + 1):
        await connection.execute(script.encode())
        if reached in _BACKFILLS:
            await _BACKFILLS[reached](connection)
    await connection.execute("UPDATE sideband.version SET version = %s", (latest(),))


async def _make_schema(connection: Connection) -> None:
    """Create the schema unless it exists: IF NOT EXISTS would be refused to a role that may not create schemas."""
    ((is_there,),) = await (await connection.execute("SELECT to_regnamespace('sideband') IS NOT NULL")).fetchall()
    if not is_there:
        await connection.execute("CREATE SCHEMA sideband")


async def _version(connection: Connection, place: str) -> int:
    found = await connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE relname = 'version') FROM pg_class "
        "WHERE relnamespace = to_regnamespace('sideband')"
    )
    tables, versions = await found.fetchone() or (0, 0)
    if not tables:
        return 0
    if not versions:
        raise StoreRefused(f"{place} has a schema 'sideband' that is not a store of Sideband; open another database")
    row = await (await connection.execute("SELECT version FROM sideband.version")).fetchone()
    if row is None:
        raise damaged(place, "the version of its tables is missing")
    version: int = row[0]
    return version


async def _check(connection: Connection, place: str) -> None:
    """Check that counter and journal agree: neither was restored or emptied without the other."""
    found = await connection.execute(
        "SELECT (SELECT last FROM sideband.counter), (SELECT coalesce(max(sequence), 0) FROM sideband.journal)"
    )
    counted, last = await found.fetchone() or (None, None)
    if counted is None or counted != last:
        raise damaged(place, f"its counter says {counted}, and the last row of the journal is {last}")


# Several tries, because other clients may take the connection that would reveal the pooler.
TRIES: Final = 8


async def refuse_pooler(one: Link, other: Link) -> None:
    """Refuse a pooler in transaction mode, on which neither LISTEN nor prepared statements work.

    Its sign is that one connection changes its server process, or that two open connections share one.
    """
    if not await one.at_once(_is_pooled):
        return
    pairs = [(await one.at_once(_backend), await other.at_once(_backend)) for _ in range(TRIES)]
    mine, theirs = zip(*pairs, strict=True)
    if len({*mine}) > 1 or len({*theirs}) > 1 or mine[0] == theirs[0]:
        raise pooled(one.address.shown)


async def _is_pooled(connection: Connection) -> bool:
    """Whether the process id that was sent at the start of the connection is not that of the server."""
    return await _backend(connection) != connection.info.backend_pid


async def _backend(connection: Connection) -> int:
    ((backend,),) = await (await connection.execute("SELECT pg_backend_pid()")).fetchall()
    return int(backend)
