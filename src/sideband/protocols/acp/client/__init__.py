"""The client side of ACP: what programs import."""

from sideband.protocols.acp.client.capabilities import PeerCapabilities
from sideband.protocols.acp.client.client import ANSWER_SECONDS, AgentClient, ListedSession, connect
from sideband.protocols.acp.client.failures import (
    AgentEnded,
    AgentFailed,
    AgentNotStarted,
    AgentNotUnderstood,
    AgentSilent,
    LoginRequired,
)
from sideband.protocols.acp.client.refusals import NotSupportedByAgent
from sideband.protocols.acp.client.requests import AnswerRequest, AskPermission, PermissionRequest
from sideband.protocols.acp.client.session import (
    AgentSession,
    Fallback,
    InjectRoute,
    MessageReplaced,
    MessageSent,
    PromptTurn,
    Reminded,
    ReminderRoute,
    ShowReminder,
)
from sideband.protocols.acp.client.updates import UpdatesLost, UpdateStream
from sideband.protocols.acp.messages import ReminderUpdate
from sideband.protocols.jsonrpc import RpcError

__all__ = [
    "ANSWER_SECONDS",
    "AgentClient",
    "AgentEnded",
    "AgentFailed",
    "AgentNotStarted",
    "AgentNotUnderstood",
    "AgentSession",
    "AgentSilent",
    "AnswerRequest",
    "AskPermission",
    "Fallback",
    "InjectRoute",
    "ListedSession",
    "LoginRequired",
    "MessageReplaced",
    "MessageSent",
    "NotSupportedByAgent",
    "PeerCapabilities",
    "PermissionRequest",
    "PromptTurn",
    "Reminded",
    "ReminderRoute",
    "ReminderUpdate",
    "RpcError",
    "ShowReminder",
    "UpdateStream",
    "UpdatesLost",
    "connect",
]
