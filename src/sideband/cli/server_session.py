"""A session of a running `sideband serve` as the target of a command: find it, read it, and tell it something."""

import asyncio
import difflib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from sideband.cli.server_client import ServerClient, snake_names
from sideband.cli.target import StudioAddress
from sideband.core.errors import CursorExpired, InvalidOption, UnknownSession, shown
from sideband.core.reminder import Propagate, Reminder, ReminderId, RoleHint, Source
from sideband.core.state import PendingState
from sideband.core.surfaces import Case, spelled
from sideband.core.topic import TopicRecord
from sideband.core.transcript import Transcript
from sideband.core.trust import Provenance, Trust
from sideband.inspect.conversation import PendingItem
from sideband.inspect.events import EventQuery
from sideband.inspect.history import SessionHistory
from sideband.inspect.report import CommandError, printable
from sideband.inspect.sessions import LISTED, NEAR
from sideband.inspect.timeline import Timeline
from sideband.runtime.producer import Accepted, RevokeStatus
from sideband.runtime.system import moment

_ShapeT = TypeVar("_ShapeT")
PAGE_SESSIONS: Final = 1_000


# Shapes of the server's answers.


class ServedSession(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session as the server lists it; `parent` is the session that made this sub-agent."""

    id: str
    state: str
    turn: int
    live: int
    queued: int
    changed_at: int
    title: str | None = None
    agent: str | None = None
    parent: str | None = None

    @property
    def about(self) -> str | None:
        return self.title or self.agent

    @property
    def changed(self) -> str:
        return moment(self.changed_at, timespec="seconds")

    def summary(self) -> dict[str, str | int | None]:
        """The session as `sideband sessions --json` prints it; a server does not tell of its last event."""
        return {
            "session": self.id,
            "state": self.state,
            "turn": self.turn,
            "pending": self.live + self.queued,
            "changed": self.changed,
            "about": self.about,
        }

    def brief(self) -> str:
        """The session on one line, for an error that asks to choose one."""
        known = (self.id, self.state, f"changed {self.changed}" if self.changed_at else None, self.about)
        return printable("  ".join(word for word in known if word))


class _Page(msgspec.Struct, frozen=True):
    sessions: list[ServedSession]
    next: int | None = None


class _Reminded(msgspec.Struct, frozen=True, rename="camel"):
    reminder_id: str
    deduped_count: int
    accepted_at: str
    requested: dict[str, Any] = {}
    effective: dict[str, Any] = {}


class _Sent(msgspec.Struct, frozen=True, rename="camel"):
    message_id: str


class _Status(msgspec.Struct, frozen=True):
    status: RevokeStatus


class _Removed(msgspec.Struct, frozen=True, rename="camel"):
    removed_count: int


class _Sender(msgspec.Struct, frozen=True, rename="camel"):
    trust: str
    principal: str | None = None
    provider_id: str | None = None
    via: str | None = None


class _Record(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    body: str
    tags: tuple[str, ...] = ()
    dedupe_key: str | None = None
    ttl_turns: int | None = None
    preserve_on_compact: bool = False
    propagate: Propagate = Propagate.SESSION
    role_hint: RoleHint = RoleHint.SYSTEM
    source: Source = Source.IN_PIPELINE
    fired_at_turn: int = 0
    originating_agent_id: str | None = None


class _PendingRow(msgspec.Struct, frozen=True):
    state: PendingState
    position: int
    kind: str
    id: str
    sender: _Sender
    mode: str | None = None
    text: str = ""
    reminder: _Record | None = None


class _PendingRows(msgspec.Struct, frozen=True):
    pending: list[_PendingRow]


class _Facts(msgspec.Struct, frozen=True):
    facts: list[dict[str, Any]]


class _AddedFact(msgspec.Struct, frozen=True):
    id: str
    refreshed: bool


class _Forgotten(msgspec.Struct, frozen=True):
    removed: bool


class _Events(msgspec.Struct, frozen=True):
    events: list[TopicRecord]
    last: int
    more: bool


class _Expired(msgspec.Struct, frozen=True):
    oldest: int


class Server:
    """What a command reads from a running server."""

    def __init__(self, url: str) -> None:
        self.client = ServerClient(url)
        self.url = self.client.url

    def read(self, raw: bytes, shape: type[_ShapeT]) -> _ShapeT:
        """An answer of this shape; `CommandError` if the server, perhaps of another version, sends another one."""
        try:
            return msgspec.json.decode(raw, type=shape)
        except (msgspec.DecodeError, ValueError) as error:
            raise CommandError(f"the answer of the server at {self.url} cannot be read: {error}") from None

    # Sessions.

    def sessions(self) -> Iterator[ServedSession]:
        """Every session, those that were begun last first."""
        before: int | None = None
        while True:
            page = self.read(self.client.get("sessions", before=before, limit=PAGE_SESSIONS), _Page)
            yield from page.sessions
            before = page.next
            if before is None:
                return

    def find(self, session_id: str | None) -> ServedSession:
        """The session with this id (None: the only open one); `CommandError` if there is none."""
        if session_id is None:
            return self._only_open()
        try:
            return self.read(self.client.get("sessions", session_id), ServedSession)
        except UnknownSession as error:
            raise self._unknown(session_id, error.code) from None

    def _only_open(self) -> ServedSession:
        every = sorted(self.sessions(), key=lambda found: found.changed_at, reverse=True)
        if not every:
            raise CommandError(f"there is no session at {self.url}")
        opened = [found for found in every if found.state != "closed"]
        # Those of sub-agents stay open when the sub-agent has ended.
        opened = [found for found in opened if found.parent is None] or opened
        if len(opened) == 1:
            return opened[0]
        which = "several sessions are open" if opened else "no session is open"
        what = "choose one" if opened else "choose a closed one"
        raise CommandError(f"{which} at {self.url}; {what} with --to {self.url}#ID:", _briefs(opened or every))

    def _unknown(self, session_id: str, code: str) -> CommandError:
        what = f"there is no session {shown(session_id)} at {self.url}"
        every = {found.id: found for found in self.sessions()}
        if not every:
            return CommandError(f"{what}, which has no sessions", code=code)
        alike = [other for other in every if session_id in other]
        near = [*dict.fromkeys([*alike, *difflib.get_close_matches(session_id, every, n=NEAR)])][:NEAR]
        if near:
            return CommandError(f"{what}; similar ids are:", _briefs([every[other] for other in near]))
        return CommandError(f"{what}, which has:", _briefs([*every.values()]))

    # One session.

    def history(self, session_id: str | None, *, turns: int | None = None) -> SessionHistory:
        """What happened in a session, and its conversation."""
        found = self.find(session_id)
        try:
            timeline = Timeline.from_json(self.client.get("sessions", found.id, "timeline", turns=turns))
            transcript = Transcript.from_json(self.client.get("sessions", found.id, "transcript"))
        except InvalidOption as error:
            raise CommandError(f"the answer of the server at {self.url} cannot be read: {error}") from None
        return SessionHistory(found.state, timeline, transcript)

    def pending(self, session_id: str) -> list[PendingItem]:
        """The inbox in acceptance order, then the live reminders."""
        rows = self.read(self.client.get("sessions", session_id, "pending"), _PendingRows)
        return [*map(_pending_item, rows.pending)]

    # Facts.

    def facts(self, *, query: str | None, namespace: str | None) -> list[dict[str, Any]]:
        """The facts of the server's store, as `sideband facts --json` prints them."""
        return self.read(self.client.get("facts", query=query, namespace=namespace), _Facts).facts

    def add_fact(self, *, kind: str, claim: str, confidence: float, namespace: str | None) -> tuple[str, bool]:
        """Add a fact to the server's store; its id, and whether the store had it already."""
        fact = {"kind": kind, "claim": claim, "confidence": confidence}
        body = fact if namespace is None else {**fact, "namespace": namespace}
        added = self.read(self.client.post("facts", body=body), _AddedFact)
        return added.id, added.refreshed

    def remove_fact(self, fact_id: str, *, namespace: str | None) -> bool:
        """Remove a fact; whether there was one."""
        return self.read(self.client.delete("facts", fact_id, namespace=namespace), _Forgotten).removed

    # Events.

    def events(self, wanted: EventQuery, *, notify: Callable[[str], None]) -> Generator[TopicRecord, None, None]:
        """The events that match, as `read_topic` yields those of a store."""
        after, path = wanted.after or 0, self._events_path(wanted, notify)
        only = wanted.session if path == ("events",) else None
        try:
            yield from self._matching(path, wanted, after, only, notify)
        except CursorExpired as expired:
            if wanted.after is not None:
                raise
            notify(f"some events up to {expired.oldest} have been pruned; the output begins after {expired.oldest}")
            yield from self._matching(path, wanted, expired.oldest, only, notify)

    def _events_path(self, wanted: EventQuery, notify: Callable[[str], None]) -> tuple[str, ...]:
        if wanted.session is None:
            return ("events",)
        try:
            self.find(wanted.session)
        except CommandError:
            if not wanted.follow:
                raise
            # Its events are among those of all sessions once it is begun.
            notify(f"there is no session {shown(wanted.session)} yet")
            return ("events",)
        return ("sessions", wanted.session, "events")

    def _matching(
        self, path: Sequence[str], wanted: EventQuery, after: int, only: str | None, notify: Callable[[str], None]
    ) -> Iterator[TopicRecord]:
        records = (
            self._followed(path, wanted.kind, after, notify) if wanted.follow else self._past(path, wanted.kind, after)
        )
        for record in records:
            if only is None or record.session_id == only:
                yield record

    def _past(self, path: Sequence[str], kind: str, after: int) -> Iterator[TopicRecord]:
        while True:
            page = self.read(self.client.get(*path, kind=kind or None, after=after), _Events)
            yield from page.events
            after = page.last
            if not page.more:
                return

    def _followed(
        self, path: Sequence[str], kind: str, after: int, notify: Callable[[str], None]
    ) -> Iterator[TopicRecord]:
        with closing(self.client.follow(*path, after=after, notify=notify, kind=kind or None)) as events:
            for event in events:
                if event.name == "event":
                    record = self.read(event.data, TopicRecord)
                    after = record.seq
                    yield record
                elif event.name == "expired":
                    raise CursorExpired(after, self.read(event.data, _Expired).oldest)


def _briefs(sessions: Sequence[ServedSession]) -> list[str]:
    lines = [found.brief() for found in sessions[:LISTED]]
    return lines if len(sessions) <= LISTED else [*lines, "..."]


def _pending_item(row: _PendingRow) -> PendingItem:
    record = row.reminder
    reminder = None if record is None else Reminder(**{**msgspec.structs.asdict(record), "id": ReminderId(record.id)})
    sender = row.sender
    provenance = Provenance(
        trust=Trust[sender.trust.upper()] if sender.trust.upper() in Trust.__members__ else Trust.CONTENT,
        principal=sender.principal,
        provider_id=sender.provider_id,
        via=sender.via,
    )
    text = row.text if reminder is None else reminder.body
    return PendingItem(row.state, row.position, row.kind, row.id, row.mode, text, provenance, reminder)


# Telling a session something.


class ServerRecipient:
    """Tells a session of a server what a command tells a stored session."""

    def __init__(self, server: Server, session_id: str) -> None:
        self._server = server
        self._session_id = session_id

    async def _post(self, action: str, body: Mapping[str, Any], shape: type[_ShapeT]) -> _ShapeT:
        raw = await asyncio.to_thread(self._server.client.post, "sessions", self._session_id, action, body=body)
        return self._server.read(raw, shape)

    async def remind(self, payload: Mapping[str, Any], /) -> Accepted:
        """Send a reminder; `id` of the payload is the idempotency key."""
        fields = {spelled(name, Case.CAMEL): value for name, value in payload.items() if name != "id"}
        if "id" in payload:
            fields["_meta"] = {"sideband": {"idempotencyKey": payload["id"]}}
        reminded = await self._post("remind", fields, _Reminded)
        return Accepted(
            ReminderId(reminded.reminder_id),
            reminded.deduped_count,
            snake_names(reminded.requested),
            snake_names(reminded.effective),
            _milliseconds(reminded.accepted_at),
        )

    async def inject(self, content: str, /, *, mode: str) -> str | None:
        """Send a user message and return its id."""
        return (await self._post("inject", {"content": content, "mode": mode}, _Sent)).message_id

    async def revoke(self, item_id: str, /) -> RevokeStatus:
        """Withdraw a reminder or message that waits."""
        return (await self._post("revoke", {"id": item_id}, _Status)).status

    async def clear(self, *, id: str | None = None, tag: str | None = None, dedupe_key: str | None = None) -> int:
        """End the reminders that match."""
        selector = {"id": id, "tag": tag, "dedupeKey": dedupe_key}
        given = {name: value for name, value in selector.items() if value is not None}
        return (await self._post("clear", given, _Removed)).removed_count


def recipient_at(wanted: StudioAddress) -> tuple[str, ServerRecipient]:
    """The id of the session that is meant, and what tells it something."""
    server = Server(wanted.url)
    session_id = server.find(wanted.session_id).id
    return session_id, ServerRecipient(server, session_id)


def _milliseconds(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000)
    except ValueError:
        return 0
