"""What one session of a store holds: its pending items and its conversation, read without opening the store."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from sideband.core.errors import StoreDamaged, shown
from sideband.core.events import QueuedReminder
from sideband.core.messages import is_content
from sideband.core.reminder import Reminder
from sideband.core.state import PendingState, SessionState, pending, waiting
from sideband.core.trust import Provenance
from sideband.inspect.sessions import inspect_store, state_word, stored_session
from sideband.store.inspector import UnreadableSession, restored


class SessionContent(NamedTuple):
    """A session as it stands now; `word` says whether it is idle, running, left or closed."""

    session_id: str
    word: str
    state: SessionState


def session_content(store_url: str, session_id: str | None) -> SessionContent:
    """Read a session (None: the only open one)."""
    with inspect_store(store_url) as store:
        stored = stored_session(store, session_id)
        try:
            state = restored(store, stored)
        except UnreadableSession as error:
            raise StoreDamaged(f"session {shown(stored.session_id)} cannot be read: {error}") from error
        return SessionContent(stored.session_id, state_word(state, stored), state)


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a message; blocks of another kind are named."""
    content = message.get("content", "")
    if not is_content(content):
        return msgspec.json.encode(content).decode()
    if isinstance(content, str):
        return content
    parts = (block["text"] if "text" in block else f"[{block.get('type', 'block')}]" for block in content)
    return "\n".join(parts)


# What is pending.


class PendingItem(NamedTuple):
    """A queued or live item of a session.

    `position` counts from 0 within its state. `mode` is None for a live reminder, and `reminder` is None for a message.
    """

    state: PendingState
    position: int
    kind: str
    id: str
    mode: str | None
    text: str
    provenance: Provenance
    reminder: Reminder | None = None

    def as_dict(self) -> dict[str, Any]:
        """The item for programs; fields that are None are left out."""
        sender = self.provenance
        known = {
            "state": self.state,
            "position": self.position,
            "kind": self.kind,
            "id": self.id,
            "mode": self.mode,
            "trust": sender.trust.name.lower(),
            "principal": sender.principal,
            "provider_id": sender.provider_id,
            "via": sender.via,
            "reminder": None if self.reminder is None else self.reminder.as_dict(),
            "text": self.text if self.reminder is None else None,
        }
        return {name: value for name, value in known.items() if value is not None}


def pending_items(state: SessionState) -> Iterator[PendingItem]:
    """The inbox in acceptance order, then the live reminders in the order in which they are shown."""
    for entry in waiting(state):
        item = entry.item
        reminder = item.reminder if isinstance(item, QueuedReminder) else None
        text = item.reminder.body if isinstance(item, QueuedReminder) else message_text({"content": list(item.content)})
        yield PendingItem(
            PendingState.QUEUED, entry.position, entry.kind, item.id, entry.mode.value, text, item.provenance, reminder
        )
    for place, reminder, provenance in (
        (found.place, found.reminder, found.provenance) for found in pending(state) if found.state is PendingState.LIVE
    ):
        yield PendingItem(PendingState.LIVE, place, "reminder", reminder.id, None, reminder.body, provenance, reminder)
