"""The schema of a SQLite store, and the checks made before a file is used.

None of the checks depends on how much the file holds: it is complete, has its tables and indexes, and no acknowledged
commit is torn. Rows and snapshots are checked when they are read, and the whole file by `sideband doctor --verify`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Final

import apsw

from sideband.core.errors import StoreDamaged, StoreError, StoreNewer, StoreRefused, StoreUnavailable
from sideband.store.sqlite import backfill, file
from sideband.store.sqlite.wal import has_torn_commit, logged_pages

# "SBND" in the header of the file marks it as a store.
APPLICATION_ID: Final = 0x53424E44
_LOCKED_BYTE: Final = 0x4000_0000
_NAMES: Final = "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"
# SQLError is among them because all SQL comes from this package: if SQLite refuses it, the tables are wrong.
_DAMAGE: Final = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, UnicodeDecodeError)
# What reading a file may raise; in a damaged file, text may not be valid UTF-8.
UNREADABLE: Final = (apsw.Error, UnicodeDecodeError)


# What is done after the script that leads to a version.
_BACKFILLS: Final[Mapping[int, Callable[[apsw.Connection], None]]] = MappingProxyType({4: backfill.fill})


@cache
def migrations() -> Sequence[str]:
    """The SQL scripts that lead from each version to the next, starting with an empty file."""
    folder = resources.files("sideband.store.sqlite").joinpath("sql")
    files = sorted(
        (script for script in folder.iterdir() if script.name.endswith(".sql")), key=lambda script: script.name
    )
    return tuple(script.read_text(encoding="utf-8") for script in files)


def latest() -> int:
    return len(migrations())


def prepare(path: Path, connect: Callable[[Path], apsw.Connection]) -> apsw.Connection:
    """Check and migrate a store file, which is created if it does not exist, and return a connection to it."""
    try:
        if not path.exists():
            file.create(path, lambda draft: _fill(connect(draft)))
        file.make_private(path)
        connection = connect(path)
        try:
            _leave_log(connection, leave=True)
            _check(connection, path)
            _share(connection, path)
            migrate(connection, path)
            # Commits continue after the last row; if it cannot be found, refuse the file before anything is written.
            connection.execute("SELECT max(sequence) FROM journal").fetchall()
            _leave_log(connection, leave=False)
        except BaseException:
            connection.close(force=True)
            raise
    except (*UNREADABLE, OSError) as error:
        raise refusal(error, path) from error
    return connection


def _fill(connection: apsw.Connection) -> None:
    try:
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("journal_mode", "wal")
        with connection:
            _run_migrations(connection, 0)
    finally:
        connection.close(force=True)


def _leave_log(connection: apsw.Connection, *, leave: bool) -> None:
    """Whether closing checkpoints the log into the file; a file that is refused must stay as it is."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(leave))


def _check(connection: apsw.Connection, path: Path) -> None:
    if connection.pragma("application_id") != APPLICATION_ID:
        raise StoreRefused(f"{path} is a SQLite file, but not a store of Sideband; choose another path")
    version = connection.pragma("user_version")
    refuse_newer(version, path)
    missing = sorted(_made_by(tuple(migrations()[:version])).difference(connection.execute(_NAMES)))
    if missing:
        raise damaged(path, f"it has no {' '.join(missing[0])}")
    wal = Path(f"{path}{file.WAL}")
    if _is_cut_short(connection, path, wal):
        raise damaged(path, "it is shorter than its header says")
    if has_torn_commit(connection, wal):
        raise damaged(path, f"a commit in {wal.name} cannot be read, and later commits follow it")


def _is_cut_short(connection: apsw.Connection, path: Path, wal: Path) -> bool:
    """Whether a page is neither in the file nor in the log. SQLite checks this itself only while the log is empty."""
    page_bytes: int = connection.pragma("page_size")
    last: int = connection.pragma("page_count")
    # The size is read last: another process may restart the log meanwhile, but only once its pages are in the file.
    logged = logged_pages(connection, wal)
    complete = path.stat().st_size // page_bytes
    # SQLite never writes the page that contains the bytes it locks.
    unused = _LOCKED_BYTE // page_bytes + 1
    return any(page not in logged for page in range(complete + 1, last + 1) if page != unused)


@cache
def _made_by(scripts: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    """The type and name of every table and index that the migrations create."""
    with closing(apsw.Connection(":memory:")) as fresh:
        for script in scripts:
            fresh.execute(script)
        return frozenset(fresh.execute(_NAMES))


def _share(connection: apsw.Connection, path: Path) -> None:
    """Use a write-ahead log, without which readers and writers block each other; another program may have removed it."""
    if connection.pragma("journal_mode", "wal") != "wal":
        raise StoreRefused(f"{path} cannot be shared: there is no write-ahead log on this file system")


def refuse_newer(version: int, path: Path) -> None:
    """Refuse a file with a schema that this version does not know."""
    if version > latest():
        raise StoreNewer(
            f"{path} was written by a newer Sideband (version {version} of its tables, this one knows {latest()}); "
            "upgrade sideband, or open another file"
        )


def migrate(connection: apsw.Connection, path: Path) -> None:
    """Migrate the tables in one transaction; several processes may try at once."""
    if connection.pragma("user_version") == latest():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.pragma("user_version")
        refuse_newer(version, path)
        _run_migrations(connection, version)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _run_migrations(connection: apsw.Connection, version: int) -> None:
    """Migrate tables of this version, inside a transaction."""
    for reached, script in enumerate(migrations()[version:], start=version + 1):
        connection.execute(script)
        if reached in _BACKFILLS:
            _BACKFILLS[reached](connection)
    connection.pragma("user_version", latest())


def damaged(path: Path, detail: object) -> StoreDamaged:
    return StoreDamaged(
        f"{path} is damaged ({detail}); restore it from a backup, or move it away to begin with an empty store"
    )


def refusal(error: Exception, path: Path) -> StoreError:
    """The `StoreError` for an error of SQLite or of the disk."""
    if isinstance(error, _DAMAGE):
        return damaged(path, error)
    return StoreUnavailable(f"{path} cannot be used now: {type(error).__name__}: {error}")
