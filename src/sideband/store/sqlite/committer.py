"""Everything that writes to a SQLite store. Each change is one transaction; the writer thread makes all of them."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import apsw

from sideband.core.errors import OutcomeUnknown, StoreDamaged, StoreError
from sideband.core.inbox import Receipt
from sideband.core.state import SessionState, ValueT
from sideband.ports import AsOf, Lease, Logged
from sideband.store.batch import Batch, CommitAnswer, NewRow, Order, Standing
from sideband.store.codec import checksum
from sideband.store.feed import Gap
from sideband.store.replica import Loaded, Replica, RestoredSession
from sideband.store.settings import SqliteSettings
from sideband.store.sqlite import file, lease, schema, tables, wal
from sideband.store.sqlite.doorbell import Doorbell
from sideband.store.sqlite.file import connect
from sideband.store.sqlite.lease import Term, Terms
from sideband.store.sqlite.reader import SqliteReader

_INSERT: Final = "INSERT INTO journal (sequence, session_id, word, checksum, body, time) VALUES (?, ?, ?, ?, ?, ?)"
# The log is checkpointed into the file when it has this many pages.
WAL_PAGES: Final = 1_000
# The leases of this many sessions are cached; then the cache is emptied.
KNOWN_TERMS: Final = 10_000


class Delivery(NamedTuple):
    """What the event loop is told at once, in this order; `lost` is set if events were pruned before they were read."""

    opened: Sequence[RestoredSession] = ()
    lost: Gap | None = None
    news: Sequence[Logged] = ()
    answers: Sequence[CommitAnswer] = ()


class SqliteRound(NamedTuple):
    """The result of a group of orders: `postponed` orders come first in the next group, `touched` sessions changed."""

    delivery: Delivery
    postponed: Sequence[Order] = ()
    touched: Iterable[Replica] = ()


class SqliteCommitter:
    """Owns the writing connection. Up to sequence `horizon`, every loaded replica is complete."""

    def __init__(
        self, path: Path, settings: SqliteSettings, *, bell: Doorbell | None, now_ms: Callable[[], int]
    ) -> None:
        self._path = path
        self._settings = settings
        self._bell = bell
        self._now_ms = now_ms
        # Weak, because the cache on the event loop decides which replicas stay in memory.
        self._replicas: WeakValueDictionary[str, Replica] = WeakValueDictionary()
        self._terms: dict[str, Term] = {}
        self._opened: tuple[RestoredSession, ...] = ()
        self._lost: Gap | None = None
        self._news: tuple[Logged, ...] = ()
        self._wal_pages = 0
        self._is_broken = False
        self._use(schema.prepare(path, self._connect))
        self._file = file.identity(path)
        self.horizon = self._reader.last()
        with contextlib.suppress(StoreError):
            self._ring()

    # The connection.

    def _connect(self, path: Path) -> apsw.Connection:
        return connect(path, busy_seconds=self._settings.patience_seconds, vfs=self._settings.vfs)

    def _use(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._reader = SqliteReader(connection, self._path)
        self._version: int | None = None
        # Replaces the checkpoint that SQLite makes inside a commit; `tidy` makes it after the callers have their answers.
        connection.set_wal_hook(self._note_pages)

    def _note_pages(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        """Reconnects after an I/O error, and turns errors of SQLite into `StoreError`."""
        self._refuse_moved()
        try:
            if self._is_broken:
                fresh = self._connect(self._path)
                self._connection.close(force=True)
                self._use(fresh)
                self._is_broken = False
            yield
        except schema.UNREADABLE as error:
            # After a failed sync this connection does not know what is on the disk; a new one reads it.
            self._is_broken |= isinstance(error, apsw.IOError)
            raise schema.refusal(error, self._path) from error

    def _refuse_moved(self) -> None:
        """If the file was deleted or replaced while open, writes to it would be lost."""
        if file.identity(self._path) != self._file:
            raise StoreDamaged(
                f"{self._path} was removed or replaced while it was open; put it back, or open the store again"
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction on top of everything that other processes have committed."""
        with self._usable():
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._catch_up()
                yield
                wal.commit(self._connection, self._path)
            except OutcomeUnknown:
                self._is_broken = True
                raise
            finally:
                wal.roll_back(self._connection)

    def close(self) -> None:
        self._connection.close(force=True)

    # Events of other processes.

    def look(self) -> None:
        """Read new events; `delivery` returns them."""
        with self._usable():
            self._catch_up()

    def _catch_up(self) -> None:
        version: int = self._connection.execute("PRAGMA data_version").get
        if version == self._version:
            return
        schema.refuse_newer(self._connection.pragma("user_version"), self._path)
        self._terms.clear()
        while (news := self._reader.news(self.horizon)).events:
            if news.gap is not None:
                self._load_again(news.gap)
            self._take_in(news.events)
        self._version = version

    def _take_in(self, news: Sequence[Logged]) -> None:
        for logged in news:
            replica = self._replicas.get(logged.session_id)
            if replica is not None and replica.is_loaded:
                replica.catch_up((logged,))
        self._news += tuple(news)
        self.horizon = news[-1].sequence

    def _load_again(self, gap: Gap) -> None:
        """Events were pruned before this process read them: load their sessions again from the snapshots."""
        known = () if self._lost is None else self._lost.sessions
        self._lost = Gap(gap.why, {*known, *gap.sessions})
        for session_id in gap.sessions:
            replica = self._replicas.get(session_id)
            if replica is not None:
                try:
                    self._load(replica)
                except StoreError:
                    # Its next commit reports this; the other sessions go on.
                    replica.forget()

    def _load(self, replica: Replica) -> None:
        loaded = self._reader.load(replica.session_id)
        replica.load(loaded)
        self._replicas[replica.session_id] = replica
        if not replica.is_open or self._lost is not None:
            self._opened += (RestoredSession(replica, loaded.restore(), loaded.at),)

    def delivery(self, answers: Sequence[CommitAnswer] = ()) -> Delivery:
        """What the event loop has not been told yet; each thing is returned once."""
        delivery = Delivery(self._opened, self._lost, self._news, answers)
        self._opened, self._lost, self._news = (), None, ()
        return delivery

    def adopt(self, replica: Replica, loaded: Loaded, ahead: SessionState, seen: SessionState) -> None:
        """Take over a session that the reader has loaded, and add the events since."""
        with self._usable():
            self._catch_up()
            if replica.is_loaded:
                return
            if self._reader.pruned_through(replica.session_id) > loaded.at:
                self._load(replica)
                return
            replica.load(loaded, ahead)
            self._replicas[replica.session_id] = replica
            self._opened += (RestoredSession(replica, seen, loaded.at),)
            since = self._reader.tail(replica.session_id, loaded.at)
            replica.catch_up(since)
            # The event loop may have got these before it showed the session.
            self._news = (*(logged for logged in since if logged not in self._news), *self._news)

    # Commits.

    def commit(self, orders: Sequence[Order]) -> SqliteRound:
        """Decide the orders one after the other, and commit them in one transaction."""
        batch: Batch | None = None
        try:
            # Loading takes long, so it is done before the transaction blocks other processes.
            unreadable = self._load_all(orders)
            with self._transaction():
                now = self._now_ms()
                batch = Batch(self.horizon, partial(self._standing, now), self._receipts, time=now)
                batch.run(orders, unreadable)
                if batch.rows:
                    self._connection.executemany(_INSERT, (_bound(row, now) for row in batch.rows))
                if batch.changes:
                    tables.write(self._connection, batch.changes, time=now)
        except StoreError as error:
            if batch is None:
                return SqliteRound(self.delivery([CommitAnswer(order, error=error) for order in orders]))
            batch.fail(error)
        else:
            batch.settle()
            self.horizon = batch.last
            self._news += tuple(batch.logged())
        return SqliteRound(self.delivery(batch.answers), batch.postponed, batch.replicas if batch.rows else ())

    def _load_all(self, orders: Sequence[Order]) -> Mapping[Replica, StoreError]:
        """Load the sessions that are not in memory; one that cannot be read fails alone."""
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
                # As a StoreError it fails this order only, not the whole batch.
                raise schema.refusal(error, self._path) from error
        return Standing(term.token, term.expires_at > now)

    def _receipts(self, session_id: str, caller_ids: Sequence[str]) -> Mapping[str, Receipt]:
        try:
            return self._reader.receipts(session_id, caller_ids)
        except schema.UNREADABLE as error:
            # As a StoreError it fails this order only, not the whole batch.
            raise schema.refusal(error, self._path) from error

    def read(self, replica: Replica, look: Callable[[SessionState], ValueT]) -> AsOf[ValueT]:
        """What `look` returns for the newest state of a session, and the sequence up to which that is complete."""
        with self._usable():
            self._catch_up()
            if not replica.is_loaded:
                self._load(replica)
            replica.ahead.attended = self._standing(self._now_ms(), replica.session_id).attended
        # A session that was loaded just now may have events that are not taken in yet.
        return AsOf(look(replica.ahead), max(self.horizon, replica.at))

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
        """Wake the other processes, and expire the leases of those that have died."""
        if self._bell is None:
            return
        for address in self._bell.ring_others():
            with self._transaction():
                lease.expire_leases(self._connection, address)
            self._terms.clear()
            self._bell.remove(address)

    # Maintenance, after the callers have their answers.

    def tidy(self, touched: Iterable[Replica]) -> None:
        """Wake other processes, write snapshots, checkpoint the log. What fails is tried again later."""
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
        # A large state is written again only after as many bytes of new events.
        return replica.is_loaded and replica.tail_bytes >= replica.snapshot_bytes

    def _snap(self, replica: Replica, *, keep: int | None) -> int:
        with self._transaction():
            body = replica.snapshot()
            _write_snapshot(self._connection, replica.session_id, self.horizon, body)
            gone = 0 if keep is None else _delete_rows(self._connection, replica.session_id, keep=keep)
        replica.snapped(len(body))
        return gone

    def prune(self, replica: Replica, *, keep: int) -> int:
        """Write a snapshot of a session, and delete all but its last `keep` events."""
        with self._usable():
            self._catch_up()
            if not replica.is_loaded:
                self._load(replica)
        return 0 if replica.is_blank else self._snap(replica, keep=keep)


def _bound(row: NewRow, time: int) -> tuple[int, str, str, int, bytes, int]:
    sequence, session_id, entry = row.sequence, row.session_id, row.record
    return sequence, session_id, entry.word, checksum(sequence, session_id, entry.body, time), entry.body, time


def _write_snapshot(connection: apsw.Connection, session_id: str, sequence: int, body: bytes) -> None:
    """Write a snapshot; a later one that another process has written stays."""
    connection.execute(
        "INSERT INTO snapshot (session_id, sequence, checksum, body) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (session_id) DO UPDATE SET sequence = excluded.sequence, checksum = excluded.checksum, "
        "body = excluded.body WHERE excluded.sequence > snapshot.sequence",
        (session_id, sequence, checksum(sequence, session_id, body), body),
    )


def _delete_rows(connection: apsw.Connection, session_id: str, *, keep: int) -> int:
    """Delete all but the last `keep` events that the snapshot covers, and return the number of deleted rows.

    The last row of the store always stays: the next sequence is counted from it.
    """
    newest_to_go = connection.execute(
        "SELECT min(sequence, (SELECT max(sequence) FROM journal) - 1) FROM journal WHERE session_id = ?1 "
        "AND sequence <= (SELECT sequence FROM snapshot WHERE session_id = ?1) "
        "ORDER BY sequence DESC LIMIT 1 OFFSET ?2",
        (session_id, keep),
    ).get
    if newest_to_go is None:
        return 0
    connection.execute(
        "UPDATE session SET changed_at = coalesce((SELECT time FROM journal WHERE session_id = ?1 AND sequence <= ?2 "
        "ORDER BY sequence DESC LIMIT 1), changed_at) WHERE session_id = ?1",
        (session_id, newest_to_go),
    )
    connection.execute("DELETE FROM journal WHERE session_id = ? AND sequence <= ?", (session_id, newest_to_go))
    gone = connection.changes()
    if gone:
        connection.execute(
            "UPDATE snapshot SET pruned_through = max(pruned_through, ?) WHERE session_id = ?",
            (newest_to_go, session_id),
        )
    return gone
