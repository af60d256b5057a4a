"""Commits to a PostgreSQL store: all waiting orders are decided and written in one transaction."""

import asyncio
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import psycopg
from psycopg import errors

from sideband.core.errors import NotStorable, OutcomeUnknown, StoreError
from sideband.ports import Logged
from sideband.store.batch import Batch, CommitAnswer, Order
from sideband.store.codec import checksum
from sideband.store.postgres import journal
from sideband.store.postgres.connection import Connection, Link, Patience
from sideband.store.postgres.journal import BatchId, LockedSessions
from sideband.store.postgres.reader import load
from sideband.store.replica import Loaded, Replica, RestoredSession
from sideband.store.settings import PostgresSettings

# A large state is written again only after a fourth as many bytes of new events.
TAIL_SHARE: Final = 4
# One transaction is in memory several times, here and on the server.
MOST_BYTES: Final = 128 * 2**20
# How many sessions are remembered as having a row; then the memory is emptied.
KNOWN_SESSIONS: Final = 10_000
# Errors of the data, not of the connection or the server.
UNFIT: Final = (errors.DataError, errors.ProgramLimitExceeded)

# A later snapshot of another process stays.
_KEEP: Final = """
INSERT INTO sideband.snapshot (session_id, sequence, checksum, body)
VALUES (%(session)s, %(sequence)s, %(checksum)s, %(body)b)
ON CONFLICT (session_id) DO UPDATE
SET sequence = excluded.sequence, checksum = excluded.checksum, body = excluded.body
WHERE excluded.sequence > snapshot.sequence
"""
# The last row of the store always stays: opening compares it with the counter.
_EDGE: Final = """
SELECT least(sequence, (SELECT last FROM sideband.counter) - 1) FROM sideband.journal
WHERE session_id = %(session)s
AND sequence <= (SELECT sequence FROM sideband.snapshot WHERE session_id = %(session)s)
ORDER BY sequence DESC LIMIT 1 OFFSET %(keep)s
"""
# The time of the last row to go is that of the last event, if no row stays.
_NOTE_PRUNING: Final = """
UPDATE sideband.session SET pruned_through = greatest(pruned_through, %(edge)s), changed_at = last.time
FROM (
    SELECT time FROM sideband.journal WHERE session_id = %(session)s AND sequence <= %(edge)s
    ORDER BY sequence DESC LIMIT 1
) AS last
WHERE session_id = %(session)s
"""


class PostgresRound(NamedTuple):
    """The result of a group of orders: `postponed` orders come first in the next group, `touched` sessions changed.

    The `written` events follow sequence `base`. `news` are events of other processes in the same sessions that the
    `loaded` sessions did not have.
    """

    answers: Sequence[CommitAnswer]
    postponed: Sequence[Order] = ()
    touched: Iterable[Replica] = ()
    loaded: Sequence[RestoredSession] = ()
    base: int = 0
    written: Sequence[Logged] = ()
    news: Sequence[Logged] = ()


class CommitSeparately(Exception):
    """Nothing was committed, because one of several orders cannot be stored; each has to be tried alone."""


class _Again(Exception):
    """Nothing was committed; try again."""


class PostgresCommitter:
    """Owns the writing connection and the `ahead` states of the replicas."""

    def __init__(self, link: Link, settings: PostgresSettings, *, writer_id: str, now_ms: Callable[[], int]) -> None:
        self._link = link
        self._now_ms = now_ms
        self._place = link.address.shown
        self._settings = settings
        self._batch_id = BatchId(writer_id, 0)
        self._prepared: Connection | None = None
        self._known: set[str] = set()
        self.fetched: WeakKeyDictionary[Replica, Loaded] = WeakKeyDictionary()
        """Sessions that `PostgresStore.open` has loaded; the next commit uses them instead of loading again."""
        self._loaded: list[RestoredSession] = []

    async def commit(self, orders: Sequence[Order]) -> PostgresRound:
        """Decide the orders one after the other, and commit them in one transaction."""
        patience = Patience(self._settings.patience_seconds)
        while True:
            try:
                return await self._attempt(orders)
            except (psycopg.Error, _Again) as error:
                # Nothing was committed, so the orders are decided again on the current state.
                self._forget(orders)
                recovers = await self._link.recovers(error) if isinstance(error, psycopg.Error) else True
                if isinstance(error, UNFIT):
                    return _refused(orders, NotStorable(f"{self._place} cannot store this: {error}"))
                if not recovers or not await patience.lasts():
                    return _refused(orders, self._link.refusal(error.__cause__ or error))
            except StoreError as error:
                self._forget(orders)
                await self._link.tidy()
                return _refused(orders, error)
            except BaseException:
                self._forget(orders)
                await self._link.tidy()
                raise

    def _forget(self, orders: Iterable[Order]) -> None:
        self._loaded = []
        for order in orders:
            order.replica.forget()

    async def _attempt(self, orders: Sequence[Order]) -> PostgresRound:
        connection = await self._link.connection()
        if connection is not self._prepared:
            await journal.prepare(connection)
            self._prepared = connection
        replicas = sorted({order.replica for order in orders}, key=lambda replica: replica.session_id)
        unreadable = await self._prepare(connection, replicas)
        readable = [replica for replica in replicas if replica not in unreadable]
        if not readable:
            return PostgresRound([CommitAnswer(order, error=unreadable[order.replica]) for order in orders])
        named = [(order.replica.session_id, caller_id) for order in orders for caller_id in order.receipts]
        locked = await journal.begin(connection, readable, self._batch_id, named=named, place=self._place)
        if locked is None:
            # The row of this process was deleted, because the process was silent for very long.
            self._known.clear()
            await connection.execute("ROLLBACK")
            raise _Again
        await self._catch_up(connection, readable, locked)
        # Other processes may have committed while this one waited for the locks.
        last = max(locked.last, *(replica.at for replica in readable))
        batch = Batch(
            0,
            locked.standings.__getitem__,
            functools.partial(locked.receipts_of, place=self._place),
            time=self._now_ms(),
        )
        batch.run(orders, unreadable)
        if batch.rows:
            base = await self._write(connection, batch)
        else:
            base = last
            await connection.execute("ROLLBACK")
        # The batch counted from 0, because the sequences are assigned by the append.
        batch.last += base
        batch.settle()
        written = batch.logged(base)
        loaded, self._loaded = self._loaded, []
        return PostgresRound(batch.answers, batch.postponed, batch.replicas, loaded, base, written, locked.news)

    # Before the transaction, and at its start.

    async def _prepare(self, connection: Connection, replicas: Sequence[Replica]) -> Mapping[Replica, StoreError]:
        """Load sessions before the transaction blocks other processes. A session that cannot be read fails alone."""
        new = [replica.session_id for replica in replicas if replica.session_id not in self._known]
        if new:
            if len(self._known) >= KNOWN_SESSIONS:
                self._known.clear()
            await journal.insert_rows(connection, self._batch_id, new)
            self._known.update(new)
        unreadable: dict[Replica, StoreError] = {}
        for replica in replicas:
            if not replica.is_loaded:
                try:
                    await self._load(connection, replica)
                except StoreError as error:
                    unreadable[replica] = error
        return unreadable

    async def _load(self, connection: Connection, replica: Replica) -> None:
        loaded = self.fetched.pop(replica, None)
        if loaded is None:
            loaded = await load(connection, replica.session_id, place=self._place)
            # The state that is shown may lack events that will not be announced again.
            self._loaded.append(RestoredSession(replica, await asyncio.to_thread(loaded.restore), loaded.at))
        replica.load(loaded, await asyncio.to_thread(loaded.restore))

    async def _catch_up(self, connection: Connection, replicas: Iterable[Replica], locked: LockedSessions) -> None:
        for replica in replicas:
            if locked.pruned_through[replica.session_id] > replica.at:
                # Events that this process has not read were pruned; the snapshot covers them.
                self.fetched.pop(replica, None)
                await self._load(connection, replica)
            else:
                replica.catch_up(entry for entry in locked.news if entry.session_id == replica.session_id)

    # At the end of the transaction.

    async def _write(self, connection: Connection, batch: Batch) -> int:
        """Write the rows and commit. If the connection is lost, find out whether the commit was made."""
        size = sum(len(row.record.body) for row in batch.rows)
        if size > MOST_BYTES:
            raise NotStorable(f"a commit of {size:,} bytes is too large; {self._place} takes at most {MOST_BYTES:,}")
        self._batch_id = self._batch_id._replace(batch=self._batch_id.batch + 1)
        try:
            return await journal.append(connection, batch, self._batch_id)
        except psycopg.Error as error:
            if not self._link.is_lost:
                raise
            made = await self._find_out(error)
            if made is None:
                raise _Again from error
            return made

    async def _find_out(self, error: psycopg.Error) -> int | None:
        """The commit was sent, and the connection was lost before the answer: ask the server whether it was made."""
        patience = Patience(self._settings.patience_seconds)
        while True:
            try:
                return await journal.find_out(await self._link.connection(), self._batch_id)
            except psycopg.Error as again:
                if not await self._link.recovers(again) or not await patience.lasts():
                    raise OutcomeUnknown(self._place) from error

    # Maintenance, after the callers have their answers.

    async def tidy(self, touched: Iterable[Replica]) -> None:
        """Write snapshots. What fails is tried again later."""
        for replica in touched:
            if replica.is_loaded and self._is_due(replica):
                try:
                    await self._snap(await self._link.connection(), replica, keep=self._settings.kept_events)
                except (psycopg.Error, StoreError):
                    await self._link.drop()

    def _is_due(self, replica: Replica) -> bool:
        many = replica.tail_events >= self._settings.snapshot_events
        return many and replica.tail_bytes * TAIL_SHARE >= replica.snapshot_bytes

    async def _snap(self, connection: Connection, replica: Replica, *, keep: int | None) -> int:
        # On a thread, because encoding a long conversation would block the event loop.
        body = await asyncio.to_thread(replica.snapshot)
        await _write_snapshot(connection, replica.session_id, replica.at, body)
        replica.snapped(len(body))
        return 0 if keep is None else await _delete_rows(connection, replica.session_id, keep=keep)

    async def prune(self, session_id: str, *, keep: int) -> int:
        """Write a snapshot of a session, and delete all but its last `keep` events."""

        async def work(connection: Connection) -> int:
            # A separate replica: loading the one that decisions run on would skip events that were not shown yet.
            copy = Replica(session_id)
            copy.load(await load(connection, session_id, place=self._place))
            return 0 if copy.is_blank else await self._snap(connection, copy, keep=keep)

        return await self._link.run(work)


def _refused(orders: Sequence[Order], error: StoreError) -> PostgresRound:
    if len(orders) > 1 and isinstance(error, NotStorable):
        raise CommitSeparately from error
    return PostgresRound([CommitAnswer(order, error=error) for order in orders])


async def _write_snapshot(connection: Connection, session_id: str, sequence: int, body: bytes) -> None:
    await connection.execute(
        _KEEP,
        {
            "session": session_id,
            "sequence": sequence,
            "checksum": checksum(sequence, session_id, body),
            "body": body,
        },
    )


async def _delete_rows(connection: Connection, session_id: str, *, keep: int) -> int:
    """Delete all but the last `keep` events that the snapshot covers, and return the number of deleted rows."""
    async with connection.transaction():
        await connection.execute("SELECT FROM sideband.session WHERE session_id = %s FOR UPDATE", (session_id,))
        edge = await (await connection.execute(_EDGE, {"session": session_id, "keep": keep})).fetchone()
        if edge is None:
            return 0
        # If the only row that could go is the last one of the store, none goes, and no cursor expires.
        await connection.execute(_NOTE_PRUNING, {"session": session_id, "edge": edge[0]})
        gone = await connection.execute(
            "DELETE FROM sideband.journal WHERE session_id = %s AND sequence <= %s", (session_id, edge[0])
        )
    return gone.rowcount
