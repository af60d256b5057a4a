"""One session in one process: the state that decisions run on, and the state that the program reads.

There are two states because they have two owners. The writer brings `ahead` up to date inside the transaction and decides
on it, so it is ahead of the journal until the commit is made. The event loop reads `seen`, which changes only after the
commit and is never rolled back.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sideband.core import snapshot
from sideband.core.apply import apply, fold
from sideband.core.errors import StoreDamaged, StoreNewer
from sideband.core.inbox import Receipt
from sideband.core.state import Decision, SessionState, ValueT
from sideband.ports import Logged
from sideband.store.codec import EncodedEvent, encode_event

MISFITS: Final = (LookupError, TypeError, ValueError, AttributeError)
"""What folding raises for an event that does not fit the events before it."""


class Loaded(NamedTuple):
    """A session as it was read: a snapshot (None if there is none), and the events after it.

    They cover the session up to sequence `at`. `tail_bytes` is the encoded length of the tail.
    """

    snapshot: bytes | None
    tail: Sequence[Logged]
    tail_bytes: int
    at: int

    def restore(self) -> SessionState:
        """Build the state; every call returns a new one."""
        try:
            state = None if self.snapshot is None else snapshot.decode(self.snapshot)
        except snapshot.UnknownSnapshot as error:
            # The checksum is right, so a newer version has written it.
            raise StoreNewer(f"this session was saved by a newer Sideband: {error}; upgrade sideband") from error
        try:
            return fold((logged.event for logged in self.tail), state)
        except MISFITS as error:
            raise StoreDamaged(
                f"the events of session {self.tail[0].session_id!r} do not fit together "
                f"({type(error).__name__}: {error}); run `sideband doctor --verify` to find the row, then restore a backup"
            ) from error


class Replica:
    """A session that this process has loaded."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.at = 0
        """The sequence of the store up to which `ahead` is complete for this session."""
        self.is_loaded = False
        """Whether `ahead` can be used; it cannot before the first load and after a failed commit."""
        self._ahead: SessionState | None = None
        self._seen: SessionState | None = None
        self._seen_at = 0
        self.tail_events = 0
        self.tail_bytes = 0
        self.snapshot_bytes = 0

    # For the writer.

    @property
    def ahead(self) -> SessionState:
        if self._ahead is None:
            raise LookupError(f"session {self.session_id!r} is not loaded")
        return self._ahead

    def load(self, loaded: Loaded, state: SessionState | None = None) -> None:
        """Decide on this from now on; `state` is the result of `loaded.restore()`, if the caller already has it."""
        self._ahead = loaded.restore() if state is None else state
        self.is_loaded = True
        self.at = loaded.at
        self.tail_events, self.tail_bytes = len(loaded.tail), loaded.tail_bytes
        self.snapshot_bytes = len(loaded.snapshot or b"")

    def catch_up(self, news: Iterable[Logged]) -> None:
        """Apply events of other processes; events that were applied before are skipped.

        If an event does not fit, the session has to be loaded again, and loading reports the damage.
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

    def decide(
        self, decide: Decision[ValueT], *, attended: bool, receipts: Mapping[str, Receipt | None]
    ) -> tuple[Sequence[EncodedEvent], ValueT]:
        """Run a decision and apply its events to `ahead`, inside the open transaction.

        If the events cannot be applied, the session has to be loaded again.
        """
        ahead = self.ahead
        ahead.attended, ahead.receipts = attended, receipts
        events, value = decide(ahead)
        encoded = [*map(encode_event, events)]
        try:
            for entry in encoded:
                apply(ahead, entry.event)
                self.tail_bytes += len(entry.body)
        except Exception:
            # Some events may have been applied. None is written, so this state must not be used again.
            self.forget()
            raise
        self.tail_events += len(encoded)
        return encoded, value

    def forget(self) -> None:
        """Discard `ahead` after a failed transaction; the session has to be loaded again."""
        self._ahead, self.is_loaded = None, False
        self.at = 0

    @property
    def is_blank(self) -> bool:
        """Whether the session never had an event, so that there is nothing to take a snapshot of."""
        return not (self.ahead.exists or self.ahead.deleted)

    def snapshot(self) -> bytes:
        """The encoded state at sequence `at`."""
        return snapshot.encode(self.ahead)

    def snapped(self, size: int) -> None:
        """Note that a snapshot of this size was written."""
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
        """The sequence up to which `seen` is complete."""
        return self._seen_at

    def show(self, state: SessionState, at: int) -> None:
        """Set `seen` to the state of the session at this sequence."""
        self._seen, self._seen_at = state, at

    def show_news(self, news: Iterable[Logged]) -> None:
        """Apply durable events to `seen`; known events are skipped. An event that does not fit closes the session."""
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


class RestoredSession(NamedTuple):
    """A session that was read from the store, with its state at sequence `at` for the event loop to show."""

    replica: Replica
    state: SessionState
    at: int
