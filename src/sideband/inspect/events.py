"""The events of a store as observers see them, as JSON lines or as rows of a table."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import msgspec

from sideband.core.errors import CursorExpired, CursorLost, InvalidOption, shown
from sideband.core.events import Event, InjectAccepted, Injected, Queued
from sideband.core.topic import KINDS, Correlation, publish
from sideband.inspect.report import moment, printable
from sideband.inspect.sessions import inspect_store, stored_session
from sideband.ports import Journal, Logged
from sideband.runtime.system import uuid7_ms
from sideband.store.inspector import Inspector

PREFIX: Final = "transcript."
"""Every kind of published event begins with this."""

HEADING: Final = f"{'sequence':>9}  {'time':<24}  {'session':<20}  {'kind':<27}  about"
# Payload fields that are left out of a row: the session has its own column, the others are always empty here.
_OMITTED: Final = ("session_id", "task_id", "agent_id")


class EventLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One published event; `time` is in RFC 3339 (None: the journal does not record it)."""

    sequence: int
    session: str
    kind: str
    time: str | None = None
    payload: dict[str, Any]


def line_of(logged: Logged) -> EventLine | None:
    """The published form of an event, without bodies and with secrets masked; None for events that are not published."""
    published = publish(logged.event, Correlation(session_id=logged.session_id))
    if published is None:
        return None
    return EventLine(
        sequence=logged.sequence,
        session=logged.session_id,
        kind=published.kind,
        time=_time(logged.event),
        payload=published.payload,
    )


def _time(event: Event) -> str | None:
    """The time of acceptance, which is part of an id that Sideband minted; ids chosen by a caller do not hold it."""
    match event:
        case Queued(item=item) if item.caller_id is None:
            minted = uuid7_ms(item.id)
        case InjectAccepted(item=message):
            minted = uuid7_ms(message.message_id)
        case Injected(reminder=reminder, seam=None):
            minted = uuid7_ms(reminder.id)
        case _:
            minted = None
    return None if minted is None else moment(minted)


def as_json(line: EventLine) -> str:
    return msgspec.json.encode(line).decode()


def as_row(line: EventLine) -> str:
    """A row of the table under `HEADING`, with control characters escaped."""
    session, about = printable(line.session), printable(" ".join(_about(line.payload)))
    kind = line.kind.removeprefix(PREFIX)
    return f"{line.sequence:>9}  {line.time or '':<24}  {session:<20}  {kind:<27}  {about}"


def _about(payload: dict[str, Any]) -> Iterator[str]:
    for name, value in payload.items():
        if name not in _OMITTED and value not in (None, [], {}):
            yield f"{name}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}"


class EventQuery(NamedTuple):
    """Which events to read; `after=None` begins with the oldest event that is kept."""

    session: str | None = None
    kind: str = ""
    after: int | None = None
    follow: bool = False


def check_filter(wanted: EventQuery) -> None:
    """Raise `InvalidOption` for a filter that cannot match any event."""
    if not any(name.startswith(wanted.kind) for name in KINDS.values()):
        near = [name for name in KINDS.values() if wanted.kind in name] or sorted(KINDS.values())
        raise InvalidOption(f"no kind begins with {shown(wanted.kind)}; use {', '.join(near)}", field="kind")
    if wanted.after is not None and wanted.after < 0:
        raise InvalidOption(f"after must be a sequence number, not {wanted.after}", field="after", value=wanted.after)


async def read_lines(
    store_url: str, wanted: EventQuery, *, notify: Callable[[str], None]
) -> AsyncGenerator[EventLine, None]:
    """Yield the events that match; `notify` is called with remarks for the user."""
    from sideband.runtime.store import open_store  # noqa: PLC0415 - the help of a command does not need it

    # Opening would create a store that does not exist; inspecting raises.
    with inspect_store(store_url) as found:
        if wanted.session is not None:
            _require_session(found, wanted.session, follow=wanted.follow, notify=notify)
    async with open_store(store_url) as store, aclosing(_entries(store.journal, wanted, notify)) as entries:
        async for logged in entries:
            line = line_of(logged)
            if line is not None:
                yield line


def _require_session(store: Inspector, session: str, *, follow: bool, notify: Callable[[str], None]) -> None:
    """Raise `InvalidOption` if there is no such session, unless the caller waits for it with `follow`."""
    # Looking for its first row avoids listing all sessions in the common case.
    if next(store.entries(session), None) is not None:
        return
    try:
        stored_session(store, session)
    except InvalidOption:
        if not follow:
            raise
        notify(f"there is no session {shown(session)} yet")


async def _entries(journal: Journal, wanted: EventQuery, notify: Callable[[str], None]) -> AsyncGenerator[Logged, None]:
    read = journal.subscribe if wanted.follow else journal.history
    kind_prefix, after = wanted.kind or PREFIX, wanted.after
    while True:
        try:
            async with aclosing(read(session_id=wanted.session, kind_prefix=kind_prefix, after=after or 0)) as source:
                async for logged in source:
                    after = logged.sequence
                    yield logged
        except CursorLost as lost:
            # This reader fell behind the writers and its buffer overflowed; the journal still has the events.
            after = lost.seen
        except CursorExpired as expired:
            if after is not None:
                raise
            after = expired.oldest
            notify(f"some events up to {after} have been pruned; the output begins after {after}")
        else:
            return
