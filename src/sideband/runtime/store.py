"""Opening the place where sessions live."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeAlias

from sideband.core.errors import InvalidOption, shown
from sideband.core.failures import StoreClosed, StoreRefused
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.ports import Journal
from sideband.runtime.ids import new_id
from sideband.runtime.session import Session
from sideband.store.memory import MemoryStore

Opening: TypeAlias = Callable[[], Coroutine[Any, Any, Journal]]
NEEDS_PSYCOPG: Final = "psycopg is not installed, and a PostgreSQL store needs it: pip install 'sideband[postgres]'"


class Store:
    """Sessions by name; the same name is the same session.

    A journal that has to be opened first (`opening`) is opened with the first session or on entering, and closed on
    leaving. One that is given as it is belongs to whoever made it.
    """

    def __init__(
        self,
        journal: Journal | None = None,
        *,
        opening: Opening | None = None,
        limits: Limits = DEFAULT_LIMITS,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        self.limits = limits
        self.new_id = new_id
        self._journal = journal
        self._opening = opening
        # Of two who come first at once, one opens the journal.
        self._lock = asyncio.Lock()
        self._sessions: dict[str, Session] = {}

    @property
    def journal(self) -> Journal:
        """Where the sessions are; it has to be open."""
        if self._journal is None:
            raise StoreClosed
        return self._journal

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sessions outlive the handle on their store; they end when they are closed."""
        await self.close()

    async def close(self) -> None:
        """Let go of files and connections. What is on a disk can be opened again; what is in memory stays."""
        if self._opening is None or self._journal is None:
            return
        journal, self._journal = self._journal, None
        self._sessions.clear()
        await journal.close()

    async def session(self, session_id: str | None = None) -> Session:
        """The session of this name, begun if there is none; without a name a new one."""
        name = session_id or self.new_id()
        if name not in self._sessions:
            journal = await self._opened()
            await journal.open(name)
            self._sessions.setdefault(name, Session(journal, name, new_id=self.new_id, limits=self.limits))
        return self._sessions[name]

    async def _opened(self) -> Journal:
        async with self._lock:
            if self._journal is None and self._opening is not None:
                self._journal = await self._opening()
        return self.journal


def open_store(url: str = "memory:", *, limits: Limits = DEFAULT_LIMITS) -> Store:
    """Open a store: `memory:` for the life of the process, `sqlite:///path` for a file that processes share.

    A path behind three slashes begins in the working directory, one behind four at the root. `postgresql://…` is a
    database that machines share.
    """
    if url == "memory:":
        return Store(MemoryStore(subscriber_events=limits.subscriber_events), limits=limits)
    scheme = url.partition("://")[0]
    if scheme not in _OPENINGS:
        raise InvalidOption(
            f"no store can be opened at {shown(url)}; there is 'memory:', 'sqlite:///path' and 'postgresql://host/name'",
            field="url",
            value=url,
        )
    return Store(opening=_OPENINGS[scheme](url, limits), limits=limits)


def sqlite_path(url: str) -> str:
    """The path in the address of a store file."""
    path = url.removeprefix("sqlite:///")
    if path in ("", url):
        raise InvalidOption(
            f"a store file is named like 'sqlite:///sideband.db', not {shown(url)}", field="url", value=url
        )
    return path


def _sqlite(url: str, limits: Limits) -> Opening:
    path = sqlite_path(url)

    async def opening() -> Journal:
        # A program whose sessions are in memory loads no database.
        from sideband.store.sqlite import open_sqlite  # noqa: PLC0415 - see above
        from sideband.store.sqlite.committing import SqliteSettings  # noqa: PLC0415 - see above

        return await open_sqlite(path, SqliteSettings(subscriber_events=limits.subscriber_events))

    return opening


def _postgres(url: str, limits: Limits) -> Opening:
    async def opening() -> Journal:
        try:
            from sideband.store.postgres import open_postgres  # noqa: PLC0415 - not everybody has what it needs
            from sideband.store.postgres.committing import PostgresSettings  # noqa: PLC0415 - the same
        except ImportError as error:
            raise StoreRefused(NEEDS_PSYCOPG) from error
        return await open_postgres(url, PostgresSettings(subscriber_events=limits.subscriber_events))

    return opening


_OPENINGS: Final[Mapping[str, Callable[[str, Limits], Opening]]] = MappingProxyType(
    {"sqlite": _sqlite, "postgresql": _postgres, "postgres": _postgres}
)
