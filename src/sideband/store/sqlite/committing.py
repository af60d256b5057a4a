"""Everything that changes a SQLite store, each thing in one transaction; one thread calls it."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import apsw

from sideband.core.failures import CursorExpired, OutcomeUnknown, StoreDamaged, StoreError
from sideband.core.state import SessionState
from sideband.ports import Lease, Logged
from sideband.store.batch import Answer, Batch, Order, Row, Standing
from sideband.store.feed import Gap
from sideband.store.records import checksum
from sideband.store.replica import Loaded, Replica
from sideband.store.sqlite import disk, finishing, keeping, lease, schema
from sideband.store.sqlite.connection import connect
from sideband.store.sqlite.delivery import Delivery, Opened, Round
from sideband.store.sqlite.lease import Term, Terms
from sideband.store.sqlite.reading import Library
from sideband.store.sqlite.settings import SqliteSettings
from sideband.store.sqlite.wakeup import Doorbell

_INSERT: Final = "INSERT INTO journal (sequence, session_id, word, checksum, body) VALUES (?, ?, ?, ?, ?)"
# Behind so many pages of its log the file itself is brought up to date.
WAL_PAGES: Final = 1_000
# How it stands with so many sessions is remembered; then all of it is looked up again.
KNOWN_TERMS: Final = 10_000


class Committer:
    """Up to `horizon`, every replica that is loaded has all of its session."""

    def __init__(
        self, path: Path, settings: SqliteSettings, *, bell: Doorbell | None, now_ms: Callable[[], int]
    ) -> None:
        self._path = path
        self._settings = settings
        self._bell = bell
        self._now_ms = now_ms
        # The event loop decides which ones stay.
        self._replicas: WeakValueDictionary[str, Replica] = WeakValueDictionary()
        self._terms: dict[str, Term] = {}
        self._opened: tuple[Opened, ...] = ()
        self._lost: Gap | None = None
        self._news: tuple[Logged, ...] = ()
        self._wal_pages = 0
        self._is_broken = False
        self._use(schema.prepare(path, self._connect))
        self._file = disk.identity(path)
        self.horizon = self._library.last()
        with contextlib.suppress(StoreError):
            self._ring()

    # The connection.

    def _connect(self, path: Path) -> apsw.Connection:
        return connect(path, busy_seconds=self._settings.busy_seconds, vfs=self._settings.vfs)

    def _use(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._library = Library(connection, self._path)
        self._version: int | None = None
        # In place of the checkpoint that SQLite makes inside a commit: ours is made when those who wait have their answer.
        connection.set_wal_hook(self._note_pages)

    def _note_pages(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        """A connection that works, and errors in the words of a store."""
        self._refuse_moved()
        try:
            if self._is_broken:
                fresh = self._connect(self._path)
                self._connection.close(force=True)
                self._use(fresh)
                self._is_broken = False
            yield
        except schema.UNREADABLE as error:
            # After a failed sync nobody knows what of the log is on the disk; who opens it anew reads what is there.
            self._is_broken |= isinstance(error, apsw.IOError)
            raise schema.refusal(error, self._path) from error

    def _refuse_moved(self) -> None:
        """A file without a name takes whatever is written to it, and nobody will ever read that."""
        if disk.identity(self._path) != self._file:
            raise StoreDamaged(
                f"{self._path} was removed or replaced while it was open; put it back, or open the store again"
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing, on top of all that others have written."""
        with self._usable():
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._catch_up()
                yield
                finishing.commit(self._connection, self._path)
            except OutcomeUnknown:
                self._is_broken = True
                raise
            finally:
                finishing.roll_back(self._connection)

    def close(self) -> None:
        self._connection.close(force=True)

    # What others have written.

    def look(self) -> None:
        """Read what is new; `delivery` has it."""
        with self._usable():
            self._catch_up()

    def _catch_up(self) -> None:
        version: int = self._connection.execute("PRAGMA data_version").get
        if version == self._version:
            return
        schema.refuse_newer(self._connection.pragma("user_version"), self._path)
        self._terms.clear()
        try:
            while news := self._library.news(self.horizon):
                self._take_in(news)
        except CursorExpired as gap:
            self._start_over(gap)
        self._version = version

    def _take_in(self, news: Sequence[Logged]) -> None:
        for logged in news:
            replica = self._replicas.get(logged.session_id)
            if replica is not None and replica.is_loaded:
                replica.catch_up((logged,))
        self._news += tuple(news)
        self.horizon = news[-1].sequence

    def _start_over(self, gap: CursorExpired) -> None:
        """What was never read here was pruned meanwhile: the snapshots have it."""
        self.horizon = self._library.last()
        self._lost = Gap(gap, self.horizon)
        self._news = ()
        for replica in tuple(self._replicas.values()):
            self._load(replica)

    def _load(self, replica: Replica) -> None:
        loaded = self._library.load(replica.session_id)
        replica.load(loaded)
        self._replicas[replica.session_id] = replica
        if not replica.is_open or self._lost is not None:
            self._opened += (Opened(replica, loaded.restore(), loaded.at),)

    def delivery(self, answers: Sequence[Answer] = ()) -> Delivery:
        """What the event loop has not been told yet."""
        delivery = Delivery(self._opened, self._lost, self._news, answers)
        self._opened, self._lost, self._news = (), None, ()
        return delivery

    def adopt(self, replica: Replica, loaded: Loaded, ahead: SessionState, seen: SessionState) -> None:
        """A session that somebody else has read; what was logged since is added."""
        with self._usable():
            self._catch_up()
            if replica.is_loaded:
                return
            if self._library.pruned_through(replica.session_id) > loaded.at:
                self._load(replica)
                return
            replica.load(loaded, ahead)
            self._replicas[replica.session_id] = replica
            self._opened += (Opened(replica, seen, loaded.at),)
            since = self._library.tail(replica.session_id, loaded.at)
            replica.catch_up(since)
            # The event loop may have been told of these when it did not show the session yet.
            self._news = (*(logged for logged in since if logged not in self._news), *self._news)

    # Commits.

    def commit(self, orders: Sequence[Order]) -> Round:
        """Decide them all, one after the other, and make that durable at once."""
        batch: Batch | None = None
        try:
            # What takes long is done before others are kept waiting.
            unreadable = self._load_all(orders)
            with self._transaction():
                batch = Batch(self.horizon, partial(self._standing, self._now_ms()))
                batch.run(orders, unreadable)
                if batch.rows:
                    self._connection.executemany(_INSERT, map(_bound, batch.rows))
        except StoreError as error:
            if batch is None:
                return Round(self.delivery([Answer(order, error) for order in orders]))
            batch.fail(error)
        else:
            batch.settle()
            self.horizon = batch.last
            self._news += tuple(
                [Logged(sequence=row.sequence, session_id=row.session_id, event=row.record.event) for row in batch.rows]
            )
        return Round(self.delivery(batch.answers), batch.postponed, batch.replicas if batch.rows else ())

    def _load_all(self, orders: Sequence[Order]) -> Mapping[Replica, StoreError]:
        """Load what is not at hand yet; a session that cannot be read fails alone."""
        unreadable: dict[Replica, StoreError] = {}
        for replica in {order.replica: None for order in orders if not order.replica.is_loaded}:
            try:
                with self._usable():
                    self._load(replica)
            except StoreError as error:
                unreadable[replica] = error
        return unreadable

    def _standing(self, now: int, session_id: str) -> Standing:
        term = self._terms.get(session_id)
        if term is None:
            if len(self._terms) >= KNOWN_TERMS:
                self._terms.clear()
            try:
                term = self._terms[session_id] = lease.term(self._connection, session_id)
            except schema.UNREADABLE as error:
                # It is the answer to one order, and not the end of them all.
                raise schema.refusal(error, self._path) from error
        return Standing(term.token, term.expires_at > now)

    # Leases.

    def acquire(self, session_id: str, holder: str) -> Lease:
        with self._transaction():
            taken = lease.acquire(self._connection, session_id, holder, self._my_terms(), is_dead=self._is_dead)
        self._terms.pop(session_id, None)
        return taken

    def renew(self, held: Lease) -> Lease:
        with self._transaction():
            renewed = lease.renew(self._connection, held, self._my_terms())
        self._terms.pop(held.session_id, None)
        return renewed

    def release(self, held: Lease) -> None:
        with self._transaction():
            lease.release(self._connection, held)
        self._terms.pop(held.session_id, None)

    def _my_terms(self) -> Terms:
        address = "" if self._bell is None else self._bell.address
        return Terms(self._now_ms(), self._settings.lease_seconds, address)

    def _is_dead(self, address: str) -> bool:
        return self._bell is not None and self._bell.is_dead(address)

    def _ring(self) -> None:
        """Wake the other processes; those that have died run nothing any longer."""
        if self._bell is None:
            return
        for address in self._bell.ring_others():
            with self._transaction():
                lease.bury(self._connection, address)
            self._terms.clear()
            self._bell.remove(address)

    # What can wait until those who asked have their answer.

    def tidy(self, touched: Iterable[Replica]) -> None:
        """Wake others, write snapshots, bring the file up to date. None of it is promised: what fails is left for later."""
        with contextlib.suppress(StoreError):
            self._ring()
        for replica in touched:
            if replica.tail_events >= self._settings.snapshot_events and self._is_due(replica):
                with contextlib.suppress(StoreError):
                    self._snap(replica, keep=self._settings.kept_events)
        if self._wal_pages >= WAL_PAGES:
            with contextlib.suppress(apsw.Error):
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._wal_pages = 0

    def _is_due(self, replica: Replica) -> bool:
        # A large state is not copied for a few words: what is logged behind it has to be as long.
        return replica.is_loaded and replica.tail_bytes >= replica.snapshot_bytes

    def _snap(self, replica: Replica, *, keep: int | None) -> int:
        with self._transaction():
            body = replica.snapshot()
            keeping.keep_snapshot(self._connection, replica.session_id, self.horizon, body)
            gone = 0 if keep is None else keeping.prune(self._connection, replica.session_id, keep=keep)
        replica.snapped(len(body))
        return gone

    def prune(self, replica: Replica, *, keep: int) -> int:
        """Take from the journal all but the last events of a session, behind a snapshot made now."""
        with self._usable():
            self._catch_up()
            if not replica.is_loaded:
                self._load(replica)
        return self._snap(replica, keep=keep)


def _bound(row: Row) -> tuple[int, str, str, int, bytes]:
    sequence, session_id, entry = row.sequence, row.session_id, row.record
    return sequence, session_id, entry.word, checksum(sequence, session_id, entry.body), entry.body
