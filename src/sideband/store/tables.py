"""The tables besides the journal: the list of sessions, their named records, and their receipts.

All of them follow from the events, and a store writes them in the same transaction. They answer what the state of one
session cannot: which sessions there are, which of them have a certain record, and how a request was answered that
is older than the snapshot.
"""

from typing import Any, Final

import msgspec

from sideband.core.events import Begun, Deleted, Event, Queued, Recorded
from sideband.core.inbox import Receipt, receipt_in
from sideband.ports import FACTS_SESSION, SessionEntry
from sideband.store.codec import indexed

TABLED: Final = frozenset({Begun, Recorded, Deleted, Queued})
"""The kinds of events that change these tables. The first event of a session does so, too, whatever its kind is."""


UNLISTED: Final = frozenset({FACTS_SESSION})
"""Sessions without rows in these tables. The list has all records of a session in one row, and would be rewritten for
every fact."""


class Existence:
    """Whether a session exists, from event to event; after its deletion only `Begun` begins it again."""

    def __init__(self, *, exists: bool = False, deleted: bool = False) -> None:
        self.exists = exists
        self._deleted = deleted

    def follow(self, event: Event) -> bool:
        """Take in an event; return whether the session begins with it."""
        if isinstance(event, Deleted):
            self.exists, self._deleted = False, True
        elif not self.exists and (isinstance(event, Begun) or not self._deleted):
            self.exists, self._deleted = True, False
            return True
        return False


class SessionChanges:
    """What a batch changes in the rows of one session.

    If it `empties` them, everything that was there before is deleted first. `begun` is the sequence of the first event of
    the session (0: the session is listed already, or is not listed afterwards). `keys` are the records that changed, by
    which the session can be looked up (None: it cannot), and `records` is the JSON of all its records (None: no change).
    """

    def __init__(self) -> None:
        self.empties = False
        self.begun = 0
        self.keys: dict[str, str | None] = {}
        self.records: str | None = None
        self.receipts: dict[str, Receipt] = {}

    def add(self, event: Event, existence: Existence, *, begun: int) -> None:
        """Add an event, which `existence` has taken in; `begun` is its sequence if the session begins with it, else 0."""
        if begun:
            self.begun = begun
        if isinstance(event, Deleted):
            self.empties, self.begun = True, 0
            self.keys, self.records, self.receipts = {}, None, {}
        if not existence.exists:
            return
        match event:
            case Begun(attributes=attributes):
                self.keys.update({name: indexed(value) for name, value in attributes.items()})
            case Recorded(name=name, value=value):
                self.keys[name] = indexed(value)
            case _:
                if (found := receipt_in(event)) is not None:
                    self.receipts[found[0]] = found[1]


class EntryRow(msgspec.Struct, frozen=True, array_like=True):
    """A row of the list as a database returns it; `records` is a JSON object."""

    session_id: str
    begun: int
    begun_at: int
    changed_at: int
    records: str


def read_entry(row: object) -> SessionEntry:
    """Decode a row of the list; `ValueError` if it was changed."""
    read = msgspec.convert(row, EntryRow)
    return SessionEntry(
        session_id=read.session_id,
        begun=read.begun,
        begun_at=read.begun_at,
        changed_at=read.changed_at,
        records=_RECORDS.decode(read.records),
    )


_RECORDS: Final = msgspec.json.Decoder(dict[str, Any])
