"""Read-only inspection of a store: nothing is created, migrated or written.

A damaged store can be inspected, too: each row is returned as it is, with the result of its checksum.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from sideband.core import snapshot
from sideband.core.apply import fold
from sideband.core.errors import StoreError, shown
from sideband.core.events import Event
from sideband.core.inbox import Receipt, receipt_in
from sideband.core.snapshot import UnknownSnapshot
from sideband.core.state import SessionState
from sideband.store.codec import WORDS, decode_event, decode_receipt, encode_records, indexed
from sideband.store.replica import MISFITS
from sideband.store.tables import UNLISTED, Existence


class LeaseRow(NamedTuple):
    """The last lease of a session; `expires_at` is in milliseconds since the epoch.

    `is_orphaned`: the process of the holder has died, whether the lease has expired or not.
    """

    holder: str
    token: int
    expires_at: int
    has_lapsed: bool
    is_orphaned: bool = False

    @property
    def is_good(self) -> bool:
        return not (self.has_lapsed or self.is_orphaned)


class StoredSession(NamedTuple):
    """What the store holds of one session; `snapshot_at` is 0 without a snapshot, `lease` None without a lease.

    `begun` is the sequence of its first event in the list of sessions, and `begun_at` the time of that event; both are 0
    if the session is not listed, because it has no event or was deleted.
    """

    session_id: str
    begun: int = 0
    begun_at: int = 0
    events: int = 0
    last: int = 0
    last_word: str = ""
    snapshot_at: int = 0
    pruned_through: int = 0
    lease: LeaseRow | None = None


class JournalEntry(NamedTuple):
    """A row of the journal; `is_whole` says whether its checksum is right."""

    sequence: int
    word: str
    body: bytes
    is_whole: bool
    time: int = 0


class KeptRecords(NamedTuple):
    """The named records of a session as JSON, and those by which the session can be looked up."""

    body: str
    keys: Mapping[str, str]


class KeptReceipt(NamedTuple):
    """A receipt; `is_whole` says whether its checksum is right."""

    body: bytes
    is_whole: bool


class KeptSnapshot(NamedTuple):
    """A snapshot: the state of its session at a sequence."""

    sequence: int
    body: bytes
    is_whole: bool


class Missing(NamedTuple):
    """A range of sequences without rows, both ends included."""

    first: int
    last: int


class Inspector(Protocol):
    """A consistent, read-only view of a store."""

    @property
    def place(self) -> str:
        """The name of the store in errors and reports, without a password."""

    def facts(self) -> Mapping[str, int | str]:
        """Size, version and counts, by their names."""

    def faults(self) -> Iterable[str]:
        """Damage of the file or the tables, apart from the content of the sessions."""

    def missing(self) -> Sequence[Missing]:
        """The gaps of the journal that pruning does not explain."""

    def sessions(self) -> Sequence[StoredSession]:
        """All sessions, sorted by name."""

    def kept(self, session_id: str) -> KeptSnapshot | None:
        """The snapshot of a session; None if there is none."""

    def entries(self, session_id: str, *, after: int = 0) -> Iterator[JournalEntry]:
        """The rows of a session after a sequence."""

    def records(self, session_id: str) -> KeptRecords:
        """Its named records."""

    def receipts(self, session_id: str) -> Mapping[str, KeptReceipt]:
        """The rows of its receipts, by the ids that the callers chose."""

    def close(self) -> None: ...


class UnreadableSession(Exception):
    """A row or snapshot of a session was changed, or does not fit the others; the message says which."""


class Verdict(NamedTuple):
    """The result of rebuilding a session, from its first event or, if that was pruned, from its snapshot."""

    stored: StoredSession
    from_start: bool
    faults: tuple[str, ...]


def verify(store: Inspector, stored: StoredSession) -> Verdict:
    """Fold the whole journal of a session, and compare it with what a process would load: snapshot and tail."""
    from_start = not stored.pruned_through
    try:
        faults = tuple(_differences(store, stored, from_start=from_start))
    except (UnreadableSession, StoreError) as error:
        faults = (str(error),)
    return Verdict(stored, from_start, faults)


def restored(store: Inspector, stored: StoredSession) -> SessionState:
    """The state that a process would load."""
    kept = store.kept(stored.session_id)
    state = SessionState() if kept is None else _decoded(kept)
    for entry in store.entries(stored.session_id, after=stored.snapshot_at):
        _add(state, entry)
    return state


class Replay:
    """Replays a session from its first event or, if that was pruned, from its snapshot.

    Each event is yielded before it is applied to `state`.
    """

    def __init__(self, store: Inspector, stored: StoredSession) -> None:
        kept = store.kept(stored.session_id) if stored.pruned_through else None
        self.state = SessionState() if kept is None else _decoded(kept)
        self._entries = store.entries(stored.session_id, after=0 if kept is None else kept.sequence)

    def __iter__(self) -> Iterator[Event]:
        for entry in self._entries:
            event = _event(entry)
            yield event
            _change(self.state, entry, event)


def _differences(store: Inspector, stored: StoredSession, *, from_start: bool) -> Iterator[str]:
    kept = store.kept(stored.session_id)
    if not from_start and (kept is None or kept.sequence < stored.pruned_through):
        yield f"its journal was pruned through {stored.pruned_through}, and no snapshot covers the deleted rows"
        return
    states = [(SessionState(), 0)] if from_start else []
    if kept is not None:
        states.append((_decoded(kept), kept.sequence))
    tables = _ExpectedTables()
    for entry in store.entries(stored.session_id):
        event = _event(entry)
        for state, after in states:
            if entry.sequence > after:
                _change(state, entry, event)
        tables.add(entry, event)
    # If the journal was pruned, snapshot and tail are all there is, and there is nothing to compare them with.
    known = [_known(state) for state, _ in states]
    for other in known[1:]:
        if wrong := [name for name, value in other.items() if value != known[0][name]]:
            yield f"its snapshot at {stored.snapshot_at} is not what its journal says: {', '.join(wrong)} differ"
    if stored.session_id not in UNLISTED:
        state = states[0][0] if states else SessionState()
        yield from tables.differences(store, stored, state, from_start=from_start)


class _ExpectedTables:
    """What the rows of a journal say about the other tables."""

    def __init__(self) -> None:
        self._existence = Existence()
        self._begun = self._begun_at = 0
        self._receipts: dict[str, Receipt] = {}

    def add(self, entry: JournalEntry, event: Event) -> None:
        if self._existence.follow(event):
            self._begun, self._begun_at = entry.sequence, entry.time
        if not self._existence.exists:
            self._begun = self._begun_at = 0
            self._receipts = {}
        elif (found := receipt_in(event)) is not None:
            self._receipts[found[0]] = found[1]

    def differences(
        self, store: Inspector, stored: StoredSession, state: SessionState, *, from_start: bool
    ) -> Iterator[str]:
        """The rows of the session that are not as expected; the first events and receipts of a pruned one are unknown."""
        if state.exists and not stored.begun:
            yield "it is not in the list of sessions"
            return
        if stored.begun and not state.exists:
            yield "it is in the list of sessions without an event"
        elif from_start and (stored.begun, stored.begun_at) != (self._begun, self._begun_at):
            yield (
                f"the list of sessions says that it was begun with row {stored.begun} at {stored.begun_at} ms, "
                f"and its first row is {self._begun} at {self._begun_at} ms"
            )
        yield from self._wrong_records(store.records(stored.session_id), state.records if state.exists else {})
        yield from self._wrong_receipts(store.receipts(stored.session_id), from_start=from_start)

    def _wrong_records(self, kept: KeptRecords, expected: Mapping[str, Any]) -> Iterator[str]:
        if kept.body != encode_records(expected):
            yield f"its records are not what its journal says: {shown(kept.body)}"
        keys = {name: key for name, value in expected.items() if (key := indexed(value)) is not None}
        if wrong := sorted(name for name in {*kept.keys, *keys} if kept.keys.get(name) != keys.get(name)):
            yield f"it is looked up by other records than it has: {', '.join(map(shown, wrong))} differ"

    def _wrong_receipts(self, kept: Mapping[str, KeptReceipt], *, from_start: bool) -> Iterator[str]:
        for caller_id, receipt in kept.items():
            if not receipt.is_whole:
                yield f"its receipt {shown(caller_id)} was changed"
            elif caller_id not in self._receipts and from_start:
                yield f"its receipt {shown(caller_id)} is of no row of its journal"
        for caller_id, expected in self._receipts.items():
            found = kept.get(caller_id)
            if found is None:
                yield f"its receipt {shown(caller_id)} is missing"
            elif found.is_whole and decode_receipt(found.body) != expected:
                yield f"its receipt {shown(caller_id)} is not what its journal says"


def _decoded(kept: KeptSnapshot) -> SessionState:
    if not kept.is_whole:
        raise UnreadableSession(f"its snapshot at {kept.sequence} was changed")
    try:
        return snapshot.decode(kept.body)
    except UnknownSnapshot as error:
        raise UnreadableSession(f"its snapshot at {kept.sequence} cannot be read: {error}") from error


def _add(state: SessionState, entry: JournalEntry) -> None:
    _change(state, entry, _event(entry))


def _change(state: SessionState, entry: JournalEntry, event: Event) -> None:
    try:
        fold((event,), state)
    except MISFITS as error:
        raise UnreadableSession(
            f"row {entry.sequence} ({entry.word}) does not fit what was before it: {type(error).__name__}: {error}"
        ) from error


def _event(entry: JournalEntry) -> Event:
    if not entry.is_whole:
        raise UnreadableSession(f"row {entry.sequence} was changed")
    try:
        event = decode_event(entry.body)
    except ValueError as error:
        raise UnreadableSession(f"row {entry.sequence} is not an event: {error}") from error
    if WORDS[type(event)] != entry.word:
        raise UnreadableSession(f"row {entry.sequence} is listed as {entry.word} and is {WORDS[type(event)]}")
    return event


def _known(state: SessionState) -> dict[str, Any]:
    """The state as plain data that can be compared."""
    known: dict[str, Any] = msgspec.json.decode(snapshot.encode(state))
    return known


def unexplained(gaps: Iterable[tuple[int, int]], *, pruned_through: int) -> list[Missing]:
    """The gaps after the last pruned sequence; pruning explains those before it."""
    start = pruned_through + 1
    return [Missing(max(first, start), last) for first, last in gaps if last >= start]


def stored_sessions(
    counted: Iterable[tuple[str, int, int, str]],
    snapshots: Mapping[str, int],
    pruned: Mapping[str, int],
    leases: Mapping[str, LeaseRow],
    begun: Mapping[str, tuple[int, int]],
) -> list[StoredSession]:
    """Every session that has rows, a snapshot, pruned rows or a lease, or is in the list."""
    logged = {
        name: StoredSession(name, events=events, last=last, last_word=word) for name, events, last, word in counted
    }
    stored = []
    for name in sorted({*logged, *snapshots, *pruned, *leases, *begun}):
        first, first_at = begun.get(name, (0, 0))
        stored.append(
            logged.get(name, StoredSession(name))._replace(
                begun=first,
                begun_at=first_at,
                snapshot_at=snapshots.get(name, 0),
                pruned_through=pruned.get(name, 0),
                lease=leases.get(name),
            )
        )
    return stored
