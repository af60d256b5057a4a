"""Stores with the tables of earlier versions, each with a few events."""

from pathlib import Path
from typing import Final

import apsw
import psycopg

from sideband.core.events import Event, Queued, QueuedReminder
from sideband.core.seams import Mode
from sideband.core.trust import IN_PROCESS
from sideband.store.codec import checksum, encode_event
from sideband.store.postgres import schema as postgres_schema
from sideband.store.postgres.reader import row_sum
from sideband.store.sqlite import schema
from tests.builders import a_reminder
from tests.faults.shared_stores import PostgresPlace, SqlitePlace

EVENTS: Final = 8


def past_events() -> list[Event]:
    return [
        Queued(
            item=QueuedReminder(
                reminder=a_reminder(f"r{n}"),
                mode=Mode.FINISH_STEP,
                provenance=IN_PROCESS,
                caller_id=f"r{n}",
                fingerprint=f"print {n}",
            )
        )
        for n in range(EVENTS)
    ]


def an_old_sqlite_store(directory: Path, version: int) -> SqlitePlace:
    place = SqlitePlace(directory)
    connection = apsw.Connection(place.address)
    connection.pragma("application_id", schema.APPLICATION_ID)
    connection.pragma("journal_mode", "wal")
    for script in schema.migrations()[:version]:
        connection.execute(script)
    for sequence, event in enumerate(past_events(), start=1):
        entry = encode_event(event)
        connection.execute(
            "INSERT INTO journal (sequence, session_id, word, checksum, body) VALUES (?, 's', ?, ?, ?)",
            (sequence, entry.word, checksum(sequence, "s", entry.body), entry.body),
        )
    connection.pragma("user_version", version)
    connection.close()
    return place


def an_old_postgres_store(directory: Path, version: int) -> PostgresPlace:
    place = PostgresPlace(directory)

    def execute(statement: str, *values: object) -> None:
        place.server.execute(statement, *values, database=place.name)

    execute("CREATE SCHEMA sideband")
    execute("CREATE TABLE sideband.version (version integer NOT NULL)")
    execute("INSERT INTO sideband.version VALUES (%s)", version)
    for script in postgres_schema.migrations()[:version]:
        execute(script)
    execute("UPDATE sideband.counter SET last = %s", EVENTS)
    execute("INSERT INTO sideband.session (session_id) VALUES ('s')")
    for sequence, event in enumerate(past_events(), start=1):
        entry = encode_event(event)
        execute(
            "INSERT INTO sideband.journal VALUES (%s, 's', %s, %s, %s)",
            sequence,
            entry.word,
            row_sum("s", entry.body),
            entry.body,
        )
    return place


# A planted fault: the rows are taken out, and put back later.
TAKEN_OUT: Final = ("BEGIN", "CREATE TABLE {0}aside AS SELECT * FROM {0}journal", "DELETE FROM {0}journal", "COMMIT")
PUT_BACK: Final = ("BEGIN", "INSERT INTO {0}journal SELECT * FROM {0}aside", "DROP TABLE {0}aside", "COMMIT")
# Long enough for a process to be killed meanwhile.
A_WHILE: Final = ("SELECT pg_sleep(0.1)",)


def move_rows(address: str, vfs: str) -> None:
    """What no migration may do: it takes more than one transaction."""
    if address.startswith("postgresql:"):
        with psycopg.connect(address, autocommit=True) as server:
            for statement in (*TAKEN_OUT, *A_WHILE, *PUT_BACK):
                server.execute(statement.format("sideband.").encode())
        return
    file = apsw.Connection(address, vfs=vfs)
    for statement in (*TAKEN_OUT, *PUT_BACK):
        file.execute(statement.format(""))
    file.close()
