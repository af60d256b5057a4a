"""An update of a session as JSON: names in camelCase, fields with their default left out, long tool output shortened."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.events import Usage
from sideband.core.messages import is_content, text_of
from sideband.core.reminder import Reminder
from sideband.core.trust import Provenance, Trust
from sideband.core.updates import (
    CheckpointUpdate,
    CompactionUpdate,
    MessageUpdate,
    PermissionUpdate,
    ProviderUpdate,
    ReminderUpdate,
    ResultUpdate,
    RunUpdate,
    SessionUpdate,
    TurnUpdate,
    Update,
)

MAX_OUTPUT_CHARACTERS: Final = 4_096
"""The longest tool output, and the longest text in the arguments of a call, that is given in full."""

TRUST_WORDS: Final[Mapping[Trust, str]] = MappingProxyType({level: level.name.lower() for level in Trust})
# What a ceiling can lower, by the names of the fields in a record.
_REQUESTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "role_hint": "roleHint",
        "ttl_turns": "ttlTurns",
        "propagate": "propagate",
        "preserve_on_compact": "preserveOnCompact",
        "mode": "mode",
    }
)


def update_json(update: Update) -> dict[str, Any]:
    """The update as a JSON object.

    It shares its parts with the update, so it is for encoding only. Observers of the same update may share it.
    """
    found: dict[str, Any] = {"cursor": update.cursor, "kind": update.kind.value}
    if update.time is not None:
        found["time"] = update.time
    _WRITERS[type(update)](found, update)
    return found


# The parts of several updates.


def reminder_json(reminder: Reminder) -> dict[str, Any]:
    """The record of a reminder."""
    found: dict[str, Any] = {
        "id": reminder.id,
        "body": reminder.body,
        "tags": reminder.tags,
        "preserveOnCompact": reminder.preserve_on_compact,
        "propagate": reminder.propagate.value,
        "roleHint": reminder.role_hint.value,
        "source": reminder.source.value,
        "firedAtTurn": reminder.fired_at_turn,
    }
    _put(found, "dedupeKey", reminder.dedupe_key)
    _put(found, "ttlTurns", reminder.ttl_turns)
    _put(found, "originatingAgentId", reminder.originating_agent_id)
    return found


def sender_json(provenance: Provenance) -> dict[str, Any]:
    """Where a reminder or message came from; `requested` are the values that its ceiling lowered."""
    found: dict[str, Any] = {"trust": TRUST_WORDS[provenance.trust]}
    _put(found, "principal", provenance.principal)
    _put(found, "providerId", provenance.provider_id)
    _put(found, "via", provenance.via)
    if provenance.requested:
        found["requested"] = requested_json(provenance)
    if provenance.claims:
        found["claims"] = provenance.claims
    if provenance.meta:
        found["meta"] = provenance.meta
    return found


def requested_json(provenance: Provenance) -> dict[str, Any]:
    """The values that a sender asked for and did not get."""
    return {_REQUESTED.get(name, name): value for name, value in provenance.requested.items()}


def usage_json(usage: Usage) -> dict[str, int]:
    """The tokens of a request; those of the cache are left out if there are none."""
    found = {"promptTokens": usage.prompt_tokens, "outputTokens": usage.output_tokens}
    if usage.cached_tokens:
        found["cacheReadTokens"] = usage.cached_tokens
    if usage.written_tokens:
        found["cacheWriteTokens"] = usage.written_tokens
    return found


def calls_json(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tool calls of a reply, with long texts in their arguments shortened."""
    return [
        {"id": call["id"], "name": call["name"], "args": shortened(call["args"])}
        for call in reply.get("tool_calls", ())
    ]


def shortened(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The value with every long text in it cut, and marked with an ellipsis."""
    if isinstance(value, str):
        return value if len(value) <= MAX_OUTPUT_CHARACTERS else f"{value[:MAX_OUTPUT_CHARACTERS]}…"
    if isinstance(value, dict):
        return {name: shortened(inner) for name, inner in value.items()}
    return [shortened(inner) for inner in value] if isinstance(value, list | tuple) else value


def utf8_size(text: str) -> int:
    """The number of bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def told_text(message: Mapping[str, Any]) -> str:
    """The text of a message; earlier versions of Sideband stored content of any type, which is given as JSON."""
    content = message.get("content", "")
    return text_of(message) if is_content(content) else msgspec.json.encode(content).decode()


def other_blocks(content: str | Sequence[Mapping[str, Any]]) -> int:
    """The number of blocks of a message that are not text."""
    if isinstance(content, str) or not is_content(content):
        return 0
    return sum("text" not in block for block in content)


def begun_messages(update: SessionUpdate) -> Iterator[dict[str, Any]]:
    """The messages that a session was begun with; one without an id gets one that is unique in the session."""
    for place, message in enumerate(update.messages):
        found = {
            "id": message.get("id") or f"{update.cursor}.{place}",
            "role": message["role"],
            "text": told_text(message),
        }
        _put(found, "otherBlocks", other_blocks(message.get("content", "")) or None)
        yield found


def _put(found: dict[str, Any], name: str, value: object) -> None:
    if value is not None:
        found[name] = value


# The updates.


def _reminder(found: dict[str, Any], update: ReminderUpdate) -> None:
    found["reminderId"] = update.reminder_id
    if update.reminder is not None:
        found["reminder"] = reminder_json(update.reminder)
    if update.provenance is not None:
        found["sender"] = sender_json(update.provenance)
    _put(found, "dedupeKey", update.dedupe_key)
    _put(found, "mode", update.mode)
    _put(found, "seam", update.seam)
    _put(found, "subAgentId", update.sub_agent_id)
    _put(found, "turn", update.turn)
    _put(found, "renderedRole", update.rendered_role)
    _put(found, "via", update.via or None)
    _put(found, "droppedIds", update.dropped_ids or None)
    _put(found, "phase", update.phase)
    _put(found, "boundary", update.boundary)
    _put(found, "reason", update.reason)
    if update.at_the_door:
        found["atTheDoor"] = True
    if update.count != 1:
        found["count"] = update.count


def _provider(found: dict[str, Any], update: ProviderUpdate) -> None:
    found["providerId"], found["eventName"], found["fired"] = update.provider_id, update.event_name, update.fired
    _put(found, "error", update.error)
    _put(found, "skipped", update.skipped)


def _message(found: dict[str, Any], update: MessageUpdate) -> None:
    found["messageId"] = update.message_id
    if update.item is not None:
        found["mode"] = update.item.mode
    if update.content is not None:
        found["text"] = told_text({"content": update.content})
        _put(found, "otherBlocks", other_blocks(update.content) or None)
    _put(found, "revision", update.revision)
    _put(found, "reason", update.reason)
    if update.audit_only:
        found["auditOnly"] = True
    if update.provenance is not None:
        found["sender"] = sender_json(update.provenance)


def _turn(found: dict[str, Any], update: TurnUpdate) -> None:
    found["turn"] = update.turn
    _put(found, "attempt", update.attempt)
    _put(found, "replyId", update.reply_id)
    if update.reply is not None:
        found["text"] = told_text(update.reply)
        if calls := calls_json(update.reply):
            found["calls"] = calls
    if update.usage is not None:
        found["usage"] = usage_json(update.usage)


def _result(found: dict[str, Any], update: ResultUpdate) -> None:
    text = told_text(update.message)
    found["callId"], found["status"] = update.call_id, update.status
    _put(found, "name", update.message.get("name"))
    found["text"], found["bytes"] = text[:MAX_OUTPUT_CHARACTERS], utf8_size(text)


def _compaction(found: dict[str, Any], update: CompactionUpdate) -> None:
    found["turn"], found["archivedMessages"] = update.turn, update.archived_messages


def _checkpoint(found: dict[str, Any], update: CheckpointUpdate) -> None:
    found["turn"], found["seam"], found["ids"] = update.turn, update.seam, update.ids
    if update.dispatch_skipped:
        found["dispatchSkipped"] = True


def _run(found: dict[str, Any], update: RunUpdate) -> None:
    _put(found, "messageId", update.message_id)
    _put(found, "status", update.status)


def _permission(found: dict[str, Any], update: PermissionUpdate) -> None:
    found["requestId"] = update.request_id


def _session(found: dict[str, Any], update: SessionUpdate) -> None:
    if update.records:
        found["records"] = update.records
    if update.messages:
        found["messages"] = [*begun_messages(update)]
    _put(found, "reason", update.reason)


_WRITERS: Final[Mapping[type[Update], Callable[[dict[str, Any], Any], None]]] = MappingProxyType(
    {
        ReminderUpdate: _reminder,
        ProviderUpdate: _provider,
        MessageUpdate: _message,
        TurnUpdate: _turn,
        ResultUpdate: _result,
        CompactionUpdate: _compaction,
        CheckpointUpdate: _checkpoint,
        RunUpdate: _run,
        PermissionUpdate: _permission,
        SessionUpdate: _session,
    }
)
