"""Opening the place where sessions live."""

import asyncio
from collections.abc import Callable, Container, Coroutine, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeAlias, Unpack

from sideband.core.errors import InvalidOption, shown
from sideband.core.failures import StoreClosed, StoreRefused
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.ports import Journal
from sideband.runtime import storing
from sideband.runtime.ids import new_id
from sideband.runtime.session import Session
from sideband.runtime.storing import StoreOptions, named, read_options
from sideband.store.memory import MemoryStore
from sideband.store.names import check_name
from sideband.store.roster import AT_HAND, Roster

Opening: TypeAlias = Callable[[], Coroutine[Any, Any, Journal]]
NEEDS_PSYCOPG: Final = "psycopg is not installed, and a PostgreSQL store needs it: pip install 'sideband[postgres]'"


class Store:
    """Sessions by name; the same name is the same session.

    A journal that has to be opened first (`opening`) is opened with the first session or on entering, and closed on
    leaving. One that is given as it is belongs to whoever made it. Beside the sessions that the program holds on to, or
    runs, it has `sessions_at_hand`.
    """

    def __init__(
        self,
        journal: Journal | None = None,
        *,
        opening: Opening | None = None,
        limits: Limits = DEFAULT_LIMITS,
        new_id: Callable[[], str] = new_id,
        sessions_at_hand: int = AT_HAND,
    ) -> None:
        self.limits = limits
        self.new_id = new_id
        self._journal = journal
        self._opening = opening
        # Of two who come first at once, one opens the journal.
        self._lock = asyncio.Lock()
        self._sessions: Roster[Session] = Roster(sessions_at_hand, needed=lambda session: session.busy)

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
        check_name(name)
        session = self._sessions.get(name)
        if session is None:
            journal = await self._opened()
            hold = await journal.open(name)
            # Somebody else may have opened it meanwhile.
            session = self._sessions.get(name)
            if session is None:
                session = Session(journal, name, new_id=self.new_id, limits=self.limits)
                session.talk.hold = hold
                self._sessions.add(name, session)
        return session

    async def _opened(self) -> Journal:
        async with self._lock:
            if self._journal is None and self._opening is not None:
                self._journal = await self._opening()
        return self.journal


def open_store(url: str = "memory:", *, limits: Limits = DEFAULT_LIMITS, **options: Unpack[StoreOptions]) -> Store:
    """Open a store: `memory:` for the life of the process, `sqlite:///path` for a file that processes share.

    A path behind three slashes begins in the working directory, one behind four at the root. `postgresql://…` is a
    database that machines share. The options are those of `StoreOptions`; every kind of store takes them all.
    """
    if not isinstance(limits, Limits):
        raise InvalidOption(f"limits must be Limits(...), not {shown(limits)}", field="limits", value=limits)
    given = {"subscriber_events": limits.subscriber_events, **read_options(options)}
    at_hand = given.get("sessions_at_hand", AT_HAND)
    if url == "memory:":
        return Store(MemoryStore(**named(given, storing.MEMORY)), limits=limits, sessions_at_hand=at_hand)
    opening = _OPENINGS[kind_of(url, _OPENINGS)](url, given)
    return Store(opening=opening, limits=limits, sessions_at_hand=at_hand)


def kind_of(url: object, kinds: Container[str]) -> str:
    """The word before the colon, where it is one of these. No more is repeated of an address: it may hold a password."""
    scheme, found, _ = url.partition("://") if isinstance(url, str) else ("", "", "")
    if not found or scheme not in kinds:
        raise InvalidOption(
            f"no store can be opened at {shown(f'{scheme}://...' if found else url)}; "
            "write 'sqlite:///sideband.db' or 'postgresql://host/name', or 'memory:' for one that is gone with its process",
            field="url",
        )
    return scheme


def sqlite_path(url: str) -> str:
    """The path in the address of a store file."""
    path = url.removeprefix("sqlite:///")
    if path in ("", url):
        raise InvalidOption(
            f"a store file is named like 'sqlite:///sideband.db', not {shown(url)}", field="url", value=url
        )
    if path == ":memory:":
        raise InvalidOption("a store in memory is opened as 'memory:'", field="url", value=url)
    if "?" in path:
        raise InvalidOption(
            f"a store file is named by its path alone, not {shown(url)}; options are arguments of open_store",
            field="url",
            value=url,
        )
    return path


def _sqlite(url: str, options: Mapping[str, Any]) -> Opening:
    path = sqlite_path(url)

    async def opening() -> Journal:
        # A program whose sessions are in memory loads no database.
        from sideband.store.sqlite import open_sqlite  # noqa: PLC0415 - see above
        from sideband.store.sqlite.settings import SqliteSettings  # noqa: PLC0415 - see above

        return await open_sqlite(path, SqliteSettings(**named(options, storing.SQLITE)))

    return opening


def _postgres(url: str, options: Mapping[str, Any]) -> Opening:
    async def opening() -> Journal:
        try:
            from sideband.store.postgres import open_postgres  # noqa: PLC0415 - not everybody has what it needs
            from sideband.store.postgres.committing import PostgresSettings  # noqa: PLC0415 - the same
        except ImportError as error:
            raise StoreRefused(NEEDS_PSYCOPG) from error
        return await open_postgres(url, PostgresSettings(**named(options, storing.POSTGRES)))

    return opening


_OPENINGS: Final[Mapping[str, Callable[[str, Mapping[str, Any]], Opening]]] = MappingProxyType(
    {"sqlite": _sqlite, "postgresql": _postgres, "postgres": _postgres}
)
