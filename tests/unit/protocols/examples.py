"""The example payloads: which shape each file shows, and which part of it is a reminder for the parser."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from sideband.core.surfaces import Surface
from sideband.protocols.a2a import messages as a2a
from sideband.protocols.acp import messages as acp
from sideband.protocols.mcp import messages as mcp

FOLDER: Final = Path(__file__).parents[3] / "examples" / "payloads"


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One file; `at` leads to the shape within it, `reminder` from there to what `surface` parses."""

    file: str
    at: tuple[str | int, ...]
    shape: type[msgspec.Struct]
    document: str
    surface: Surface | None = None
    reminder: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.file.replace("/", "-")

    def payload(self) -> Any:  # noqa: ANN401 - JSON
        """The part of the file that has the shape."""
        return within(json.loads((FOLDER / f"{self.file}.json").read_text(encoding="utf-8")), self.at)


def within(node: Any, at: tuple[str | int, ...]) -> Any:  # noqa: ANN401 - JSON
    for step in at:
        node = node[step]
    return node


def without_session(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What is left of the params for the parser once the session is known."""
    return {name: value for name, value in payload.items() if name != "sessionId"}


def _example(file: str, document: str, shape: type[msgspec.Struct], *at: str | int) -> Example:
    return Example(file=file, at=at or ("params",), shape=shape, document=document)


def _reminder(
    file: str, document: str, shape: type[msgspec.Struct], surface: Surface, reminder: tuple[str, ...], *at: str
) -> Example:
    return Example(file=file, at=at, shape=shape, document=document, surface=surface, reminder=reminder)


REMINDERS: Final = (
    _reminder(
        "acp/inject_reminder",
        "acp/inject_reminder",
        acp.SessionInjectReminderRequest,
        Surface.ACP,
        (),
        "params",
    ),
    _reminder(
        "acp/inject_reminder.minimal",
        "acp/inject_reminder",
        acp.SessionInjectReminderRequest,
        Surface.ACP,
        (),
        "params",
    ),
    _reminder("acp/remind", "acp/remind", acp.SessionRemindFlat, Surface.ACP_LEGACY, (), "params"),
    _reminder("acp/remind.recipe", "acp/remind", acp.SessionRemindFlat, Surface.ACP_LEGACY, (), "params"),
    _reminder("acp/remind.nested", "acp/remind", acp.SessionRemindNested, Surface.ACP_LEGACY, ("reminder",), "params"),
    _reminder(
        "acp/remind.in_meta",
        "acp/remind",
        acp.SessionRemindInMeta,
        Surface.ACP_LEGACY,
        ("_meta", "harn", "reminder"),
        "params",
    ),
    _reminder(
        "a2a/inject_reminder", "a2a/inject_reminder", a2a.InjectReminderParams, Surface.A2A, ("reminder",), "params"
    ),
    _reminder("a2a/send_metadata", "a2a/send_metadata", a2a.SendMetadata, Surface.A2A_METADATA, ("harn", "reminder")),
    _reminder("mcp/reminder", "mcp/reminder", mcp.ReminderNotification, Surface.MCP, ("params", "reminder")),
    _reminder("mcp/build_watcher", "mcp/reminder", mcp.ReminderNotification, Surface.MCP, ("params", "reminder")),
    _reminder("mcp/test_watcher", "mcp/reminder", mcp.ReminderNotification, Surface.MCP, ("params", "reminder")),
)

OTHERS: Final = (
    _example("acp/inject_reminder.response", "acp/inject_reminder", acp.SessionInjectReminderResponse, "result"),
    _example(
        "acp/inject_reminder.clamped.response", "acp/inject_reminder", acp.SessionInjectReminderResponse, "result"
    ),
    _example("acp/reminder_emitted", "acp/session_update", acp.SessionUpdateParams),
    _example("acp/reminder_emitted.provider", "acp/session_update", acp.SessionUpdateParams),
    _example("acp/reminder_deduped", "acp/session_update", acp.SessionUpdateParams),
    _example("acp/reminder_expired", "acp/session_update", acp.SessionUpdateParams),
    _example("acp/reminder_revoked", "acp/session_update", acp.SessionUpdateParams),
    _example("acp/session_info_update", "acp/session_update", acp.SessionUpdateParams),
    _example("acp/inject.queue", "acp/inject", acp.SessionInjectRequest),
    _example("acp/inject.steer", "acp/inject", acp.SessionInjectRequest),
    _example("acp/inject.response", "acp/inject", acp.SessionInjectResponse, "result"),
    _example("acp/revoke_inject", "acp/revoke_inject", acp.SessionRevokeInjectRequest),
    _example("acp/revoke_inject.response", "acp/revoke_inject", acp.SessionRevokeInjectResponse, "result"),
    _example("acp/replace_inject", "acp/replace_inject", acp.SessionReplaceInjectRequest),
    _example("acp/replace_inject.response", "acp/replace_inject", acp.SessionReplaceInjectResponse, "result"),
    _example("acp/pending_injections", "acp/pending_injections", acp.SessionPendingInjectionsRequest),
    _example(
        "acp/pending_injections.response", "acp/pending_injections", acp.SessionPendingInjectionsResponse, "result"
    ),
    _example("acp/replace_reminder", "acp/replace_reminder", acp.SessionReplaceReminderRequest),
    _example("acp/replace_reminder.response", "acp/replace_reminder", acp.SessionReplaceReminderResponse, "result"),
    _example("acp/revoke_reminder", "acp/revoke_reminder", acp.SessionRevokeReminderRequest),
    _example("acp/revoke_reminder.response", "acp/revoke_reminder", acp.SessionRevokeReminderResponse, "result"),
    _example("acp/clear_reminders", "acp/clear_reminders", acp.SessionClearRemindersRequest),
    _example("acp/clear_reminders.response", "acp/clear_reminders", acp.SessionClearRemindersResponse, "result"),
    _example("acp/steering", "acp/steering", acp.SessionSteeringRequest),
    _example("acp/steering.response", "acp/steering", acp.SessionSteeringResponse, "result"),
    _example("acp/agent_capabilities", "acp/capabilities", acp.AgentCapabilities, "agentCapabilities"),
    _example("acp/agent_capabilities", "acp/capabilities", acp.InitializeMeta, "_meta"),
    _example("acp/client_capabilities", "acp/capabilities", acp.ClientCapabilities, "clientCapabilities"),
    _example("acp/error.already_delivered", "acp/error", acp.ErrorData, "error", "data"),
    _example("acp/error.unknown_message_id", "acp/error", acp.ErrorData, "error", "data"),
    _example("acp/error.unknown_propagate", "acp/error", acp.ErrorData, "error", "data"),
    _example("a2a/inject_reminder.response", "a2a/inject_reminder", a2a.InjectReminderResult, "result"),
    Example(file="a2a/reminder_emitted", at=(), shape=a2a.ReminderEmitted, document="a2a/notifications"),
    Example(file="a2a/reminder_deduped", at=(), shape=a2a.ReminderDeduped, document="a2a/notifications"),
    Example(file="a2a/reminder_expired", at=(), shape=a2a.ReminderExpired, document="a2a/notifications"),
    Example(file="a2a/status_metadata", at=(), shape=a2a.CarriedEmitted, document="a2a/status_metadata"),
    _example("a2a/pending_reminders", "a2a/pending_reminders", a2a.PendingRemindersParams),
    _example("a2a/pending_reminders.response", "a2a/pending_reminders", a2a.PendingRemindersResult, "result"),
    _example("a2a/revoke_reminder", "a2a/revoke_reminder", a2a.RevokeReminderParams),
    _example("a2a/revoke_reminder.response", "a2a/revoke_reminder", a2a.RevokeReminderResult, "result"),
    _example("a2a/clear_reminders", "a2a/clear_reminders", a2a.ClearRemindersParams),
    _example("a2a/clear_reminders.response", "a2a/clear_reminders", a2a.ClearRemindersResult, "result"),
    _example("a2a/agent_card", "a2a/agent_card", a2a.ExtensionParams, "capabilities", "reminders"),
    Example(file="a2a/agent_card.extension", at=(), shape=a2a.AgentExtension, document="a2a/agent_card"),
    _example("a2a/error.unknown_reminder_id", "a2a/error", a2a.ErrorInfo, "error", "data", 0),
    _example("a2a/error.unknown_reminder_id", "a2a/error", a2a.ErrorInfo, "error", "data", 1),
    _example("mcp/server_capabilities", "mcp/server_capabilities", mcp.ServerCapabilities, "capabilities"),
    _example("mcp/server_capabilities.experimental", "mcp/server_capabilities", mcp.ServerCapabilities, "capabilities"),
    _example("mcp/client_capabilities", "mcp/client_capabilities", mcp.ClientCapabilities, "capabilities"),
    _example("mcp/subscriptions_listen", "mcp/subscriptions_listen", mcp.SubscriptionsListenParams),
    _example("mcp/subscriptions_listen.filtered", "mcp/subscriptions_listen", mcp.SubscriptionsListenParams),
    _example("mcp/reminders_listen", "mcp/reminders_listen", mcp.RemindersListenParams),
    Example(file="mcp/claude_channel", at=(), shape=mcp.ChannelNotification, document="mcp/claude_channel"),
    Example(file="mcp/logged_reminder", at=(), shape=mcp.LoggedNotification, document="mcp/logged_reminder"),
)

EXAMPLES: Final = (*REMINDERS, *OTHERS)
