"""A session of the core and a naive session, described in the same words so that they can be compared."""

from typing import Any

import msgspec

from sideband.core.events import InboxItem, QueuedReminder
from sideband.core.reminder import Reminder
from sideband.core.state import SessionState
from sideband.core.trust import Provenance
from tests.naive_session import NaiveSession, Note, Who


def core_view(state: SessionState) -> dict[str, Any]:
    """What a session of the core holds, in the words of the naive session."""
    request = state.request
    return {
        "queued": [noted_item(item) for item in state.inbox.items()],
        "live": [
            {
                **noted(state.live.current(item), item.provenance),
                "seen": item.first_turn is not None,
                "missed": item.left_out,
            }
            for item in state.live
        ],
        "audit": [noted(entry.reminder, entry.provenance) for entry in state.audit],
        "messages": [_message(message) for message in state.messages],
        "calls": list(state.open_calls),
        "request": None if request is None else (request.turn, request.attempt),
        "turn": state.live.turn,
        "windows": state.window,
        "skipped": state.skipped_batches,
        "running": state.running,
        "held": state.queue_held,
        "asking": state.permission_open,
        "ended": state.closed_reason,
        "deleted": state.deleted,
        "records": state.records,
    }


def naive_view(naive: NaiveSession) -> dict[str, Any]:
    request = naive.request
    return {
        "queued": naive.queued,
        "live": [_drained(note) for note in naive.live],
        "audit": [_drained(note) for note in naive.audit],
        "messages": naive.messages,
        "calls": naive.calls,
        "request": None if request is None else (request.turn, request.attempt),
        "turn": naive.turn,
        "windows": naive.windows,
        "skipped": naive.skipped,
        "running": naive.running,
        "held": naive.held,
        "asking": naive.asking,
        "ended": naive.ended,
        "deleted": naive.deleted,
        "records": naive.records,
    }


def noted(reminder: Reminder, provenance: Provenance) -> Note:
    """A record of the core, in the words of the naive session."""
    fields = msgspec.structs.asdict(reminder)
    fields["origin"] = fields.pop("originating_agent_id")
    who = Who(provenance.trust.value, provenance.principal)
    return {**fields, "kind": "reminder", "who": who, "hops": provenance.hops}


def noted_item(item: InboxItem) -> Note:
    if isinstance(item, QueuedReminder):
        request = {"line": item.caller_id, "version": item.version, "accepted_at": item.accepted_at}
        return {**noted(item.reminder, item.provenance), "mode": item.mode, **request}
    return {
        "kind": "user",
        "id": item.id,
        "who": Who(item.provenance.trust.value, item.provenance.principal),
        "text": item.content[0]["text"],
        "mode": item.mode,
        "revision": item.revision,
    }


def _message(message: dict[str, Any]) -> str:
    match message["role"]:
        case "tool":
            return f"tool {message['tool_call_id']} {message['status']}"
        case "user":
            return f"user {message['content'][0]['text']}"
        case role:
            return f"{role} {message['content']}"


def _drained(note: Note) -> Note:
    """A drained reminder: it has no mode any more, and the session has forgotten the request."""
    return {name: value for name, value in note.items() if name not in ("mode", "line", "version", "accepted_at")}
