"""The updates of a session in the shapes of ACP, for one client: messages, tool calls, state, and reminders.

The translation has no state of its own apart from the client's abilities, so that a replay and the live updates agree.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.messages import ToolCall, as_blocks, read_call
from sideband.core.updates import (
    CompactionUpdate,
    MessageUpdate,
    PermissionUpdate,
    ReminderUpdate,
    RunUpdate,
    SessionUpdate,
    Update,
    UpdateKind,
)
from sideband.protocols.acp.agent import tool_calls
from sideband.protocols.acp.agent.modes import config_options
from sideband.protocols.acp.agent.tool_calls import Change
from sideband.protocols.acp.reminder_updates import carried_update, reminder_update, repeated_meta
from sideband.runtime.runner import TurnStatus
from sideband.runtime.system import moment

STOP_REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        TurnStatus.COMPLETED: "end_turn",
        TurnStatus.SUSPENDED: "end_turn",
        TurnStatus.MAX_TURNS: "max_turn_requests",
        TurnStatus.MAX_TOKENS: "max_tokens",
        TurnStatus.CANCELLED: "cancelled",
        TurnStatus.CLOSED: "cancelled",
    }
)
"""How a turn ended, in the words of the protocol. The other statuses are failures."""


NO_META: Final[Mapping[str, Any]] = MappingProxyType({})


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a client has told in `initialize`.

    `reads_reminders`: it knows reminder updates by name. `reads_compaction`: it wants to be told of compactions.
    """

    version: int = 1
    reads_reminders: bool = False
    reads_compaction: bool = False
    reads_files: bool = False
    writes_files: bool = False
    has_terminals: bool = False


class Translator:
    """Shapes the updates of one session for one client. `cwd` is the folder that the paths of tools are relative to."""

    def __init__(self, abilities: Abilities, cwd: str) -> None:
        self.abilities = abilities
        self._cwd = cwd

    # Messages.

    def user_message(
        self, message_id: str, content: Sequence[Mapping[str, Any]], meta: Mapping[str, Any] = NO_META
    ) -> Iterator[dict[str, Any]]:
        """A message of the user that was delivered; `meta` is what is repeated of the sender's `_meta`."""
        if self.abilities.version > 1:
            told: dict[str, Any] = {"sessionUpdate": "user_message", "messageId": message_id}
            told["content"] = [dict(one) for one in content]
            yield told | ({"_meta": dict(meta)} if meta else {})
            return
        note = {**meta.get("sideband", {}), "messageId": message_id}
        for block in content:
            yield {
                "sessionUpdate": "user_message_chunk",
                "content": dict(block),
                "messageId": message_id,
                "_meta": {**meta, "sideband": note},
            }

    def reply_text(self, reply_id: str, text: str) -> dict[str, Any]:
        """A piece of the model's reply."""
        return {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": text},
            "messageId": reply_id,
        }

    def reply_restarted(self, reply_id: str) -> dict[str, Any]:
        """The reply begins again after a failed attempt, so what was sent of it is void."""
        if self.abilities.version > 1:
            return {"sessionUpdate": "agent_message", "messageId": reply_id, "content": []}
        told = self.reply_text(reply_id, "\n\n(The reply was cut off; it begins again.)\n\n")
        return told | {"_meta": {"sideband": {"restarted": True}}}

    # Tool calls.

    def tool_call(self, call: ToolCall, *, status: str = "pending") -> dict[str, Any]:
        """A call that the model asks for."""
        word = "tool_call" if self.abilities.version == 1 else "tool_call_update"
        return {"sessionUpdate": word, **tool_calls.announced(call, self._cwd), "status": status}

    def tool_started(self, call_id: str) -> dict[str, Any]:
        return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": "in_progress"}

    def tool_terminal(self, call_id: str, terminal_id: str) -> dict[str, Any]:
        """The terminal of the client in which a call runs."""
        content = [tool_calls.terminal_content(terminal_id)]
        return {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "content": content}

    def tool_ended(
        self, call: ToolCall, status: str, text: str, change: Change | None = None, terminal_id: str | None = None
    ) -> dict[str, Any]:
        """The result of a call; `change` is what it did to a file, if that is known.

        A terminal of the client shows the output itself, and keeps it after its release.
        """
        version = self.abilities.version
        word = tool_calls.status_of(status, version=version)
        content = [tool_calls.text_content(text)] if text else []
        if terminal_id is not None:
            content = [tool_calls.terminal_content(terminal_id)]
        if word == "completed":
            change = change or tool_calls.recorded_change(call, self._cwd, text)
            diff = None if change is None else tool_calls.diff_content(change, version=version)
            content[:0] = [] if diff is None else [diff]
        return {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call.id,
            "status": word,
            "content": content,
            "_meta": {"sideband": {"status": status}},
        }

    # Whole messages, as a view has them.

    def message(self, message: Mapping[str, Any], calls: Mapping[str, ToolCall]) -> Iterator[dict[str, Any]]:
        """A message of the conversation; `calls` are the tool calls by their ids."""
        content = message.get("content", "")
        match message.get("role"):
            case "user":
                yield from self.user_message(str(message.get("id", "")), as_blocks(content))
            case "assistant":
                if content:
                    yield self.reply_text(str(message.get("id", "")), content)
                for call in calls_of(message):
                    yield self.tool_call(call)
            case "tool" if message["tool_call_id"] in calls:
                yield self.tool_ended(calls[message["tool_call_id"]], message["status"], content)
            case _:
                pass

    # Updates.

    def reminder(self, update: ReminderUpdate) -> Iterator[dict[str, Any]]:
        told = reminder_update(update)
        if told is not None:
            yield told if self.abilities.reads_reminders else carried_update(told)

    def state(self, update: Update) -> Iterator[dict[str, Any]]:
        """Whether the session runs; only clients of protocol version 2 are told."""
        if self.abilities.version == 1:
            return
        match update:
            case RunUpdate(kind=UpdateKind.RUN_STARTED):
                yield running_state("running")
            case RunUpdate():
                status = TurnStatus.CANCELLED if update.kind is UpdateKind.RUN_CANCELLED else update.status
                yield idle_state(status)
            case PermissionUpdate():
                asked = update.kind is UpdateKind.PERMISSION_ASKED
                yield running_state("requires_action" if asked else "running")
            case _:
                pass

    def session(self, update: SessionUpdate) -> Iterator[dict[str, Any]]:
        """A named record that clients know: the title or the mode."""
        if "title" in update.records:
            told: dict[str, Any] = {"sessionUpdate": "session_info_update", "title": update.records["title"]}
            if update.time is not None:
                told["updatedAt"] = moment(update.time)
            yield told
        if isinstance(mode := update.records.get("mode"), str):
            if self.abilities.version == 1:
                yield {"sessionUpdate": "current_mode_update", "currentModeId": mode}
            else:
                yield {"sessionUpdate": "config_option_update", "configOptions": config_options(mode)}

    def compacted(self, update: CompactionUpdate) -> Iterator[dict[str, Any]]:
        if self.abilities.reads_compaction:
            yield {
                "sessionUpdate": "compaction_update",
                "compactionId": f"compaction-{update.cursor}",
                "status": "completed",
            }

    def other(self, update: Update) -> Iterator[dict[str, Any]]:
        """The updates that need nothing but themselves."""
        match update:
            case ReminderUpdate():
                yield from self.reminder(update)
            case MessageUpdate(kind=UpdateKind.MESSAGE_DELIVERED, audit_only=False, content=content):
                meta = NO_META if update.provenance is None else repeated_meta(update.provenance)
                yield from self.user_message(update.message_id, content or (), meta)
            case CompactionUpdate():
                yield from self.compacted(update)
            case SessionUpdate(kind=UpdateKind.SESSION_RECORDED):
                yield from self.session(update)
            case _:
                pass


def calls_of(message: Mapping[str, Any] | None) -> list[ToolCall]:
    """The tool calls of a reply."""
    return [] if message is None else [read_call(call) for call in message.get("tool_calls", ())]


def running_state(state: str) -> dict[str, Any]:
    return {"sessionUpdate": "state_update", "state": state}


def idle_state(status: str | None) -> dict[str, Any]:
    """The session is idle; `status` is how its last turn ended (None: it has had none, or a process died)."""
    told = running_state("idle")
    if status is None:
        return told
    if status in STOP_REASONS:
        return told | {"stopReason": STOP_REASONS[status]}
    error = {"code": -32603, "message": "The model failed", "data": {"reason": "model_failed"}}
    return told | {"stopReason": "error", "error": error}
