"""One session in one process: the state that decisions run on, and the state that the program sees.

They are two because they belong to two owners. Whoever writes brings `ahead` up to date inside the transaction, decides
on it, and is further than the journal until the commit is made. What the event loop reads is `seen`: it changes only
after that, and never has to be taken back.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from sideband.core import snapshot
from sideband.core.failures import StoreDamaged, StoreNewer
from sideband.core.state import SessionState, apply, fold
from sideband.ports import Decision, Logged
from sideband.store.records import Record, record

MISFITS: Final = (LookupError, TypeError, ValueError, AttributeError)
"""What folding raises at an event that does not fit what was before it."""


class Loaded(NamedTuple):
    """A session as it was read: a snapshot (None: there is none), and what was logged behind it.

    The snapshot holds all of the session up to sequence `snapshot_at`, the whole of this up to `at`. `tail_bytes` is the
    length of what was logged behind the snapshot.
    """

    snapshot: bytes | None
    snapshot_at: int
    tail: Sequence[Logged]
    tail_bytes: int
    at: int

    def restore(self) -> SessionState:
        """A state of one's own, each time."""
        try:
            state = None if self.snapshot is None else snapshot.decode(self.snapshot)
        except snapshot.UnknownSnapshot as error:
            # It is as it was written, so somebody else must know how to read it.
            raise StoreNewer(f"a newer Sideband has kept this session: {error}; upgrade sideband") from error
        try:
            return fold((logged.event for logged in self.tail), state)
        except MISFITS as error:
            raise StoreDamaged(
                f"what session {self.tail[0].session_id!r} has logged does not fit together "
                f"({type(error).__name__}: {error}); `sideband doctor --verify` says where, restore it from a backup"
            ) from error


class Replica:
    """A session of which decisions are made here."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.at = 0
        """The last sequence of the store up to which `ahead` surely has everything of the session."""
        self.is_loaded = False
        """Whether there is a state to decide on; not so at first, nor after a commit has failed."""
        self._ahead: SessionState | None = None
        self._seen: SessionState | None = None
        self._seen_at = 0
        self.tail_events = 0
        self.tail_bytes = 0
        self.snapshot_bytes = 0

    # For whoever writes.

    @property
    def ahead(self) -> SessionState:
        if self._ahead is None:
            raise LookupError(f"session {self.session_id!r} has to be loaded first")
        return self._ahead

    def load(self, loaded: Loaded, state: SessionState | None = None) -> None:
        """Decide on this from now on; `state` is what restoring it gives, where somebody has done that already."""
        self._ahead = loaded.restore() if state is None else state
        self.is_loaded = True
        self.at = loaded.at
        self.tail_events, self.tail_bytes = len(loaded.tail), loaded.tail_bytes
        self.snapshot_bytes = len(loaded.snapshot or b"")

    def catch_up(self, news: Iterable[Logged]) -> None:
        """Others have logged this; what is known already is passed over.

        Where it does not fit, the session has to be loaded again, and whoever does that is told.
        """
        ahead = self.ahead
        try:
            for logged in news:
                if logged.sequence > self.at:
                    apply(ahead, logged.event)
                    self.at = logged.sequence
                    self.tail_events += 1
        except MISFITS:
            self.forget()

    def decide(self, decide: Decision, *, attended: bool) -> Sequence[Record]:
        """What the decision says of the state as it is now, in the open transaction: what is decided next knows of it.

        Where that cannot be applied the session has to be loaded again.
        """
        ahead = self.ahead
        ahead.attended = attended
        records = [*map(record, decide(ahead))]
        try:
            for entry in records:
                apply(ahead, entry.event)
                self.tail_bytes += len(entry.body)
        except Exception:
            # It may have been applied in part. Nothing of it is written, and nobody decides on what it left behind.
            self.forget()
            raise
        self.tail_events += len(records)
        return records

    def forget(self) -> None:
        """The transaction was not made: what is ahead of the journal is wrong, and has to be loaded again."""
        self._ahead, self.is_loaded = None, False
        self.at = 0

    def snapshot(self) -> bytes:
        """All that the session knows at `at`."""
        return snapshot.encode(self.ahead)

    def snapped(self, size: int) -> None:
        """A snapshot of so many bytes is durable."""
        self.tail_events = self.tail_bytes = 0
        self.snapshot_bytes = size

    # For the event loop.

    @property
    def is_open(self) -> bool:
        return self._seen is not None

    @property
    def seen(self) -> SessionState:
        if self._seen is None:
            raise LookupError(f"session {self.session_id!r} is not open; await open() first")
        return self._seen

    @property
    def seen_at(self) -> int:
        """The last sequence of the session that is shown."""
        return self._seen_at

    def show(self, state: SessionState, at: int) -> None:
        """Begin to show the session, as it was at this sequence."""
        self._seen, self._seen_at = state, at

    def show_news(self, news: Iterable[Logged]) -> None:
        """This is durable; what is shown already is passed over. What does not fit ends the show, if there is one."""
        seen = self._seen
        if seen is None:
            return
        try:
            for logged in news:
                if logged.sequence > self._seen_at:
                    apply(seen, logged.event)
                    self._seen_at = logged.sequence
        except MISFITS:
            self._seen = None
