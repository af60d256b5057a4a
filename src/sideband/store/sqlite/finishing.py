"""The end of a transaction: it is made, or nothing of it is ever read."""

import contextlib
from pathlib import Path

import apsw

from sideband.core.failures import OutcomeUnknown
from sideband.store.sqlite import torn
from sideband.store.sqlite.disk import WAL


def commit(connection: apsw.Connection, path: Path) -> None:
    """Make the transaction durable.

    Where the last sync fails the whole of it stands in the log already. This process goes on as if it did not, but one
    that came after a crash would read it: something else is put in its place, before anybody is told that it was
    refused. So it is whatever the error: memory, too, may be short only after that sync.
    """
    try:
        connection.execute("COMMIT")
    except apsw.Error as error:
        roll_back(connection)
        if _may_be_read(connection, path) and not _is_overwritten(connection):
            raise OutcomeUnknown(str(path)) from error
        raise


def _may_be_read(connection: apsw.Connection, path: Path) -> bool:
    try:
        return torn.ends_in_a_commit(connection, Path(f"{path}{WAL}"))
    except (apsw.Error, OSError):
        return True


def _is_overwritten(connection: apsw.Connection) -> bool:
    """Commit something that changes nothing."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.pragma("user_version", connection.pragma("user_version"))
        connection.execute("COMMIT")
    except apsw.Error:
        roll_back(connection)
        return False
    return True


def roll_back(connection: apsw.Connection) -> None:
    """Leave no transaction open."""
    if connection.in_transaction:
        with contextlib.suppress(apsw.Error):
            connection.execute("ROLLBACK")
