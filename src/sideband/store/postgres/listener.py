"""News from other processes. The server tells that there is some; what it is, and what was missed, is in the journal."""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

import psycopg

from sideband.core.failures import CursorExpired
from sideband.store.feed import Gap, Span
from sideband.store.postgres.appending import CHANNEL, HINT_LETTERS
from sideband.store.postgres.link import LONGEST_PAUSE, SHORTEST_PAUSE, Connection, Link
from sideband.store.postgres.reading import DamagedRow, Page, last_sequence, page


class Interest(NamedTuple):
    """Of which sessions somebody here wants to know (None: of all)."""

    sessions: Collection[str] | None

    @property
    def is_any(self) -> bool:
        return self.sessions is None or bool(self.sessions)

    def covers(self, other: "Interest") -> bool:
        if self.sessions is None:
            return True
        return other.sessions is not None and set(other.sessions) <= set(self.sessions)


class Audience(Protocol):
    """Who is told, and up to where that has been done."""

    @property
    def announced(self) -> int: ...

    def interest(self) -> Interest: ...

    def wants(self, session_id: str) -> bool:
        """Whether that is of interest."""

    def is_own(self, backend: int) -> bool:
        """Whether a hint comes from this process, which knows already."""

    def hear(self, news: Page, through: int) -> None:
        """This was logged, and nothing else of interest, up to and including a sequence."""

    async def miss(self, gap: Gap, connection: Connection) -> None:
        """Something of interest was pruned before it was read here; what is left can be read there."""

    def lose(self, error: DamagedRow) -> None:
        """That session cannot be read, and is of no interest from now on; nor is there anybody who wants everything."""


class Listener:
    """Listens first and reads then, whenever it connects: nothing falls in between."""

    def __init__(self, link: Link, audience: Audience, *, poll_seconds: float) -> None:
        self._link = link
        self._audience = audience
        self._poll_seconds = poll_seconds
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    async def listen(self) -> int:
        """Begin to listen; whatever is logged behind this sequence will be heard of."""
        try:
            return await last_sequence(await self._listen())
        except psycopg.Error as error:
            raise self._link.refusal(error) from error

    def start(self, give_up: Callable[[Exception], None]) -> None:
        """Tell the audience from now on."""
        self._is_stopped = False
        self._task = asyncio.create_task(self._run(give_up), name="sideband-listener")

    async def stop(self) -> None:
        # A connection that is lost while a task is cancelled hides that from the task.
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
                    if self._audience.interest().is_any:
                        await self.read(connection)
                    pause = SHORTEST_PAUSE
                    await self._wait(connection)
            except DamagedRow as error:
                self._audience.lose(error)
            except psycopg.Error:
                await self._link.drop()
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            except Exception as error:  # noqa: BLE001 - the last to hear of it: whoever follows the journal has to know
                give_up(error)
                return

    async def _listen(self) -> Connection:
        connection = await self._link.connection()
        await connection.execute(f"LISTEN {CHANNEL}")
        return connection

    async def _wait(self, connection: Connection) -> None:
        """Until there is something of interest that was not announced, or it is time to look anyway."""
        hints = connection.notifies(timeout=self._poll_seconds)
        async with contextlib.aclosing(hints):
            async for notification in hints:
                if not self._audience.is_own(notification.pid) and self._is_news(notification.payload):
                    return

    def _is_news(self, hint: str) -> bool:
        sequence, _, session_id = hint.partition(" ")
        if not sequence.isdecimal():
            # Anybody who has the database may say anything on its channels.
            return False
        # A very long name is cut off in a hint.
        is_wanted = self._audience.wants(session_id) or len(session_id) >= HINT_LETTERS
        return is_wanted and int(sequence) > self._audience.announced

    async def read(self, connection: Connection) -> None:
        """Everything of interest behind what was announced; several may do so at once."""
        while True:
            interest, after = self._audience.interest(), self._audience.announced
            news = await page(connection, Span(after), place=self._link.address.shown, sessions=interest.sessions)
            if not interest.covers(self._audience.interest()):
                # Somebody has become interested in what was not asked for.
                continue
            if after < news.pruned_through:
                await self._audience.miss(Gap(CursorExpired(after, news.pruned_through), news.last), connection)
                continue
            self._audience.hear(news, news.entries[-1].sequence if news.is_full else news.last)
            if not news.is_full:
                return
