"""The table of published schema files and the wire shapes in each."""

from typing import Final

import msgspec

from sideband.protocols.a2a import messages as a2a
from sideband.protocols.acp import messages as acp
from sideband.protocols.mcp import messages as mcp


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One JSON Schema file about one surface of a protocol.

    The file describes `root`, or any one of several roots, which `name` then names together; `others` belong to the
    same surface and are among its definitions.
    """

    protocol: str
    surface: str
    summary: str
    root: tuple[type[msgspec.Struct], ...]
    others: tuple[type[msgspec.Struct], ...] = ()
    name: str | None = None

    @property
    def path(self) -> str:
        return f"{self.protocol}/{self.surface}.schema.json"

    @property
    def title(self) -> str:
        return self.name or self.root[0].__name__


def _surface(protocol: str, surface: str, summary: str, *types: type[msgspec.Struct]) -> Document:
    return Document(protocol=protocol, surface=surface, summary=summary, root=types[:1], others=types[1:])


DOCUMENTS: Final = (
    _surface(
        "acp",
        "inject_reminder",
        "`session/inject_reminder`: a host adds a reminder",
        acp.SessionInjectReminderRequest,
        acp.SessionInjectReminderResponse,
    ),
    Document(
        protocol="acp",
        surface="remind",
        summary="`session/remind`, deprecated: a host adds a reminder, in snake_case",
        name="SessionRemindRequest",
        root=(acp.SessionRemindFlat, acp.SessionRemindNested, acp.SessionRemindInMeta),
        others=(acp.SessionRemindResponse,),
    ),
    _surface(
        "acp",
        "revoke_reminder",
        "`session/revoke_reminder`: a host revokes a waiting reminder",
        acp.SessionRevokeReminderRequest,
        acp.SessionRevokeReminderResponse,
    ),
    _surface(
        "acp",
        "replace_reminder",
        "`_sideband/session/replace_reminder`: a host replaces the body of a waiting reminder",
        acp.SessionReplaceReminderRequest,
        acp.SessionReplaceReminderResponse,
    ),
    _surface(
        "acp",
        "clear_reminders",
        "`_sideband/session/clear_reminders`: a host ends queued and live reminders",
        acp.SessionClearRemindersRequest,
        acp.SessionClearRemindersResponse,
    ),
    _surface(
        "acp",
        "pending_injections",
        "`session/pending_injections`: what waits for delivery",
        acp.SessionPendingInjectionsRequest,
        acp.SessionPendingInjectionsResponse,
    ),
    _surface(
        "acp",
        "inject",
        "`session/inject`: the user sends a message while a turn runs",
        acp.SessionInjectRequest,
        acp.SessionInjectResponse,
    ),
    _surface(
        "acp",
        "revoke_inject",
        "`session/revoke_inject`: the user revokes a waiting message",
        acp.SessionRevokeInjectRequest,
        acp.SessionRevokeInjectResponse,
    ),
    _surface(
        "acp",
        "replace_inject",
        "`session/replace_inject`: the user replaces a waiting message",
        acp.SessionReplaceInjectRequest,
        acp.SessionReplaceInjectResponse,
    ),
    _surface(
        "acp",
        "steering",
        "`_session/steering`: a steer in the form that agents of several vendors share",
        acp.SessionSteeringRequest,
        acp.SessionSteeringResponse,
    ),
    _surface(
        "acp",
        "session_update",
        "`session/update`: a reminder was shown, was replaced, or has ended",
        acp.SessionUpdateParams,
    ),
    _surface(
        "acp",
        "capabilities",
        "`initialize`: what agent and client can do with reminders and injects",
        acp.AgentCapabilities,
        acp.InitializeMeta,
        acp.ClientCapabilities,
    ),
    _surface("acp", "error", "The `data` of an error response", acp.ErrorData),
    _surface(
        "a2a",
        "inject_reminder",
        "`tasks/inject_reminder`: a calling agent adds a reminder",
        a2a.InjectReminderParams,
        a2a.InjectReminderResult,
    ),
    _surface(
        "a2a",
        "pending_reminders",
        "`tasks/pending_reminders`: the reminders of a task",
        a2a.PendingRemindersParams,
        a2a.PendingRemindersResult,
    ),
    _surface(
        "a2a",
        "revoke_reminder",
        "`tasks/revoke_reminder`: the caller revokes a waiting reminder",
        a2a.RevokeReminderParams,
        a2a.RevokeReminderResult,
    ),
    _surface(
        "a2a",
        "clear_reminders",
        "`tasks/clear_reminders`: the caller withdraws live reminders",
        a2a.ClearRemindersParams,
        a2a.ClearRemindersResult,
    ),
    Document(
        protocol="a2a",
        surface="notifications",
        summary="`tasks/reminderEmitted`, `-Deduped` and `-Expired` as separate frames",
        name="ReminderNotification",
        root=(a2a.ReminderEmitted, a2a.ReminderDeduped, a2a.ReminderExpired),
    ),
    Document(
        protocol="a2a",
        surface="status_metadata",
        summary="A reminder notification in the metadata of a status update, under the URI of the extension",
        name="CarriedNotification",
        root=(a2a.CarriedEmitted, a2a.CarriedDeduped, a2a.CarriedExpired),
    ),
    _surface("a2a", "send_metadata", "A reminder in the metadata of a message, from older callers", a2a.SendMetadata),
    _surface("a2a", "agent_card", "The extension's entry on the agent card", a2a.AgentExtension),
    _surface("a2a", "error", "One entry of the `data` of an error response", a2a.ErrorInfo),
    _surface("mcp", "reminder", "`notifications/reminder`: a server adds a reminder", mcp.ReminderNotification),
    _surface("mcp", "server_capabilities", "The capabilities of a server that sends reminders", mcp.ServerCapabilities),
    _surface("mcp", "client_capabilities", "The capabilities of a client that reads reminders", mcp.ClientCapabilities),
    _surface(
        "mcp", "subscriptions_listen", "`subscriptions/listen` that requests reminders", mcp.SubscriptionsListenParams
    ),
    _surface("mcp", "reminders_listen", "`reminders/listen`: a stream of reminders only", mcp.RemindersListenParams),
    _surface(
        "mcp", "claude_channel", "`notifications/claude/channel`: the form Claude Code reads", mcp.ChannelNotification
    ),
    _surface(
        "mcp", "logged_reminder", "`notifications/message` with a reminder, from older servers", mcp.LoggedNotification
    ),
)
PROTOCOLS: Final = tuple(dict.fromkeys(document.protocol for document in DOCUMENTS))
