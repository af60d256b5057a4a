"""Everything that changes a PostgreSQL store by decisions: one transaction for all that was asked for meanwhile."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
import psycopg
from psycopg import errors

from sideband.core.failures import NotStorable, OutcomeUnknown, StoreError
from sideband.core.state import SessionState
from sideband.ports import Committed, Logged
from sideband.store.batch import Answer, Batch, Order
from sideband.store.feed import SUBSCRIBER_EVENTS
from sideband.store.postgres import appending, keeping
from sideband.store.postgres.appending import Ground, Numbered
from sideband.store.postgres.link import Connection, Link, Patience
from sideband.store.postgres.reading import load
from sideband.store.replica import Loaded, Replica
from sideband.store.roster import AT_HAND

# A snapshot is written anew once the journal behind it is a fourth as long: a large state is not copied for a few words.
TAIL_SHARE: Final = 4
# What is written at once is in memory several times, here and on the server.
MOST_BYTES: Final = 128 * 2**20
# So many sessions are known to have a row; then all are introduced again.
MOST_KNOWN: Final = 10_000
# The connection works and so does the server; it is what was to be written that cannot be.
UNFIT: Final = (errors.DataError, errors.ProgramLimitExceeded)


class PostgresSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a store on a PostgreSQL server behaves.

    A session has a new snapshot after `snapshot_events`, and its journal keeps `kept_events` behind it (None: all of
    them). A subscriber that is `subscriber_events` behind is cut off. The journal is looked at every `poll_seconds`,
    though the server mostly tells before. While the server cannot be reached, what is asked for waits for
    `patience_seconds`. Beside the sessions that somebody holds on to, `sessions_at_hand` stay in memory.
    """

    snapshot_events: int = 1_000
    kept_events: int | None = 100_000
    subscriber_events: int = SUBSCRIBER_EVENTS
    lease_seconds: float = 30.0
    poll_seconds: float = 2.0
    patience_seconds: float = 30.0
    sessions_at_hand: int = AT_HAND


class Fresh(NamedTuple):
    """A session that had to be read, as it was at a sequence; the state is nobody else's."""

    replica: Replica
    state: SessionState
    at: int


class Round(NamedTuple):
    """A group of orders was dealt with; `postponed` ones come first in the next, `touched` has something new.

    What was written stands behind sequence `behind`; `news` is what others had logged of the same sessions, as far as
    those that were `loaded` did not have it.
    """

    answers: Sequence[Answer]
    postponed: Sequence[Order] = ()
    touched: Iterable[Replica] = ()
    loaded: Sequence[Fresh] = ()
    behind: int = 0
    written: Sequence[Logged] = ()
    news: Sequence[Logged] = ()


class Apart(Exception):
    """Nothing was committed, since one of several orders cannot be: each has to be tried alone."""


class _Again(Exception):
    """Nothing was committed, and nothing stands in the way of another try."""


class Committer:
    """The replicas are its own: nobody else changes what is `ahead` of the journal."""

    def __init__(self, link: Link, settings: PostgresSettings, *, writer_id: str) -> None:
        self._link = link
        self._place = link.address.shown
        self._settings = settings
        self._numbered = Numbered(writer_id, 0)
        self._prepared: Connection | None = None
        self._known: set[str] = set()
        self.fetched: WeakKeyDictionary[Replica, Loaded] = WeakKeyDictionary()
        """Sessions that somebody else has read and shows already; what was logged since is added."""
        self._loaded: list[Fresh] = []

    async def commit(self, orders: Sequence[Order]) -> Round:
        """Decide them all, one after the other, and make that durable at once."""
        patience = Patience(self._settings.patience_seconds)
        while True:
            try:
                return await self._attempt(orders)
            except (psycopg.Error, _Again) as error:
                # Nothing of it was made: it may be decided again, on what the journal has by then.
                self._forget(orders)
                recovers = await self._link.recovers(error) if isinstance(error, psycopg.Error) else True
                if isinstance(error, UNFIT):
                    return _refused(orders, NotStorable(f"{self._place} cannot hold this: {error}"))
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

    async def _attempt(self, orders: Sequence[Order]) -> Round:
        connection = await self._link.connection()
        if connection is not self._prepared:
            await appending.prepare(connection)
            self._prepared = connection
        replicas = sorted({order.replica for order in orders}, key=lambda replica: replica.session_id)
        unreadable = await self._prepare(connection, replicas)
        readable = [replica for replica in replicas if replica not in unreadable]
        if not readable:
            return Round([Answer(order, unreadable[order.replica]) for order in orders])
        ground = await appending.begin(connection, readable, self._numbered, place=self._place)
        if ground is None:
            # Rows of a process that was silent for very long are taken away.
            self._known.clear()
            await connection.execute("ROLLBACK")
            raise _Again
        await self._catch_up(connection, readable, ground)
        # While the sessions were waited for, others may have gone on.
        last = max(ground.last, *(replica.at for replica in readable))
        batch = Batch(0, lambda session_id: ground.standings[session_id])
        batch.run(orders, unreadable)
        if batch.rows:
            behind = await self._write(connection, batch)
        else:
            behind = last
            await connection.execute("ROLLBACK")
        # It was decided as if nothing stood before it; now it is known what does.
        batch.last += behind
        batch.settle()
        written = [
            Logged(sequence=behind + row.sequence, session_id=row.session_id, event=row.record.event)
            for row in batch.rows
        ]
        answers = [Answer(answer.order, _moved(answer.outcome, behind)) for answer in batch.answers]
        loaded, self._loaded = self._loaded, []
        return Round(answers, batch.postponed, batch.replicas, loaded, behind, written, ground.news)

    # Before the transaction and at its beginning.

    async def _prepare(self, connection: Connection, replicas: Sequence[Replica]) -> Mapping[Replica, StoreError]:
        """Most of what takes long is done before others are kept waiting. A session that cannot be read fails alone."""
        strangers = [replica.session_id for replica in replicas if replica.session_id not in self._known]
        if strangers:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            await appending.introduce(connection, self._numbered, strangers)
            self._known.update(strangers)
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
            # What is shown, if anything is, may lack something that will never be news again.
            self._loaded.append(Fresh(replica, await asyncio.to_thread(loaded.restore), loaded.at))
        replica.load(loaded, await asyncio.to_thread(loaded.restore))

    async def _catch_up(self, connection: Connection, replicas: Iterable[Replica], ground: Ground) -> None:
        for replica in replicas:
            if ground.pruned_through[replica.session_id] > replica.at:
                # A part of what is new to this process was pruned meanwhile: the snapshot has it.
                self.fetched.pop(replica, None)
                await self._load(connection, replica)
            else:
                replica.catch_up(entry for entry in ground.news if entry.session_id == replica.session_id)

    # At its end.

    async def _write(self, connection: Connection, batch: Batch) -> int:
        """Write the rows and commit; whether that happened is known in the end, also where the connection was lost."""
        size = sum(len(row.record.body) for row in batch.rows)
        if size > MOST_BYTES:
            raise NotStorable(f"a commit of {size:,} bytes is too large; {self._place} takes at most {MOST_BYTES:,}")
        self._numbered = self._numbered._replace(batch=self._numbered.batch + 1)
        try:
            return await appending.append(connection, batch.rows, self._numbered)
        except psycopg.Error as error:
            if not self._link.is_lost:
                raise
            made = await self._find_out(error)
            if made is None:
                raise _Again from error
            return made

    async def _find_out(self, error: psycopg.Error) -> int | None:
        """The commit was sent, and the answer was lost with the connection: look what came of it."""
        patience = Patience(self._settings.patience_seconds)
        while True:
            try:
                return await appending.find_out(await self._link.connection(), self._numbered)
            except psycopg.Error as again:
                if not await self._link.recovers(again) or not await patience.lasts():
                    raise OutcomeUnknown(self._place) from error

    # What can wait until those who asked have their answer.

    async def tidy(self, touched: Iterable[Replica]) -> None:
        """Write snapshots. None of it is promised: what fails is left for later."""
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
        # Not on the event loop: a long conversation takes its time.
        body = await asyncio.to_thread(replica.snapshot)
        await keeping.keep_snapshot(connection, replica.session_id, replica.at, body)
        replica.snapped(len(body))
        return 0 if keep is None else await keeping.prune(connection, replica.session_id, keep=keep)

    async def prune(self, session_id: str, *, keep: int) -> int:
        """Take from the journal all but the last events of a session, behind a snapshot made now."""

        async def work(connection: Connection) -> int:
            # Not the one that decisions run on: what is new to that one has to be shown too.
            copy = Replica(session_id)
            copy.load(await load(connection, session_id, place=self._place))
            return await self._snap(connection, copy, keep=keep)

        return await self._link.run(work)


def _refused(orders: Sequence[Order], error: StoreError) -> Round:
    if len(orders) > 1 and isinstance(error, NotStorable):
        raise Apart from error
    return Round([Answer(order, error) for order in orders])


def _moved(outcome: Committed | Exception, behind: int) -> Committed | Exception:
    if isinstance(outcome, Committed):
        return Committed(events=outcome.events, sequence=outcome.sequence + behind)
    return outcome
