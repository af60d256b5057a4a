"""Whether a store file is sound, as far as that can be seen before it is used.

A small file is gone through whole. What that takes grows with all that is in it, so of a large one only that is looked
at which every process stands on: its tables, what was written last, and the log beside it. That it is as long as it
should be SQLite sees for itself. All the rest is checked where it is read, row by row.
"""

from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final

import apsw

from sideband.store.records import is_as_written
from sideband.store.sqlite import disk
from sideband.store.sqlite.torn import has_torn_midst

# A file that is longer is not gone through whole.
WHOLE_BYTES: Final = 8 * 2**20
# So much of what was written last is looked at; a single row may be longer.
LAST_ROWS: Final = 500
LAST_BYTES: Final = 2**20
_NAMES: Final = "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"
_LAST: Final = "SELECT sequence, session_id, checksum, body FROM journal ORDER BY sequence DESC LIMIT ?"
# A row that its session does not find is as good as lost.
_IS_LISTED: Final = "SELECT 1 FROM journal INDEXED BY journal_of_session WHERE session_id = ? AND sequence = ?"


def fault(connection: apsw.Connection, path: Path, scripts: Sequence[str]) -> str | None:
    """What is wrong with a store file, whose tables these scripts have made; None where nothing was found."""
    is_small = path.stat().st_size <= WHOLE_BYTES
    found = _of_all(connection) if is_small else _of_tables(connection, tuple(scripts)) or _of_last(connection)
    if found is not None:
        return found
    wal = Path(f"{path}{disk.WAL}")
    if has_torn_midst(connection, wal):
        return f"a commit in {wal.name} cannot be read, and others stand behind it"
    return None


def _of_all(connection: apsw.Connection) -> str | None:
    report: str = connection.execute("PRAGMA integrity_check(1)").get
    return None if report == "ok" else report


def _of_tables(connection: apsw.Connection, scripts: tuple[str, ...]) -> str | None:
    missing = sorted(_made_by(scripts).difference(connection.execute(_NAMES)))
    return f"it has no {' '.join(missing[0])}" if missing else None


@cache
def _made_by(scripts: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    """The kinds and names of all that is in a new store."""
    with closing(apsw.Connection(":memory:")) as fresh:
        for script in scripts:
            fresh.execute(script)
        return frozenset(fresh.execute(_NAMES))


def _of_last(connection: apsw.Connection) -> str | None:
    """Where a disk was full, a power cut came or a copy was cut off, it is what was written last that suffers."""
    size = 0
    with connection:
        for sequence, session_id, total, body in connection.execute(_LAST, (LAST_ROWS,)):
            if not is_as_written(sequence, session_id, total, body):
                return f"row {sequence} of the journal was changed"
            if connection.execute(_IS_LISTED, (session_id, sequence)).get is None:
                return f"row {sequence} of the journal is not listed for its session"
            size += len(body)
            if size > LAST_BYTES:
                break
    return None
