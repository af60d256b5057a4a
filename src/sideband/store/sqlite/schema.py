"""The tables of a SQLite store: made, brought forward, and never opened where something is wrong with them."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

import apsw

from sideband.core.failures import StoreDamaged, StoreError, StoreNewer, StoreRefused, StoreUnavailable
from sideband.store.sqlite import disk, soundness

# "SBND" in the header of the file: it tells a store from the file of another program.
APPLICATION_ID: Final = 0x53424E44
# All that is asked of SQLite is written here: where it does not understand it, the tables are not what they should be.
_DAMAGE: Final = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, UnicodeDecodeError)
# What reading a file may raise; text is not text any longer where somebody has overwritten it.
UNREADABLE: Final = (apsw.Error, UnicodeDecodeError)


@cache
def migrations() -> Sequence[str]:
    """What leads from each version to the next, beginning with an empty file."""
    folder = resources.files("sideband.store.sqlite").joinpath("sql")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return tuple(file.read_text(encoding="utf-8") for file in files)


def latest() -> int:
    return len(migrations())


def prepare(path: Path, connect: Callable[[Path], apsw.Connection]) -> apsw.Connection:
    """A connection to a store that is sound and has the newest tables; one is made where there is none."""
    try:
        if not path.exists():
            disk.create(path, lambda draft: _fill(connect(draft)))
        disk.make_private(path)
        connection = connect(path)
        try:
            _leave_log(connection, leave=True)
            _check(connection, path)
            _share(connection, path)
            migrate(connection, path)
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
            for script in migrations():
                connection.execute(script)
            connection.pragma("user_version", latest())
    finally:
        connection.close(force=True)


def _leave_log(connection: apsw.Connection, *, leave: bool) -> None:
    """Closing a connection takes the log into the file; one that is refused stays as it was found."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(leave))


def _check(connection: apsw.Connection, path: Path) -> None:
    if connection.pragma("application_id") != APPLICATION_ID:
        raise StoreRefused(f"{path} is a SQLite file, but not a store of Sideband; choose another path")
    version = connection.pragma("user_version")
    refuse_newer(version, path)
    fault = soundness.fault(connection, path, migrations()[:version])
    if fault is not None:
        raise damaged(path, fault)


def _share(connection: apsw.Connection, path: Path) -> None:
    """Somebody may have taken its write-ahead log from it, without which readers and writers wait for each other."""
    if connection.pragma("journal_mode", "wal") != "wal":
        raise StoreRefused(f"{path} cannot be shared: there is no write-ahead log on this file system")


def refuse_newer(version: int, path: Path) -> None:
    """A file whose tables are not known here is left alone."""
    if version > latest():
        raise StoreNewer(
            f"{path} was written by a newer Sideband (version {version} of its tables, this one knows {latest()}); "
            "upgrade sideband, or open another file"
        )


def migrate(connection: apsw.Connection, path: Path) -> None:
    """Bring the tables forward, all or nothing; several processes may try."""
    if connection.pragma("user_version") == latest():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.pragma("user_version")
        refuse_newer(version, path)
        for script in migrations()[version:]:
            connection.execute(script)
        connection.pragma("user_version", latest())
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def damaged(path: Path, detail: object) -> StoreDamaged:
    return StoreDamaged(
        f"{path} is damaged ({detail}); restore it from a backup, or move it away to begin with an empty store"
    )


def refusal(error: Exception, path: Path) -> StoreError:
    """What an error of SQLite or of the disk means for whoever uses the store."""
    if isinstance(error, _DAMAGE):
        return damaged(path, error)
    return StoreUnavailable(f"{path} cannot be used now: {type(error).__name__}: {error}")
