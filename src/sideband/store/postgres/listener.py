"""Events of other processes: the server notifies that there are some, and the listener reads them from the journal."""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

import psycopg

from sideband.core.errors import CursorExpired
from sideband.store.feed import Gap, Span
from sideband.store.postgres.connection import LONGEST_PAUSE, SHORTEST_PAUSE, Connection, Link
from sideband.store.postgres.journal import CHANNEL, HINT_LETTERS
from sideband.store.postgres.reader import DamagedRow, JournalPage, last_sequence, page, pruned_since


class Interest(NamedTuple):
    """The sessions whose events this process needs (None: all)."""

    sessions: Collection[str] | None

    @property
    def is_any(self) -> bool:
        return self.sessions is None or bool(self.sessions)

    def covers(self, other: "Interest") -> bool:
        if self.sessions is None:
            return True
        return other.sessions is not None and set(other.sessions) <= set(self.sessions)


class NewsConsumer(Protocol):
    """What the listener reports to; `announced` is the last sequence that was reported."""

    @property
    def announced(self) -> int: ...

    def interest(self) -> Interest: ...

    def wants(self, session_id: str) -> bool:
        """Whether the events of a session are needed."""

    def is_own(self, backend: int) -> bool:
        """Whether a notification comes from this process, which knows the events already."""

    def deliver(self, news: JournalPage, through: int) -> None:
        """New events; up to and including `through` there are no others of interest."""

    async def on_gap(self, gap: Gap, connection: Connection) -> None:
        """Events were pruned before they were read; `connection` can be used to load their sessions again."""

    def on_damage(self, error: DamagedRow) -> None:
        """A row of a session is damaged: ignore the session from now on, and end subscriptions to all sessions."""


class Listener:
    """Listens before it reads, each time it connects, so that no event is missed in between."""

    def __init__(self, link: Link, consumer: NewsConsumer, *, poll_seconds: float) -> None:
        self._link = link
        self._consumer = consumer
        self._poll_seconds = poll_seconds
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    async def listen(self) -> int:
        """Begin to listen; all events after the returned sequence will be reported."""
        try:
            return await last_sequence(await self._listen())
        except psycopg.Error as error:
            raise self._link.refusal(error) from error

    def start(self, give_up: Callable[[Exception], None]) -> None:
        """Report events from now on; `give_up` gets an error after which the listener ends."""
        self._is_stopped = False
        self._task = asyncio.create_task(self._run(give_up), name="sideband-listener")

    async def stop(self) -> None:
        # If the connection is lost while the task is cancelled, the task does not see the cancellation.
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._link.drop()

    async def _run(self, give_up: Callable[[Exception], None]) -> None:
        pause = SHORTEST_PAUSE
        while not self._is_stopped:
            try:
                connection = await self._listen()
                while True:
                    if self._consumer.interest().is_any:
                        await self.read(connection)
                    pause = SHORTEST_PAUSE
                    await self._wait(connection)
            except DamagedRow as error:
                self._consumer.on_damage(error)
            except psycopg.Error:
                await self._link.drop()
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            except Exception as error:  # noqa: BLE001 - subscribers get it
                give_up(error)
                return

    async def _listen(self) -> Connection:
        connection = await self._link.connection()
        await connection.execute(f"LISTEN {CHANNEL}")
        return connection

    async def _wait(self, connection: Connection) -> None:
        """Wait for a notification of interest, or for the poll interval."""
        hints = connection.notifies(timeout=self._poll_seconds)
        async with contextlib.aclosing(hints):
            async for notification in hints:
                if not self._consumer.is_own(notification.pid) and self._is_news(notification.payload):
                    return

    def _is_news(self, hint: str) -> bool:
        sequence, _, session_id = hint.partition(" ")
        if not sequence.isdecimal():
            # Every client of the database can send notifications on this channel.
            return False
        # A very long name is cut off in the notification.
        is_wanted = self._consumer.wants(session_id) or len(session_id) >= HINT_LETTERS
        return is_wanted and int(sequence) > self._consumer.announced

    async def read(self, connection: Connection) -> None:
        """Read and report all events of interest after `announced`; concurrent calls are allowed."""
        while True:
            interest, after = self._consumer.interest(), self._consumer.announced
            news = await page(connection, Span(after), place=self._link.address.shown, sessions=interest.sessions)
            if not interest.covers(self._consumer.interest()):
                # A session became of interest while the page was read.
                continue
            if after < news.pruned_through:
                sessions = await pruned_since(connection, after, sessions=interest.sessions)
                await self._consumer.on_gap(Gap(CursorExpired(after, news.pruned_through), sessions), connection)
            self._consumer.deliver(news, news.entries[-1].sequence if news.is_full else news.last)
            if not news.is_full:
                return
