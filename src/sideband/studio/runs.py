"""Runs what the studio's users ask sessions to do, and keeps the text of the replies that are being written."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeAlias

import msgspec

from sideband.core.errors import CursorExpired, CursorLost, StoreClosed, StoreError
from sideband.core.events import InjectAccepted
from sideband.core.messages import storable
from sideband.logs import LOG
from sideband.loop.guard import describe
from sideband.ports import Tool
from sideband.protocols.servers import SessionServers
from sideband.runtime.options import AgentOptions
from sideband.runtime.permission import RecordedPermission
from sideband.runtime.runner import Runner
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from sideband.runtime.system import now_ms
from sideband.tools.function import read_tools, watcher_of
from sideband.tools.live import LiveTools

SERVICE_RECORD: Final = "service"
SERVICE: Final = "studio"
"""The record of sessions that were begun in the studio; every studio of the store runs what another one has left in them."""

# How often a server looks for turns whose server has ended, how long such a session must have been silent, and how long
# at most: reading the state of old sessions each time would take too long.
SWEEP_SECONDS: Final = 10.0
SILENT_MS: Final = 5_000
RECENT_MS: Final = 3_600_000
# The number of sessions that keep a runner while they are idle.
_MAX_HOSTED: Final = 256
# More messages than a session accepts at a time.
_MAX_ACCEPTED: Final = 1_024
# The number of replies whose text is kept, for pages that connect while they are being written.
_MAX_TEXTS: Final = 256

OptionsOf: TypeAlias = Callable[[Session], Awaitable[AgentOptions | None]]
"""The options of a session's runs; None if there is no model to run it with."""


class NoModel(Exception):
    """There is no model to run a session with."""


# Text.


class ReplyText(msgspec.Struct):
    """The text of a reply so far; `attempt` is the number of the request that it answers, which may be a retry."""

    reply_id: str
    attempt: int = 1
    text: str = ""


class ReplyTexts:
    """The replies that this process is writing, by session."""

    def __init__(self) -> None:
        self._texts: dict[str, ReplyText] = {}
        self._listeners: dict[str, set[asyncio.Event]] = {}

    def add(self, session_id: str, reply_id: str, attempt: int, text: str) -> None:
        """Add a piece to the reply of a session."""
        known = self._texts.get(session_id)
        if known is None or (known.reply_id, known.attempt) != (reply_id, attempt):
            # The newest is last, so that the oldest is forgotten first.
            self._texts.pop(session_id, None)
            self._texts[session_id] = known = ReplyText(reply_id, attempt)
            if len(self._texts) > _MAX_TEXTS:
                del self._texts[next(iter(self._texts))]
        # The journal replaces what cannot be encoded, too.
        known.text += storable(text)
        for wake in self._listeners.get(session_id, ()):
            wake.set()

    def of(self, session_id: str) -> ReplyText | None:
        """The reply that was written last."""
        return self._texts.get(session_id)

    def listen(self, session_id: str, wake: asyncio.Event) -> None:
        """Set the event with each piece, until `leave`."""
        self._listeners.setdefault(session_id, set()).add(wake)

    def leave(self, session_id: str, wake: asyncio.Event) -> None:
        listeners = self._listeners.get(session_id, set())
        listeners.discard(wake)
        if not listeners:
            self._listeners.pop(session_id, None)


# Runs.


class _Hosted:
    """A session that this process runs: its runner, its tools, and the messages that it has accepted here."""

    runner: Runner
    starting: asyncio.Task[None]

    def __init__(self) -> None:
        self.server_tools: Sequence[Tool] = ()
        # Those that begin to be accepted are counted, because a runner may see them before their id is known here.
        self.accepting = 0
        self.accepted: deque[str] = deque(maxlen=_MAX_ACCEPTED)
        # Whether another server of the store resumes it.
        self.is_resumable = False

    def is_own(self, message_id: str) -> bool:
        return self.accepting > 0 or message_id in self.accepted

    @property
    def has_work(self) -> bool:
        return self.accepting > 0 or not self.starting.done() or self.runner.has_work

    async def close(self) -> None:
        self.starting.cancel()
        await asyncio.wait((self.starting,))
        await self.runner.aclose(leaves_turn=self.is_resumable)


class StudioRuns:
    """Runs the prompts that this server has accepted; any number of servers may share a store.

    A session keeps its runner, which also runs what other programs queue for it. Tools that may change something wait for
    a person's permission.
    """

    def __init__(
        self, store: Store, options_of: OptionsOf, texts: ReplyTexts, *, servers: SessionServers | None = None
    ) -> None:
        self._store = store
        self._options_of = options_of
        self._texts = texts
        self._servers = servers
        self._hosted: dict[str, _Hosted] = {}
        # Protects the making of a runner: of two prompts at the same time, one makes it.
        self._lock = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed = False

    def start(self) -> None:
        """Run what servers that ended have left behind in sessions of the studio, and what is queued for them."""
        self._tasks = [
            asyncio.create_task(self._sweep(), name="sideband-studio-sweep"),
            asyncio.create_task(self._follow(), name="sideband-studio-follow"),
        ]

    async def _sweep(self) -> None:
        """Look for turns whose server has ended."""
        earliest, latest = 0, now_ms()
        while True:
            try:
                await self._resume_left(earliest=earliest, latest=latest)
            except Exception as error:  # noqa: BLE001 - the next sweep may succeed
                LOG.warning("sessions that were left behind cannot be looked for: %s", describe(error))
            await asyncio.sleep(SWEEP_SECONDS)
            earliest, latest = now_ms() - RECENT_MS, now_ms() - SILENT_MS

    async def _follow(self) -> None:
        """Run messages that other programs queue for sessions of the studio that have no runner yet."""
        after: int | None = None
        while True:
            try:
                # Older ones are found by the sweep.
                after = await self._store.last_sequence() if after is None else after
                async with aclosing(self._store.journal.subscribe(after=after)) as rows:
                    async for row in rows:
                        after = row.sequence
                        if isinstance(row.event, InjectAccepted) and row.session_id not in self._hosted:
                            await self._host_if_own(row.session_id)
            except CursorLost:
                continue
            except CursorExpired as expired:
                after = expired.oldest
            except Exception as error:  # noqa: BLE001 - the sweep finds what is missed meanwhile
                LOG.warning("messages of other programs are noticed late: %s", describe(error))
                await asyncio.sleep(SWEEP_SECONDS)
            else:
                # The store was closed.
                return

    async def _host_if_own(self, session_id: str) -> None:
        waits = await self._store.journal.read(
            session_id, lambda state: state.records.get(SERVICE_RECORD) == SERVICE and bool(state.inbox.waiting(None))
        )
        if waits.value and (session := await self._store.find(session_id)) is not None:
            await self._host(session)

    async def _resume_left(self, *, earliest: int, latest: int) -> None:
        """Run what was left in sessions of the studio whose last event is of this time, in milliseconds."""
        before: int | None = None
        while True:
            page = await self._store.sessions(records={SERVICE_RECORD: SERVICE}, before=before, limit=1_000)
            for entry in page.sessions:
                if entry.session_id not in self._hosted and earliest <= entry.changed_at <= latest:
                    try:
                        await self._resume_one(entry.session_id)
                    except StoreError as error:
                        # The others can be run nevertheless.
                        LOG.warning("session %s cannot be continued: %s", entry.session_id, describe(error))
            before = page.next_before
            if before is None:
                return

    async def _resume_one(self, session_id: str) -> None:
        left = await self._store.journal.read(
            session_id,
            lambda state: not (state.closed or state.attended) and (state.running or bool(state.inbox.waiting(None))),
        )
        if left.value and (session := await self._store.find(session_id)) is not None:
            await self.begin(session)

    async def begin(self, session: Session) -> None:
        """Run what waits in a session that was begun here, or that no process runs any more."""
        await self._host(session, own=[entry.item.id for entry in await session.waiting()])

    async def accept(self, session: Session, queue: Callable[[], Awaitable[str]], *, must_run: bool = False) -> str:
        """Accept a message that may start a turn, and run it here if there is a model; return its id.

        With `must_run`, `NoModel` if there is none.
        """
        hosted = await self._host(session)
        if hosted is None:
            if must_run:
                raise NoModel
            return await queue()
        hosted.accepting += 1
        try:
            message_id = await queue()
            hosted.accepted.append(message_id)
        finally:
            hosted.accepting -= 1
        return message_id

    async def close(self) -> None:
        """Stop. Turns in sessions of the studio are left open for the next server, others are cancelled."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        async with self._lock:
            self._is_closed = True
            hosted, self._hosted = self._hosted, {}
        for error in await asyncio.gather(*(each.close() for each in hosted.values()), return_exceptions=True):
            if isinstance(error, Exception):
                LOG.error("a studio run could not be shut down cleanly", exc_info=error)
        if self._servers is not None:
            await self._servers.close()

    async def _host(self, session: Session, *, own: Sequence[str] = ()) -> _Hosted | None:
        async with self._lock:
            if session.id in self._hosted:
                # The one that was used last is at the end.
                self._hosted[session.id] = self._hosted.pop(session.id)
                return self._hosted[session.id]
            if self._is_closed:
                raise StoreClosed
            given = await self._options_of(session)
            if given is None:
                return None
            await self._release_idle()
            hosted = _Hosted()
            hosted.accepted.extend(own)
            hosted.is_resumable = (await session.records()).get(SERVICE_RECORD) == SERVICE
            hosted.runner = self._runner(session, hosted, given)
            hosted.starting = asyncio.create_task(self._begin(session, hosted), name="sideband-studio-run")
            self._hosted[session.id] = hosted
            return hosted

    async def _release_idle(self) -> None:
        """Give up runners that have been idle longest, if there are too many."""
        idle = [name for name, hosted in self._hosted.items() if not hosted.has_work]
        for name in idle[: max(0, len(self._hosted) + 1 - _MAX_HOSTED)]:
            hosted = self._hosted.pop(name)
            await hosted.close()
            if self._servers is not None:
                await self._servers.detach(hosted.runner.session, hosted.server_tools)

    def _runner(self, session: Session, hosted: _Hosted, given: AgentOptions) -> Runner:
        tools = read_tools(given.get("tools", ()))
        options: AgentOptions = {"permission": RecordedPermission(session, refuser="the user"), **given}
        if "watcher" not in options:
            options["watcher"] = watcher_of(given.get("tools", ()), tools)
        options["tools"] = LiveTools(lambda: [*tools, *hosted.server_tools])

        def replied(reply_id: str, text: str) -> None:
            request = session.talk.state.request
            self._texts.add(session.id, reply_id, 1 if request is None else request.attempt, text)

        return Runner(
            session,
            resume="always" if hosted.is_resumable else False,
            on_reply=replied,
            is_own=hosted.is_own,
            **options,
        )

    async def _begin(self, session: Session, hosted: _Hosted) -> None:
        """Start the runner after the servers are connected, or have had their time for it."""
        if self._servers is not None:
            try:
                hosted.server_tools = await self._servers.attach(session, ())
            except Exception:  # noqa: BLE001 - a session is of use without its servers, too
                LOG.exception("session %s: its MCP servers cannot be used", session.id)
        hosted.runner.start()
