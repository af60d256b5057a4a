"""The tables of a PostgreSQL store: made, brought forward, and never opened where something is wrong with them."""

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Final

from psycopg import errors

from sideband.core.failures import StoreDamaged, StoreNewer, StoreRefused
from sideband.store.postgres.link import Connection

# Before this one there was no way to have a part of a statement done first, and once.
OLDEST_SERVER: Final = 120_000
# Any number will do, as long as it is the same in every process: two that open a new store at once take turns.
_TURN: Final = 0x53424E44
# A process that was gone for so long does not come back and ask what became of its last transaction.
FORGOTTEN_DAYS: Final = 30


@cache
def migrations() -> Sequence[str]:
    """What leads from each version to the next, beginning with nothing."""
    folder = resources.files("sideband.store.postgres").joinpath("sql")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return tuple(file.read_text(encoding="utf-8") for file in files)


def latest() -> int:
    return len(migrations())


def refuse_newer(version: int, place: str) -> None:
    """Tables that are not known here are left alone."""
    if version > latest():
        raise StoreNewer(
            f"{place} was written by a newer Sideband (version {version} of its tables, this one knows {latest()}); "
            "upgrade sideband, or open another database"
        )


def damaged(place: str, detail: object) -> StoreDamaged:
    return StoreDamaged(f"{place} is damaged ({detail}); restore the database from a backup")


async def prepare(connection: Connection, place: str) -> None:
    """Have the newest tables, made where there are none, and see that they are sound."""
    if connection.info.parameter_status("server_encoding") != "UTF8":
        raise StoreRefused(f"{place} cannot hold every text; use a database that was created with ENCODING 'UTF8'")
    if connection.info.server_version < OLDEST_SERVER:
        raise StoreRefused(f"{place} is too old; a store needs PostgreSQL {OLDEST_SERVER // 10_000} or newer")
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_TURN,))
            version = await _version(connection, place)
            refuse_newer(version, place)
            await migrate(connection, version)
        await _check(connection, place)
    except errors.InsufficientPrivilege as error:
        who = connection.info.user
        raise StoreRefused(
            f"{who} may not do in {place} what a store needs ({error.diag.message_primary}); let somebody who may say "
            f'CREATE SCHEMA sideband AUTHORIZATION "{who}", or open it as the owner of that schema'
        ) from error
    await connection.execute(
        "DELETE FROM sideband.writer WHERE written_at < clock_timestamp() - make_interval(days => %s)",
        (FORGOTTEN_DAYS,),
    )


async def migrate(connection: Connection, version: int) -> None:
    """Bring tables of this version forward; in a transaction, so all or nothing."""
    if version == latest():
        return
    if version == 0:
        await _make_schema(connection)
        await connection.execute("CREATE TABLE sideband.version (version integer NOT NULL)")
        await connection.execute("INSERT INTO sideband.version VALUES (0)")
    for script in migrations()[version:]:
        await connection.execute(script.encode())
    await connection.execute("UPDATE sideband.version SET version = %s", (latest(),))


async def _make_schema(connection: Connection) -> None:
    """Where somebody has made it already, nothing is asked: who may not make one would be refused all the same."""
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
    """The counter and the journal agree: neither was restored, or emptied, without the other."""
    found = await connection.execute(
        "SELECT (SELECT last FROM sideband.counter), (SELECT coalesce(max(sequence), 0) FROM sideband.journal)"
    )
    counted, last = await found.fetchone() or (None, None)
    if counted is None or counted != last:
        raise damaged(place, f"its counter says {counted}, and the last row of the journal is {last}")
