"""The event stream of the page: the updates of one session, the sessions of the store, and the reply being written.

What many watchers are sent is encoded once. A watcher that is slow reads what it has missed from the journal, so that no
watcher costs memory.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from starlette.types import Receive, Scope, Send

from sideband.core.errors import CursorExpired, CursorLost, ReminderError, StoreClosed, StoreError
from sideband.core.trust import Provenance
from sideband.core.updates import Update, UpdateKind, Viewer
from sideband.inspect.update_json import update_json
from sideband.logs import LOG
from sideband.loop.guard import describe
from sideband.ports import FACTS_SESSION
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from sideband.studio.runs import ReplyText, ReplyTexts
from sideband.studio.session_cards import deleted_card, session_card, session_cards

PING_SECONDS: Final = 15.0
# The frames of a session that are kept for its watchers; a watcher that is further behind reads the journal.
RING_FRAMES: Final = 1_024
RING_BYTES: Final = 4 * 1_024 * 1_024
# The pause in which changes of sessions are collected. It is longer if they would be more bytes per second to all watchers,
# because updates of the sessions come first: 4,000 watchers of 200 busy sessions would be sent 50 MiB per second.
LIST_SECONDS: Final = 0.25
LIST_BYTES_PER_SECOND: Final = 8 * 1_024 * 1_024
_CARD_BYTES: Final = 256
# So many watchers are sent a change of the list at a time.
_LIST_BATCH: Final = 64
_LIST_BATCH_SECONDS: Final = 0.005

_BATCH_BYTES: Final = 64 * 1_024
# How long a stream may take to end.
_LAST_SECONDS: Final = 0.3

_encode: Final = msgspec.json.Encoder().encode
PING: Final = b"event: ping\ndata: {}\n\n"
_HEADERS: Final = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"))


def frame(event: str, data: object, *, sequence: int | None = None) -> bytes:
    """A server-sent event; `sequence` is its id, which a client that reconnects sends back."""
    head = b"" if sequence is None else b"id: %d\n" % sequence
    return b"%sevent: %s\ndata: %s\n\n" % (head, event.encode(), _encode(data))


def _update_frame(update: Update) -> bytes:
    return frame("update", update_json(update), sequence=update.cursor)


# What watchers share.


class _Frame(NamedTuple):
    cursor: int
    data: bytes


class _Ring:
    """The newest frames; complete after `start`."""

    def __init__(self, start: int) -> None:
        self.start = start
        self._frames: deque[_Frame] = deque()
        self._bytes = 0

    def add(self, cursor: int, data: bytes) -> None:
        self._frames.append(_Frame(cursor, data))
        self._bytes += len(data)
        while len(self._frames) > RING_FRAMES or self._bytes > RING_BYTES:
            oldest = self._frames.popleft()
            self.start = oldest.cursor
            self._bytes -= len(oldest.data)

    def after(self, cursor: int) -> list[_Frame]:
        """The frames after this cursor, oldest first."""
        found: list[_Frame] = []
        for entry in reversed(self._frames):
            if entry.cursor <= cursor:
                break
            found.append(entry)
        found.reverse()
        return found


class _Feed(ABC):
    """Frames that several watchers are sent, collected by tasks that run while there are any watchers."""

    def __init__(self) -> None:
        self.ring = _Ring(0)
        # Why no more frames will come; None while they do.
        self.failed: Exception | None = None
        self._watchers: set[asyncio.Event] = set()
        self._is_ready = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, wake: asyncio.Event) -> None:
        """Set the event with each frame; return when the ring is being filled."""
        self._watchers.add(wake)
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._run(collect)) for collect in self._collectors()]
        await self._is_ready.wait()

    def leave(self, wake: asyncio.Event) -> bool:
        """Forget a watcher; return whether it was the last one, so that the tasks are ended."""
        self._watchers.discard(wake)
        if self._watchers:
            return False
        for task in self._tasks:
            task.cancel()
        return True

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    def tell(self, cursor: int, data: bytes) -> None:
        self.ring.add(cursor, data)
        self._wake()

    def ready(self, start: int) -> None:
        """What comes after this position will be in the ring."""
        self.ring.start = start
        self._is_ready.set()

    def _wake(self) -> None:
        for wake in self._watchers:
            wake.set()

    async def _run(self, collect: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await collect()
            self.failed = self.failed or StoreClosed()
        except Exception as error:  # noqa: BLE001 - the watchers end, and their clients connect again
            LOG.warning("an event stream cannot be continued: %s", describe(error))
            self.failed = self.failed or error
        finally:
            self._is_ready.set()
            self._wake()

    @abstractmethod
    def _collectors(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        """What the tasks do."""


class _SessionFeed(_Feed):
    """The updates of one session, as one sender sees them."""

    def __init__(self, session: Session, viewer: Viewer) -> None:
        super().__init__()
        self._session = session
        self._viewer = viewer

    def _collectors(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        return (self._follow,)

    async def _follow(self) -> None:
        at = (await self._session.talk.journal.read(self._session.id, lambda _state: None)).at
        self.ready(at)
        async with aclosing(self._session.updates(self._viewer, after=at)) as updates:
            async for update in updates:
                self.tell(update.cursor, _update_frame(update))
                if update.kind is UpdateKind.SESSION_DELETED:
                    return


class _ListFeed(_Feed):
    """The sessions of the store that have changed; frames are numbered, because several sessions share one."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self.version = 0
        self._beginning: tuple[int, bytes] | None = None
        self._changed: set[str] = set()
        self._has_changed = asyncio.Event()

    def _collectors(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        return (self._follow, self._collect)

    async def beginning(self) -> bytes:
        """The newest sessions of the store, as of this version."""
        version = self.version
        if self._beginning is None or self._beginning[0] != version:
            cards = (await session_cards(self._store)).sessions
            self._beginning = version, b"".join(frame("session", card) for card in cards)
        return self._beginning[1]

    async def after(self, version: int) -> tuple[int, bytes]:
        """What has changed since this version, and the new version."""
        if version < self.ring.start:
            # The watcher was too slow.
            return self.version, await self.beginning()
        found = self.ring.after(version)
        return (found[-1].cursor, b"".join(each.data for each in found)) if found else (version, b"")

    async def _follow(self) -> None:
        after = await self._store.last_sequence()
        self.ready(0)
        while True:
            try:
                async with aclosing(self._store.journal.subscribe(after=after)) as rows:
                    async for row in rows:
                        after = row.sequence
                        self._changed.add(row.session_id)
                        self._has_changed.set()
            except CursorLost:
                continue
            except CursorExpired as expired:
                after = expired.oldest
            else:
                # The store was closed.
                return

    async def _collect(self) -> None:
        while True:
            await self._has_changed.wait()
            await asyncio.sleep(LIST_SECONDS)
            size = len(self._changed) * _CARD_BYTES * self.watchers
            await asyncio.sleep(max(0.0, size / LIST_BYTES_PER_SECOND - LIST_SECONDS))
            self._has_changed.clear()
            changed, self._changed = self._changed, set()
            cards = [
                await session_card(self._store, session_id) or deleted_card(session_id)
                for session_id in changed - {FACTS_SESSION}
            ]
            if cards:
                self.version += 1
                self.ring.add(self.version, b"".join(frame("session", card) for card in cards))
                await self._wake_gently()

    async def _wake_gently(self) -> None:
        """Wake some watchers at a time, so that updates of sessions go out in between."""
        watchers = tuple(self._watchers)
        for place in range(0, len(watchers), _LIST_BATCH):
            for wake in watchers[place : place + _LIST_BATCH]:
                wake.set()
            await asyncio.sleep(_LIST_BATCH_SECONDS)


_FeedT = TypeVar("_FeedT", bound=_Feed)


# Streams.


class Streams:
    """The open streams of a server, of which there may be so many, and what they share."""

    def __init__(self, store: Store, texts: ReplyTexts, *, most: int) -> None:
        self.texts = texts
        self._store = store
        self._most = most
        self._feeds: dict[tuple[str, str], _Feed] = {}
        self._list: _ListFeed | None = None
        self.stopping = asyncio.Event()
        self._open: set[asyncio.Event] = set()

    @property
    def is_full(self) -> bool:
        return len(self._open) >= self._most

    def stop(self) -> None:
        """End all streams; their clients connect again to the next server."""
        self.stopping.set()
        for wake in self._open:
            wake.set()

    async def close(self) -> None:
        self.stop()
        for feed in (*self._feeds.values(), *filter(None, [self._list])):
            await feed.close()

    async def follow(self, session: Session | None, sender: Provenance, *, after: int) -> AsyncGenerator[bytes, None]:
        """The stream of a page; with `session=None` it tells only of the sessions of the store."""
        wake = asyncio.Event()
        self._open.add(wake)
        watcher = _Watcher(self, wake, session, Viewer(provenance=sender), after)
        try:
            async with aclosing(watcher.frames()) as frames:
                async for data in frames:
                    yield data
        finally:
            self._open.discard(wake)
            watcher.leave()

    async def until_stopped(self, frames: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """These frames, with pings while there are none, until the server ends."""
        wake = asyncio.Event()
        self._open.add(wake)
        following = asyncio.ensure_future(anext(frames, None))
        stopping = asyncio.ensure_future(wake.wait())
        try:
            while not self.stopping.is_set():
                await asyncio.wait((following, stopping), timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    yield PING
                    continue
                data = following.result()
                if data is None:
                    return
                yield data
                following = asyncio.ensure_future(anext(frames, None))
        finally:
            self._open.discard(wake)
            for task in (following, stopping):
                task.cancel()
            await asyncio.wait((following, stopping))
            await frames.aclose()

    # What watchers share.

    def list_feed(self) -> _ListFeed:
        if self._list is None or self._list.failed is not None:
            self._list = _ListFeed(self._store)
        return self._list

    def session_feed(self, session: Session, viewer: Viewer) -> _Feed:
        key = session.id, viewer.provenance.sender
        feed = self._feeds.get(key)
        if feed is None or feed.failed is not None:
            self._feeds[key] = feed = _SessionFeed(session, viewer)
        return feed

    def drop(self, feed: _Feed) -> None:
        """Forget a feed that has no watchers any more."""
        self._feeds = {key: other for key, other in self._feeds.items() if other is not feed}
        if feed is self._list:
            self._list = None


class _Watcher:
    """One stream of a page, and what it has been sent."""

    def __init__(
        self, streams: Streams, wake: asyncio.Event, session: Session | None, viewer: Viewer, after: int
    ) -> None:
        self._streams = streams
        self._wake = wake
        self._session = session
        self._viewer = viewer
        self._cursor = after
        self._listed = 0
        self._reply = ("", 0)
        self._text_sent = 0
        self._is_over = False
        self._feeds: list[_Feed] = []

    def leave(self) -> None:
        for feed in self._feeds:
            if feed.leave(self._wake):
                self._streams.drop(feed)
        if self._session is not None:
            self._streams.texts.leave(self._session.id, self._wake)

    async def _join(self, feed: _FeedT) -> _FeedT:
        # Known before it is awaited, so that a watcher that is cancelled now leaves it.
        self._feeds.append(feed)
        await feed.join(self._wake)
        return feed

    async def frames(self) -> AsyncGenerator[bytes, None]:
        listed = await self._join(self._streams.list_feed())
        self._listed = listed.version
        yield await listed.beginning() or PING
        feed = None
        if self._session is not None:
            self._streams.texts.listen(self._session.id, self._wake)
            feed = await self._join(self._streams.session_feed(self._session, self._viewer))
        while not self._streams.stopping.is_set():
            # Cleared first: what happens from here on is either sent below, or sets it again.
            self._wake.clear()
            if feed is not None and self._session is not None:
                async with aclosing(self._news(feed, self._session)) as news:
                    async for data in news:
                        yield data
            self._listed, changed = await listed.after(self._listed)
            if changed:
                yield changed
            failed = next((each.failed for each in self._feeds if each.failed is not None), None)
            if isinstance(failed, CursorExpired) and not self._is_over:
                yield frame("expired", {"oldest": failed.oldest})
            if self._is_over or failed is not None:
                return
            if not await _is_set(self._wake):
                yield PING

    async def _news(self, feed: _Feed, session: Session) -> AsyncGenerator[bytes, None]:
        """The updates that were not sent yet, then the new text of the reply."""
        while self._cursor < (start := feed.ring.start):
            # The watcher begins before the ring, or was too slow for it.
            try:
                async with aclosing(session.updates(self._viewer, after=self._cursor, follow=False)) as past:
                    async for cursor, data in _batches(past):
                        self._cursor = cursor
                        yield data
                        # A client that is gone is noticed, and others have their turn.
                        await asyncio.sleep(0)
            except CursorExpired as expired:
                self._is_over = True
                yield frame("expired", {"oldest": expired.oldest})
                return
            self._cursor = max(self._cursor, start)
        fresh = feed.ring.after(self._cursor)
        if fresh:
            self._cursor = fresh[-1].cursor
            yield b"".join(each.data for each in fresh)
        text, request = self._streams.texts.of(session.id), session.talk.state.request
        is_open = text is not None and request is not None and request.reply_id == text.reply_id
        if text is not None and is_open and (piece := self._unsent(text)):
            yield frame("text", {"replyId": text.reply_id, "attempt": text.attempt, "text": piece})

    def _unsent(self, text: ReplyText) -> str:
        """The part of the reply that was not sent yet, which counts as sent from now on."""
        if self._reply != (text.reply_id, text.attempt):
            self._reply, self._text_sent = (text.reply_id, text.attempt), 0
        piece = text.text[self._text_sent :]
        self._text_sent += len(piece)
        return piece


async def _batches(updates: AsyncIterator[Update]) -> AsyncIterator[tuple[int, bytes]]:
    """The frames of these updates in pieces of a size that is sent well, each with the cursor of its last update."""
    frames: list[bytes] = []
    size = cursor = 0
    async for update in updates:
        frames.append(_update_frame(update))
        size, cursor = size + len(frames[-1]), update.cursor
        if size > _BATCH_BYTES:
            yield cursor, b"".join(frames)
            frames, size = [], 0
    if frames:
        yield cursor, b"".join(frames)


async def _is_set(wake: asyncio.Event) -> bool:
    """Wait for the event, but not longer than a ping is due."""
    try:
        async with asyncio.timeout(PING_SECONDS):
            return await wake.wait()
    except TimeoutError:
        return False


class EventStream:
    """An HTTP response that sends server-sent events until they end, or the client is gone."""

    def __init__(self, events: AsyncGenerator[bytes, None], stopping: asyncio.Event) -> None:
        self._events = events
        self._stopping = stopping

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(until_gone(receive))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((sending, leaving, stopping), return_when=asyncio.FIRST_COMPLETED)
            if self._stopping.is_set():
                # The events end now; a client that does not read is not waited for.
                await asyncio.wait((sending,), timeout=_LAST_SECONDS)
        finally:
            for task in (sending, leaving, stopping):
                task.cancel()
            await asyncio.wait((sending, leaving, stopping))
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        async with aclosing(self._events):
            await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
            try:
                async for data in self._events:
                    await send({"type": "http.response.body", "body": data, "more_body": True})
            except (ReminderError, StoreError) as error:
                # The client connects again, and is told then.
                LOG.info("an event stream has ended: %s", describe(error))
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def until_gone(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
