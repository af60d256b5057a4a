"""What a program is told of a session: its updates, the view that they continue, and the records of the topic."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sideband.core import updates as core
from sideband.core.accept import refuse_stranger
from sideband.core.errors import CursorLost, InvalidOption, shown
from sideband.core.limits import Bound
from sideband.core.state import SessionState
from sideband.core.topic import Correlation, TopicRecord, correlated, correlation_of, publish
from sideband.core.updates import OPERATOR, Update, UpdateKind, View, Viewer
from sideband.ports import Journal, Logged
from sideband.runtime.system import moment

if TYPE_CHECKING:
    from sideband.runtime.session import Session


class Sync(NamedTuple):
    """What a viewer may see of a session, and the cursor that its updates continue from: state and cursor of one commit."""

    view: View
    cursor: int


async def view(session: "Session", viewer: Viewer = OPERATOR) -> Sync:
    """What the viewer may see now; `updates(session, viewer, after=sync.cursor)` continues it without gap or repeat."""
    _check_viewer(viewer)
    found = await session.talk.journal.read(session.id, partial(_view, viewer=viewer))
    return Sync(found.value, found.at)


def _view(state: SessionState, viewer: Viewer) -> View:
    refuse_stranger(state, viewer.provenance)
    return core.view(state, viewer)


async def updates(
    session: "Session", viewer: Viewer = OPERATOR, *, after: int = 0, follow: bool = True
) -> AsyncGenerator[Update, None]:
    """The updates after a cursor that the viewer may see, from every process; with `follow`, the future ones too.

    `CursorExpired` if the events after the cursor were pruned: ask for the `view` again and continue from its cursor.
    """
    _check_viewer(viewer)
    check_cursor(after)
    await session.talk.journal.read(session.id, lambda state: refuse_stranger(state, viewer.provenance))
    held: Update | None = None
    async with aclosing(_rows(session.talk.journal, session.id, after, follow=follow)) as rows:
        async for row in rows:
            update = core.update_of(row.event, viewer, cursor=row.sequence, time=row.time)
            if held is not None:
                # One reminder that replaces several has an event for each, and one update for all.
                merged = core.joined(held, update)
                if merged is None:
                    yield held
                held, update = None, merged or update
            if update is not None and update.kind is UpdateKind.REMINDER_DEDUPED:
                held = update
            elif update is not None:
                yield update
    if held is not None:
        yield held


async def topic(
    journal: Journal, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0, follow: bool = True
) -> AsyncGenerator[TopicRecord, None]:
    """The records of the topic after a sequence number, of one session or of all; with `follow`, the future ones too.

    Task and agent come from the named records of each session.
    """
    check_cursor(after, kind_prefix)
    known: dict[str, Correlation] = {}
    # Events of all kinds are read, because those that set a named record are not part of the topic.
    async with aclosing(_rows(journal, session_id, after, follow=follow)) as rows:
        async for row in rows:
            correlation = known.get(row.session_id)
            if correlation is None:
                entry = await journal.entry(row.session_id)
                # A session has no records before its first event. In the middle, those that it has now are the best guess.
                begins = entry is None or row.sequence <= entry.begun
                correlation = correlation_of(row.session_id, {} if entry is None or begins else entry.records)
            known[row.session_id] = correlation = correlated(correlation, row.event)
            time = moment(row.time) if row.time else None
            record = publish(row.event, correlation, seq=row.sequence, time=time)
            if record is not None and record.kind.startswith(kind_prefix):
                yield record


def check_cursor(after: object, kind_prefix: object = "") -> None:
    """Raise `InvalidOption` if a reader cannot begin after this, or cannot select kinds by this prefix."""
    Bound(0).check("after", after)
    if not isinstance(kind_prefix, str):
        raise InvalidOption(
            f"kind_prefix must be a string, not {shown(kind_prefix)}", field="kind_prefix", value=kind_prefix
        )


def _check_viewer(viewer: object) -> None:
    if not isinstance(viewer, Viewer):
        raise InvalidOption(f"viewer must be a Viewer, not {shown(viewer)}", field="viewer", value=viewer)


async def _rows(
    journal: Journal, session_id: str | None, after: int, *, follow: bool = True
) -> AsyncGenerator[Logged, None]:
    """The rows of the journal after a sequence; a reader that was too slow for the writers continues where it was."""
    seen, read = after, journal.subscribe if follow else journal.history
    while True:
        try:
            async with aclosing(read(session_id=session_id, after=seen)) as rows:
                async for row in rows:
                    seen = row.sequence
                    yield row
        except CursorLost:
            continue
        return
