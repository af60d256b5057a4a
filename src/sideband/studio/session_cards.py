"""The sessions of a store as a list shows them."""

from typing import Any, Final, NamedTuple

import msgspec

from sideband.core.state import SessionState
from sideband.core.topic import AGENT_RECORD
from sideband.ports import SessionEntry
from sideband.runtime.store import Store
from sideband.runtime.workers import WORKER_RECORD

TITLE_RECORD: Final = "title"
REHEARSAL_RECORD: Final = "rehearsal"
LISTED: Final = 100
"""The number of sessions on a page of the list, if a request names none."""


class SessionCard(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A session in the list.

    `state` is `idle`, `running`, `asking` (it runs and waits for a permission), `left` (the process that ran it has died)
    or `closed`; the event stream also tells of those that are `deleted`. `parent` is the session that made this
    sub-agent. `turn` is the last committed one, and `open_turn` the one whose reply is awaited. `changed_at` is in
    milliseconds since the epoch.
    """

    id: str
    state: str
    turn: int
    live: int
    queued: int
    changed_at: int
    open_turn: int | None = None
    title: str | None = None
    agent: str | None = None
    parent: str | None = None
    model: str | None = None
    rehearsal: bool = False


class SessionCards(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Sessions, those that were begun last first. `next` is `before` of the next page (None: this is the last one)."""

    sessions: list[SessionCard]
    next: int | None


class _Look(NamedTuple):
    state: str
    turn: int
    open_turn: int | None
    live: int
    queued: int
    model: str | None


def _look(state: SessionState) -> _Look:
    if state.closed:
        word = "closed"
    elif state.running:
        word = "asking" if state.permission_open else "running"
        word = word if state.attended else "left"
    else:
        word = "idle"
    model = None if state.head is None else state.head.model or None
    open_turn = None if state.request is None else state.request.turn
    return _Look(word, state.live.turn, open_turn, len(state.live), len(state.inbox), model)


async def session_cards(store: Store, *, before: int | None = None, limit: int = LISTED) -> SessionCards:
    """One page of the sessions."""
    page = await store.sessions(before=before, limit=limit)
    return SessionCards(sessions=[await _card(store, entry) for entry in page.sessions], next=page.next_before)


async def session_card(store: Store, session_id: str) -> SessionCard | None:
    """One session; None if it does not exist."""
    entry = await store.journal.entry(session_id)
    return None if entry is None else await _card(store, entry)


def deleted_card(session_id: str) -> SessionCard:
    """A session that does not exist any more."""
    return SessionCard(id=session_id, state="deleted", turn=0, live=0, queued=0, changed_at=0)


async def _card(store: Store, entry: SessionEntry) -> SessionCard:
    look = (await store.journal.read(entry.session_id, _look)).value
    records = entry.records
    worker = records.get(WORKER_RECORD)
    return SessionCard(
        id=entry.session_id,
        state=look.state,
        turn=look.turn,
        open_turn=look.open_turn,
        live=look.live,
        queued=look.queued,
        changed_at=entry.changed_at,
        title=_text(records.get(TITLE_RECORD)),
        agent=_text(records.get(AGENT_RECORD)) or (_text(worker.get("name")) if isinstance(worker, dict) else None),
        parent=_text(worker.get("parent")) if isinstance(worker, dict) else None,
        model=look.model,
        rehearsal=records.get(REHEARSAL_RECORD) is True,
    )


def _text(value: Any) -> str | None:  # noqa: ANN401 - any JSON value
    return value if isinstance(value, str) and value.strip() else None
