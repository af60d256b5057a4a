"""Looking into a store without taking part in it: nothing is made, brought forward or written.

Also into one that is damaged: every row is handed out as it stands, with whether it is what was written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from sideband.core import snapshot
from sideband.core.events import Event
from sideband.core.failures import StoreError
from sideband.core.snapshot import UnknownSnapshot
from sideband.core.state import SessionState, fold
from sideband.store.records import WORDS, read
from sideband.store.replica import MISFITS


class Held(NamedTuple):
    """The last lease of a session; `expires_at` is in milliseconds since the epoch.

    `is_orphaned`: whoever holds it has surely died, whether it has lapsed or not.
    """

    holder: str
    token: int
    expires_at: int
    has_lapsed: bool
    is_orphaned: bool = False

    @property
    def is_good(self) -> bool:
        return not (self.has_lapsed or self.is_orphaned)


class Shelf(NamedTuple):
    """What is kept of one session; `snapshot_at` 0: no snapshot, `lease` None: nobody has it."""

    session_id: str
    events: int = 0
    last: int = 0
    last_word: str = ""
    snapshot_at: int = 0
    pruned_through: int = 0
    lease: Held | None = None


class Entry(NamedTuple):
    """A row of the journal; `is_whole` where its checksum is right."""

    sequence: int
    word: str
    body: bytes
    is_whole: bool


class Kept(NamedTuple):
    """A snapshot: all of its session up to a sequence."""

    sequence: int
    body: bytes
    is_whole: bool


class Missing(NamedTuple):
    """Numbers of the sequence that no row has, both ends included."""

    first: int
    last: int


class Inspector(Protocol):
    """One look at a store: all of it is of one moment."""

    @property
    def place(self) -> str:
        """What errors and reports call it; never with a password."""

    def facts(self) -> Mapping[str, int | str]:
        """What it is, in a few words and numbers."""

    def faults(self) -> Iterable[str]:
        """What is wrong with the file or the tables themselves."""

    def missing(self) -> Sequence[Missing]:
        """The gaps of the journal, as far as nothing was pruned there."""

    def shelves(self) -> Sequence[Shelf]:
        """The sessions, by their names."""

    def kept(self, session_id: str) -> Kept | None:
        """The snapshot of a session."""

    def entries(self, session_id: str, *, after: int = 0) -> Iterator[Entry]:
        """What a session has logged behind a sequence."""

    def close(self) -> None: ...


class Unreadable(Exception):
    """A part of a session is not what was written, or does not fit the rest; the message says which."""


class Verdict(NamedTuple):
    """What came of rebuilding a session; `from_start` False: from its snapshot, since what was before it is pruned."""

    shelf: Shelf
    from_start: bool
    faults: tuple[str, ...]


def verify(store: Inspector, shelf: Shelf) -> Verdict:
    """Fold all that a session has logged, and compare it with what a process would go on with: snapshot and tail."""
    from_start = not shelf.pruned_through
    try:
        faults = tuple(_differences(store, shelf, from_start=from_start))
    except (Unreadable, StoreError) as error:
        faults = (str(error),)
    return Verdict(shelf, from_start, faults)


def restored(store: Inspector, shelf: Shelf) -> SessionState:
    """The state that a process would go on with; `Unreadable` where there is none."""
    kept = store.kept(shelf.session_id)
    state = SessionState() if kept is None else _thawed(kept)
    for entry in store.entries(shelf.session_id, after=shelf.snapshot_at):
        _add(state, entry)
    return state


class Replay:
    """A session played again, from its first event or, where that was pruned, from its snapshot.

    Each event is handed out before it changes `state`; `Unreadable` where one cannot be read or does not fit.
    """

    def __init__(self, store: Inspector, shelf: Shelf) -> None:
        kept = store.kept(shelf.session_id) if shelf.pruned_through else None
        self.state = SessionState() if kept is None else _thawed(kept)
        self._entries = store.entries(shelf.session_id, after=0 if kept is None else kept.sequence)

    def __iter__(self) -> Iterator[Event]:
        for entry in self._entries:
            event = _event(entry)
            yield event
            _change(self.state, entry, event)


def _differences(store: Inspector, shelf: Shelf, *, from_start: bool) -> Iterator[str]:
    kept = store.kept(shelf.session_id)
    if not from_start and (kept is None or kept.sequence < shelf.pruned_through):
        yield f"its journal was pruned through {shelf.pruned_through}, and no snapshot holds what was there"
        return
    states = [(SessionState(), 0)] if from_start else []
    if kept is not None:
        states.append((_thawed(kept), kept.sequence))
    for entry in store.entries(shelf.session_id):
        for state, after in states:
            if entry.sequence > after:
                _add(state, entry)
    # The state after the snapshot and its tail is what processes go on with; there may be no other to compare it with.
    known = [_known(state) for state, _ in states]
    for other in known[1:]:
        if wrong := [name for name, value in other.items() if value != known[0][name]]:
            yield f"its snapshot at {shelf.snapshot_at} is not what its journal says: {', '.join(wrong)} differ"


def _thawed(kept: Kept) -> SessionState:
    if not kept.is_whole:
        raise Unreadable(f"its snapshot at {kept.sequence} was changed")
    try:
        return snapshot.decode(kept.body)
    except UnknownSnapshot as error:
        raise Unreadable(f"its snapshot at {kept.sequence} cannot be read: {error}") from error


def _add(state: SessionState, entry: Entry) -> None:
    _change(state, entry, _event(entry))


def _change(state: SessionState, entry: Entry, event: Event) -> None:
    try:
        fold((event,), state)
    except MISFITS as error:
        raise Unreadable(
            f"row {entry.sequence} ({entry.word}) does not fit what was before it: {type(error).__name__}: {error}"
        ) from error


def _event(entry: Entry) -> Event:
    if not entry.is_whole:
        raise Unreadable(f"row {entry.sequence} was changed")
    try:
        event = read(entry.body)
    except ValueError as error:
        raise Unreadable(f"row {entry.sequence} is no event: {error}") from error
    if WORDS[type(event)] != entry.word:
        raise Unreadable(f"row {entry.sequence} is listed as {entry.word} and is {WORDS[type(event)]}")
    return event


def _known(state: SessionState) -> dict[str, Any]:
    """All that a state knows, as plain data that can be compared."""
    known: dict[str, Any] = msgspec.json.decode(snapshot.encode(state))
    return known


def unexplained(gaps: Iterable[tuple[int, int]], *, pruned_through: int) -> list[Missing]:
    """The gaps behind the last number that was pruned: those before it are of the sessions that were."""
    behind = pruned_through + 1
    return [Missing(max(first, behind), last) for first, last in gaps if last >= behind]


def shelve(
    counted: Iterable[tuple[str, int, int, str]],
    snapshots: Mapping[str, int],
    pruned: Mapping[str, int],
    leases: Mapping[str, Held],
) -> list[Shelf]:
    """The sessions that rows, snapshots and leases tell of."""
    logged = {name: Shelf(name, events, last, word) for name, events, last, word in counted}
    return [
        logged.get(name, Shelf(name))._replace(
            snapshot_at=snapshots.get(name, 0), pruned_through=pruned.get(name, 0), lease=leases.get(name)
        )
        for name in sorted({*logged, *snapshots, *pruned, *leases})
    ]
