"""Stores as earlier versions of Sideband left them, made from their SQL scripts and rows in their formats."""

from typing import Any, Final, NamedTuple

import apsw
import msgspec

from sideband.core import snapshot
from sideband.core.apply import fold
from sideband.core.events import (
    Event,
    Idled,
    InjectAccepted,
    InjectDelivered,
    Injected,
    Queued,
    QueuedMessage,
    QueuedReminder,
    Started,
)
from sideband.core.reminder import Draft, fingerprint
from sideband.core.seams import InjectMode, Mode
from sideband.store.codec import checksum, encode_event
from sideband.store.postgres import schema as postgres_schema
from sideband.store.sqlite import schema
from tests.builders import a_reminder
from tests.sessions import CLIENT
from tests.unit.store.twins import PostgresTwin, SqliteTwin, Twin

# The tables of these versions of the schema are those of earlier versions of Sideband.
OLD_VERSIONS: Final = (1, 2, 3)
# The first version with snapshots and pruning.
SNAPSHOTS: Final = 2

IN_JOURNAL: Final = Draft(body="The build is red.", caller_id="in-journal")
IN_SNAPSHOT: Final = Draft(body="The tests are red.", caller_id="in-snapshot")
SAID: Final = QueuedMessage(
    message_id="said", content=({"type": "text", "text": "Go on."},), mode=InjectMode.QUEUE, provenance=CLIENT
)


def queued(draft: Draft) -> Event:
    return Queued(
        item=QueuedReminder(
            reminder=a_reminder(draft.caller_id or "", body=draft.body),
            mode=Mode.FINISH_STEP,
            provenance=CLIENT,
            caller_id=draft.caller_id,
            fingerprint=fingerprint(draft),
        )
    )


class OldRow(NamedTuple):
    sequence: int
    session_id: str
    event: Event


ROWS: Final = (
    OldRow(1, "gone", Started()),
    OldRow(2, "saved", queued(IN_SNAPSHOT)),
    OldRow(3, "saved", Injected(reminder=a_reminder("in-snapshot", body=IN_SNAPSHOT.body), provenance=CLIENT)),
    OldRow(4, "plain", queued(IN_JOURNAL)),
    OldRow(5, "saved", Started()),
    OldRow(6, "plain", Started()),
    OldRow(7, "ran", InjectAccepted(item=SAID)),
    OldRow(8, "ran", Started()),
    OldRow(9, "ran", InjectDelivered(message_id=SAID.id, content=SAID.content)),
    OldRow(10, "ran", Idled()),
)
"""The journal. Where there were snapshots, "gone" was pruned completely, "saved" through row 3, and "ran" not at all."""


class OldSnapshot(NamedTuple):
    session_id: str
    sequence: int
    pruned_through: int


# The last row to go of "gone" was the last row of the store once, which stays; so row 4, of another session, is the limit.
TAKEN: Final = (
    OldSnapshot("gone", 5, 4),
    OldSnapshot("saved", 4, 3),
    OldSnapshot("blank", 4, 0),
    OldSnapshot("ran", 9, 0),
)


def old_snapshot(taken: OldSnapshot) -> bytes:
    """The state of a session as earlier versions wrote it.

    It has receipts and the provenance of what left the inbox, and its messages have no ids.
    """
    events = [row.event for row in ROWS if row.session_id == taken.session_id and row.sequence <= taken.sequence]
    held: dict[str, Any] = msgspec.json.decode(snapshot.encode(fold(events)))
    for name in ("exists", "deleted", "records", "closing", "closed_reason", "prompt", "hold_queue"):
        del held[name]
    for message in held["messages"]:
        del message["id"]
    held["closed"] = False
    inbox = held["inbox"]
    provenance = msgspec.to_builtins(CLIENT)
    inbox["tombstones"] = [[*tombstone[:3], provenance] for tombstone in inbox["tombstones"]]
    inbox["receipts"] = {
        event.item.caller_id: [CLIENT.sender, event.item.fingerprint, event.item.id, 0, {}, {}]
        for event in events
        if isinstance(event, Queued)
    }
    return msgspec.json.encode(held)


def make_old(twin: Twin, version: int, *, rows: bool = True) -> None:
    """Make a store with the tables of a version, with or without rows."""
    if isinstance(twin, PostgresTwin):
        _make_postgres(twin, version, rows=rows)
    elif isinstance(twin, SqliteTwin):
        _make_sqlite(twin, version, rows=rows)


def _kept(version: int) -> list[OldRow]:
    if version < SNAPSHOTS:
        return [*ROWS]
    through = {taken.session_id: taken.pruned_through for taken in TAKEN}
    return [row for row in ROWS if row.sequence > through.get(row.session_id, 0)]


def _make_sqlite(twin: SqliteTwin, version: int, *, rows: bool) -> None:
    connection = apsw.Connection(str(twin.path))
    connection.pragma("application_id", schema.APPLICATION_ID)
    connection.pragma("journal_mode", "wal")
    for script in schema.migrations()[:version]:
        connection.execute(script)
    for sequence, session_id, event in _kept(version) if rows else ():
        entry = encode_event(event)
        connection.execute(
            "INSERT INTO journal VALUES (?, ?, ?, ?, ?)",
            (sequence, session_id, entry.word, checksum(sequence, session_id, entry.body), entry.body),
        )
    for taken in TAKEN if rows and version >= SNAPSHOTS else ():
        body = old_snapshot(taken)
        total = checksum(taken.sequence, taken.session_id, body)
        connection.execute("INSERT INTO snapshot VALUES (?, ?, ?, ?, ?)", (*taken, total, body))
    connection.pragma("user_version", version)
    connection.close()


def _make_postgres(twin: PostgresTwin, version: int, *, rows: bool) -> None:
    twin.execute("CREATE SCHEMA sideband")
    twin.execute("CREATE TABLE sideband.version (version integer NOT NULL)")
    twin.execute("INSERT INTO sideband.version VALUES (%s)", version)
    for script in postgres_schema.migrations()[:version]:
        twin.execute(script)
    if not rows:
        return
    twin.execute("UPDATE sideband.counter SET last = %s", ROWS[-1].sequence)
    for session_id in ("gone", "saved", "plain", "ran", "leased"):
        twin.execute("INSERT INTO sideband.session (session_id) VALUES (%s)", session_id)
    for sequence, session_id, event in _kept(version):
        entry = encode_event(event)
        twin.execute(
            "INSERT INTO sideband.journal VALUES (%s, %s, %s, %s, %s)",
            *(sequence, session_id, entry.word, checksum(0, session_id, entry.body), entry.body),
        )
    for taken in TAKEN if version >= SNAPSHOTS else ():
        body = old_snapshot(taken)
        total = checksum(taken.sequence, taken.session_id, body)
        twin.execute(
            "INSERT INTO sideband.snapshot VALUES (%s, %s, %s, %s)", taken.session_id, taken.sequence, total, body
        )
        twin.execute(
            "UPDATE sideband.session SET pruned_through = %s WHERE session_id = %s",
            *(taken.pruned_through, taken.session_id),
        )
