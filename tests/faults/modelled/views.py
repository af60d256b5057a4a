"""What is compared: a session as its store has it, and as the model has it, in the same words."""

from typing import Any

from sideband.core.items import QueuedReminder
from sideband.core.state import SessionState
from tests.faults.modelled.model import Model


def known(state: SessionState) -> dict[str, Any]:
    """What a session says of itself, in the words of the model."""
    request = state.request
    return {
        "queue": [(item.id, item.waits_in, _text(item)) for item in state.inbox.items()],
        "live": [(item.id, state.live.remaining(item)) for item in state.live],
        "recorded": [entry.reminder.id for entry in state.audit],
        "said": [_said(message) for message in state.messages],
        "calls": list(state.open_calls),
        "request": None if request is None else (request.turn, request.attempt),
        "turn": state.live.turn,
        "running": state.running,
        "skipped": state.skipped_batches,
    }


def _text(item: Any) -> str:  # noqa: ANN401 - a reminder or a message
    return item.reminder.body if isinstance(item, QueuedReminder) else item.content[0]["text"]


def _said(message: dict[str, Any]) -> str:
    match message["role"]:
        case "tool":
            return f"tool {message['tool_call_id']} {message['status']}"
        case "user":
            return f"user {message['content'][0]['text']}"
        case role:
            return f"{role} {message['content']}"


def expected(model: Model) -> dict[str, Any]:
    request = model.request
    return {
        "queue": [(thing.id, thing.mode, thing.text) for thing in model.queue],
        "live": [(thing.id, thing.ttl if thing.left is None else thing.left) for thing in model.live],
        "recorded": model.recorded,
        "said": model.said,
        "calls": model.calls,
        "request": None if request is None else (request.turn, request.attempt),
        "turn": model.turn,
        "running": model.running,
        "skipped": model.skipped,
    }
