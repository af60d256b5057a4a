"""Stores by URL: `open_store`, its options, and the `Store`, in which sessions are begun, found, listed and deleted."""

import asyncio
from collections.abc import Callable, Container, Coroutine, Mapping, Sequence
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple, Self, TypeAlias

from sideband.core import turn
from sideband.core.errors import InvalidOption, NotStorable, SessionBusy, StoreClosed, StoreRefused, shown
from sideband.core.events import InjectAccepted, QueuedMessage
from sideband.core.limits import DEFAULT_LIMITS, Bound, Limits
from sideband.core.messages import Content, Message, as_blocks, read_content
from sideband.core.parse import read_item_id
from sideband.core.seams import InjectMode
from sideband.core.state import Decided, Decision, SessionState
from sideband.core.transcript import Transcript, begin_with
from sideband.core.trust import IN_PROCESS, Provenance
from sideband.loop.conversation import HomeLoop
from sideband.ports import FACTS_SESSION, NO_RECORDS, Clock, Journal, SessionEntry
from sideband.recall import kept
from sideband.recall.facts import Fact, FactBook, fact_namespace
from sideband.runtime.home import USER_STORE, make_user_directory, user_store_url
from sideband.runtime.producer import Intake
from sideband.runtime.records import check_lookup, read_message, read_records
from sideband.runtime.session import Session
from sideband.runtime.system import SystemClock, new_id
from sideband.store.cache import AT_HAND, SessionCache
from sideband.store.codec import check_name
from sideband.store.memory import MemoryStore

_NUMBERS: Final[Mapping[str, Bound]] = MappingProxyType(
    {
        "snapshot_events": Bound(1),
        "kept_events": Bound(0, optional=True),
        "lease_seconds": Bound(0, whole=False, above=True, optional=True),
        "poll_seconds": Bound(0, whole=False, above=True, optional=True),
        "patience_seconds": Bound(0, whole=False, optional=True),
        "sessions_at_hand": Bound(1),
    }
)

# A store in memory has no use for the others.
_MEMORY_OPTIONS: Final = ("snapshot_events", "kept_events", "lease_seconds", "subscriber_events")


Opening: TypeAlias = Callable[[], Coroutine[Any, Any, Journal]]

_LARGEST: Final = 2**62

# The roles of tool results and of summaries, which have no ids in a session.
_WITHOUT_ID: Final = ("tool", "system")

NEEDS_PSYCOPG: Final = "a PostgreSQL store needs psycopg, which is not installed: pip install 'sideband[postgres]'"


class SessionPage(NamedTuple):
    """Sessions of a store, newest first.

    Pass `next_before` to `Store.sessions` as `before` to get the page after this one; None if this is the last page.
    """

    sessions: tuple[SessionEntry, ...]
    next_before: int | None


class Store:
    """Sessions by name; the same name is the same session.

    A store with `opening` opens its journal on entering or with the first session, and closes it on leaving. A `journal`
    that is passed in belongs to the caller and is not closed. `sessions_at_hand` sessions stay in memory besides those
    that the program refers to or runs.
    """

    def __init__(
        self,
        journal: Journal | None = None,
        *,
        opening: Opening | None = None,
        limits: Limits = DEFAULT_LIMITS,
        new_id: Callable[[], str] = new_id,
        clock: Clock | None = None,
        sessions_at_hand: int = AT_HAND,
    ) -> None:
        self.limits = limits
        self._intake = Intake(limits, clock or SystemClock())
        self.new_id = new_id
        self._journal = journal
        self._opening = opening
        self._home = HomeLoop(moves=opening is None)
        # Protects the opening of the journal: of two concurrent first sessions, one opens it.
        self._lock = asyncio.Lock()
        self._sessions: SessionCache[Session] = SessionCache(sessions_at_hand, needed=lambda session: session.busy)

    @property
    def journal(self) -> Journal:
        """The journal of the sessions; `StoreClosed` if it is not open."""
        if self._journal is None:
            raise StoreClosed
        return self._journal

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store. Its sessions are not ended; `Session.close` does that."""
        await self.close()

    async def close(self) -> None:
        """Close files and connections; the sessions can be opened again. A store in memory is not affected."""
        await self._intake.close()
        if self._opening is None or self._journal is None:
            return
        journal, self._journal = self._journal, None
        self._sessions.clear()
        await journal.close()

    # Sessions.

    async def session(self, session_id: str | None = None) -> Session:
        """The session with this name, created if there is none; without a name, a new session.

        A session that has no event yet is not listed. One that was deleted is begun again.
        """
        _refuse_reserved(session_id)
        session = await self._hold(self.new_id() if session_id is None else session_id)
        if await self._finish_deletion(session.id):
            await session.talk.write(partial(turn.begin, attributes={}))
        return session

    async def begin(
        self,
        session_id: str | None = None,
        *,
        attributes: Mapping[str, Any] = MappingProxyType({}),
        messages: Sequence[Mapping[str, Any]] = (),
        transcript: Transcript | None = None,
        prompt: Content | None = None,
        sender: Provenance = IN_PROCESS,
    ) -> Session:
        """Begin a session with these named records and messages; `InvalidOption` if there is one of this name.

        The session is durable and listed when this returns. A record with the value None is left out, and a message
        without an `id` gets one, unless it is a tool result or a summary.

        With a `transcript`, the session has its messages, its live reminders and its audit records, each with its id, its
        flags, what is left of its TTL, and the provenance that the transcript says. A reminder that the session would not
        have accepted is refused.

        With a `prompt`, the same commit queues this message of `sender`, which a `Runner` then answers.
        """
        _refuse_reserved(session_id)
        begun = self._beginning(read_records(attributes, field="attributes"), messages, transcript)
        if prompt is not None:
            begun = self._with_prompt(begun, prompt, sender)
        session = await self._hold(self.new_id() if session_id is None else session_id)
        await self._finish_deletion(session.id)
        if not await session.talk.write(begun):
            raise InvalidOption(
                f"there is a session {shown(session.id)} already; choose another id, or get it with find()",
                field="session_id",
                value=session.id,
            )
        return session

    async def find(self, session_id: str) -> Session | None:
        """The session with this name; None if there is none, or if none can have this name. This creates nothing."""
        journal = await self._opened()
        if not _is_name(session_id):
            return None
        return None if await journal.entry(session_id) is None else await self._hold(session_id)

    async def sessions(
        self, *, records: Mapping[str, str] = NO_RECORDS, before: int | None = None, limit: int = 100
    ) -> SessionPage:
        """One page of the sessions, those that were begun last first.

        With `records`, only sessions that have all these named records with these values. `before` is `next_before` of
        the previous page (None: the first page), and `limit` the number of sessions on a page.
        """
        check_lookup(records)
        Bound(1, optional=True).check("before", before)
        Bound(1).check("limit", limit)
        journal = await self._opened()
        # No store has as many sessions, and a database cannot read larger numbers.
        limit, before = min(limit, _LARGEST), before and min(before, _LARGEST)
        # One more than the page has, to know whether there is a next page.
        found = await journal.sessions(records=records, before=before, limit=limit + 1)
        page = tuple(found[:limit])
        return SessionPage(page, page[-1].begun if len(found) > limit else None)

    async def last_sequence(self) -> int:
        """A sequence near the end of the journal: no event that is committed after this call has a smaller one."""
        newest = await self.sessions(limit=1)
        if not newest.sessions:
            return 0
        return (await self.journal.read(newest.sessions[0].session_id, lambda _state: None)).at

    async def delete(self, session_id: str) -> bool:
        """End a session and delete all its content; return False if there is no such session.

        `SessionBusy` if a process runs the session.
        """
        _refuse_reserved(session_id)
        if not _is_name(session_id):
            return False
        session = await self.find(session_id)
        was_there = session is not None and await session.talk.write(partial(_delete, session_id))
        # Even if it was deleted before; see `_finish_deletion`.
        await self.journal.prune(session_id)
        if was_there:
            self._sessions.discard(session_id)
        return was_there

    # Facts.

    async def keep_fact(self, fact: Fact, *, namespace: str) -> bool:
        """Store a fact, and return whether it was there already and is refreshed; `store_fact` makes the fact."""
        name, value = kept.to_record(fact, namespace)
        journal = await self._opened()
        return await journal.commit(FACTS_SESSION, partial(kept.store, name=name, value=value, limit=self.limits.facts))

    async def fact_book(self) -> FactBook:
        """All facts of the store, by namespace, as they are now; facts of other processes are among them."""
        return await read_facts(await self._opened())

    async def facts(self, namespace: str | None = None) -> tuple[Fact, ...]:
        """The facts of one namespace (None: of all), in the order in which they were first stored."""
        book = await self.fact_book()
        if namespace is not None:
            return book.facts(fact_namespace(namespace=namespace))
        return tuple(fact for name in book.namespaces for fact in book.facts(name))

    async def forget_fact(self, fact_id: str, *, namespace: str | None = None) -> bool:
        """Remove a fact from one namespace (None: from all); return False if there is no such fact.

        It is not recalled any more. Its text leaves the store when the journal is pruned.
        """
        where = None if namespace is None else fact_namespace(namespace=namespace)
        journal = await self._opened()
        return bool(await journal.commit(FACTS_SESSION, partial(kept.forget, fact_id=fact_id, namespace=where)))

    async def _finish_deletion(self, session_id: str) -> bool:
        """Prune a session that was deleted, and return whether it was.

        The process that deleted it may have died before it pruned the journal, and what is begun under this name must not
        show the old events. The journal is asked, because the state in memory may not show the deletion yet.
        """
        is_deleted = (await self.journal.read(session_id, _is_deleted)).value
        if is_deleted:
            await self.journal.prune(session_id)
        return is_deleted

    async def _hold(self, name: str) -> Session:
        """The handle of a session, which is loaded if it is not in memory."""
        check_name(name)
        if not name.strip():
            raise InvalidOption(
                f"the id of a session must not be blank, not {shown(name)}", field="session_id", value=name
            )
        journal = await self._opened()
        hold = await journal.open(name)
        session = self._sessions.get(name)
        if session is None:
            session = Session(
                journal, name, new_id=self.new_id, limits=self.limits, intake=self._intake, home=self._home
            )
            session.talk.hold = hold
            self._sessions.add(name, session)
        return session

    def _beginning(
        self, attributes: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], transcript: object
    ) -> Decision[bool]:
        if transcript is None:
            return partial(turn.begin, attributes=attributes, messages=self._read_messages(messages))
        if not isinstance(transcript, Transcript):
            raise InvalidOption(
                f"transcript must be a Transcript, not {shown(transcript)}", field="transcript", value=transcript
            )
        if messages:
            raise InvalidOption(
                "give messages or a transcript, not both: a transcript has messages of its own", field="messages"
            )
        return partial(
            begin_with,
            transcript=transcript,
            attributes=attributes,
            messages=self._read_messages(transcript.messages),
            limits=self.limits,
        )

    def _with_prompt(self, begin: Decision[bool], prompt: Content, sender: Provenance) -> Decision[bool]:
        message = QueuedMessage(
            message_id=self.new_id(),
            content=read_content(as_blocks(prompt), self.limits),
            mode=InjectMode.QUEUE,
            provenance=sender,
            accepted_at=self._intake.clock.now_ms(),
        )

        def decide(state: SessionState) -> Decided[bool]:
            events, begun = begin(state)
            return Decided((*events, InjectAccepted(item=message)) if begun else (), begun)

        return decide

    def _read_messages(self, messages: object) -> tuple[Message, ...]:
        """The messages as the journal returns them, with ids."""
        if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
            raise InvalidOption(
                f"messages must be a list of messages, not {shown(messages)}", field="messages", value=messages
            )
        read = [read_message(place, message) for place, message in enumerate(messages)]
        return tuple(
            message if "id" in message or message["role"] in _WITHOUT_ID else {**message, "id": self.new_id()}
            for message in read
        )

    async def _opened(self) -> Journal:
        if self._journal is not None:
            self._home.check()
        async with self._lock:
            if self._journal is None and self._opening is not None:
                self._home = HomeLoop(moves=False)
                self._home.check()
                self._journal = await self._opening()
        return self.journal


async def read_facts(journal: Journal) -> FactBook:
    """The facts of a store as they are now."""
    return kept.book_of((await journal.read(FACTS_SESSION, kept.records_of)).value)


def _refuse_reserved(session_id: object) -> None:
    if session_id == FACTS_SESSION:
        raise InvalidOption(
            f"{shown(session_id)} is reserved for the facts of the store and is no session; choose another id, or "
            "use Store.facts() and Store.forget_fact() for the facts",
            field="session_id",
            value=session_id,
        )


def _is_name(session_id: str) -> bool:
    """Whether a session can have this name."""
    if session_id == FACTS_SESSION:
        return False
    try:
        check_name(read_item_id(session_id, "session_id"))
    except NotStorable:
        return False
    return True


def _is_deleted(state: SessionState) -> bool:
    return state.deleted


def _delete(session_id: str, state: SessionState) -> Decided[bool]:
    if state.attended:
        raise SessionBusy(
            f"session {shown(session_id)} is being run; cancel the run and wait for its end before you delete it",
            field="session",
            value=session_id,
        )
    return turn.delete(state)


# Opening a store by its URL.


def open_store(
    url: str = "memory:",
    *,
    limits: Limits = DEFAULT_LIMITS,
    snapshot_events: int = 1_000,
    kept_events: int | None = 100_000,
    lease_seconds: float | None = None,
    poll_seconds: float | None = None,
    patience_seconds: float | None = None,
    sessions_at_hand: int = AT_HAND,
) -> Store:
    """Open a store: `memory:` lasts as long as the process, `sqlite:///path` is a file that processes can share.

    A path after three slashes is relative to the working directory, one after four is absolute. `postgresql://…` is a
    database that machines can share. `user:` is the store that the command line uses by default: the one that
    `$SIDEBAND_STORE` names, or a file in the data directory of the user. Every kind of store accepts all options and
    ignores those that it has no use for.

    Args:
        url: Where the sessions are.
        limits: How much a session accepts, and how fast.
        snapshot_events: After so many events a snapshot of a session is written, so that opening an old session takes no
            longer than opening a new one.
        kept_events: How many of the events before the snapshot are kept. None: all.
        lease_seconds: The lease of a run lapses after this time without a renewal. None: after 30 seconds, and never for
            a store in memory.
        poll_seconds: How often commits of other processes are polled, as a fallback for notifications. None: every 0.25
            seconds for a file, and every 2 seconds for a server.
        patience_seconds: After this time an operation on a locked file or an unreachable server fails. None: 10 seconds
            for a file, and 30 seconds for a server.
        sessions_at_hand: How many sessions stay in memory besides those that the program refers to.

    """
    if url == USER_STORE:
        url = user_store_url()
    if not isinstance(limits, Limits):
        raise InvalidOption(f"limits must be Limits(...), not {shown(limits)}", field="limits", value=limits)
    options: Mapping[str, Any] = {
        "snapshot_events": snapshot_events,
        "kept_events": kept_events,
        "lease_seconds": lease_seconds,
        "poll_seconds": poll_seconds,
        "patience_seconds": patience_seconds,
        "sessions_at_hand": sessions_at_hand,
    }
    for name, value in options.items():
        _NUMBERS[name].check(name, value)
    # An option of None has another default in each kind of store, except `kept_events`.
    given = {name: value for name, value in options.items() if value is not None or name == "kept_events"}
    given["subscriber_events"] = limits.subscriber_events
    if url == "memory:":
        journal = MemoryStore(**{name: given[name] for name in _MEMORY_OPTIONS if name in given})
        return Store(journal, limits=limits, sessions_at_hand=sessions_at_hand)
    opening = _OPENINGS[kind_of(url, _OPENINGS)](url, given)
    return Store(opening=opening, limits=limits, sessions_at_hand=sessions_at_hand)


def kind_of(url: object, kinds: Container[str]) -> str:
    """The scheme of the URL, if it is one of `kinds`. An error quotes only the scheme: a URL may contain a password."""
    scheme, found, _ = url.partition("://") if isinstance(url, str) else ("", "", "")
    if not found or scheme not in kinds:
        raise InvalidOption(
            f"{shown(f'{scheme}://...' if found else url)} is not the URL of a store; "
            "write 'sqlite:///sideband.db' or 'postgresql://host/name', or 'memory:' for a store that ends with its process",
            field="url",
        )
    return scheme


def sqlite_path(url: str) -> str:
    """The path in the URL of a store file."""
    path = url.removeprefix("sqlite:///")
    if path in ("", url):
        raise InvalidOption(
            f"the URL of a store file must look like 'sqlite:///sideband.db', not {shown(url)}", field="url", value=url
        )
    if path == ":memory:":
        raise InvalidOption("write 'memory:' for a store in memory, not 'sqlite:///:memory:'", field="url", value=url)
    if "?" in path:
        raise InvalidOption(
            f"the URL of a store file takes no options after '?', not {shown(url)}; pass them to open_store",
            field="url",
            value=url,
        )
    return path


def _sqlite(url: str, options: Mapping[str, Any]) -> Opening:
    path = sqlite_path(url)

    async def opening() -> Journal:
        # Imported here, because a program with its sessions in memory needs no database.
        from sideband.store.sqlite import SqliteSettings, open_sqlite  # noqa: PLC0415 - see above

        make_user_directory(path)
        return await open_sqlite(path, SqliteSettings(**options))

    return opening


def _postgres(url: str, options: Mapping[str, Any]) -> Opening:
    async def opening() -> Journal:
        try:
            from sideband.store.postgres import PostgresSettings, open_postgres  # noqa: PLC0415 - needs an extra
        except ImportError as error:
            raise StoreRefused(NEEDS_PSYCOPG) from error
        return await open_postgres(url, PostgresSettings(**options))

    return opening


_OPENINGS: Final[Mapping[str, Callable[[str, Mapping[str, Any]], Opening]]] = MappingProxyType(
    {"sqlite": _sqlite, "postgresql": _postgres, "postgres": _postgres}
)
