"""The events of a store as observers see them, as JSON lines or as rows of a table."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import msgspec

from sideband.core.errors import CursorExpired, InvalidOption, shown
from sideband.core.topic import KINDS, TopicRecord
from sideband.inspect.report import CommandError, padded, printable, printable_json
from sideband.inspect.sessions import inspect_store, stored_session
from sideband.ports import Journal
from sideband.runtime.updates import topic
from sideband.store.inspector import Inspector

PREFIX: Final = "transcript."
"""Every kind of published event begins with this."""

HEADING: Final = f"{'sequence':>9}  {'time':<24}  {'session':<20}  {'kind':<27}  about"


def as_json(record: TopicRecord) -> str:
    return printable_json(record)


def as_row(record: TopicRecord) -> str:
    """A row of the table under `HEADING`, with control characters escaped."""
    session, about = printable(record.session_id or ""), printable(" ".join(_about(record.payload)))
    kind = record.kind.removeprefix(PREFIX)
    return f"{record.seq:>9}  {record.time or '':<24}  {padded(session, 20)}  {kind:<27}  {about}"


def _about(payload: dict[str, Any]) -> Iterator[str]:
    for name, value in payload.items():
        # The session has a column of its own.
        if name != "session_id" and value not in (None, [], {}):
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
        near = [name for name in KINDS.values() if wanted.kind in name] or [*_every_kind()]
        raise InvalidOption(f"no kind begins with {shown(wanted.kind)}; use {', '.join(near)}", field="kind")
    if wanted.after is not None and wanted.after < 0:
        raise InvalidOption(f"after must be a sequence number, not {wanted.after}", field="after", value=wanted.after)


def _every_kind() -> Iterator[str]:
    """All kinds in order; those that begin like the one before are shortened to their last word."""
    before = ""
    for name in sorted(KINDS.values()):
        prefix, _, word = name.rpartition(".")
        yield f".{word}" if prefix == before else name
        before = prefix


async def read_topic(
    store_url: str, wanted: EventQuery, *, notify: Callable[[str], None]
) -> AsyncGenerator[TopicRecord, None]:
    """Yield the events that match; `notify` is called with remarks for the user."""
    from sideband.runtime.store import open_store  # noqa: PLC0415 - the help of a command does not need it

    # Opening would create a store that does not exist; inspecting raises.
    with inspect_store(store_url) as found:
        if wanted.session is not None:
            _require_session(found, wanted.session, follow=wanted.follow, notify=notify)
    async with open_store(store_url) as store, aclosing(_records(store.journal, wanted, notify)) as records:
        async for record in records:
            yield record


def _require_session(store: Inspector, session: str, *, follow: bool, notify: Callable[[str], None]) -> None:
    """Raise `CommandError` if there is no such session, unless the caller waits for it with `follow`."""
    # Looking for its first row avoids listing all sessions in the common case.
    if next(store.entries(session), None) is not None:
        return
    try:
        stored_session(store, session)
    except CommandError:
        if not follow:
            raise
        notify(f"there is no session {shown(session)} yet")


async def _records(
    journal: Journal, wanted: EventQuery, notify: Callable[[str], None]
) -> AsyncGenerator[TopicRecord, None]:
    after = wanted.after
    while True:
        found = topic(
            journal, session_id=wanted.session, kind_prefix=wanted.kind, after=after or 0, follow=wanted.follow
        )
        try:
            async with aclosing(found):
                async for record in found:
                    after = record.seq
                    yield record
        except CursorExpired as expired:
            if after is not None:
                raise
            after = expired.oldest
            notify(f"some events up to {after} have been pruned; the output begins after {after}")
        else:
            return
