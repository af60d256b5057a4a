"""The client side of A2A: what programs import."""

from sideband.protocols.a2a.client.capabilities import CardPlace, CardReminders
from sideband.protocols.a2a.client.connection import ANSWER_SECONDS, POLL_SECONDS, connect
from sideband.protocols.a2a.client.events import (
    PeerArtifact,
    PeerEvent,
    PeerReminder,
    PeerState,
    PeerStatus,
    PeerTask,
)
from sideband.protocols.a2a.client.failures import (
    PeerFailed,
    PeerNotTrusted,
    PeerNotUnderstood,
    PeerSilent,
    PeerUnreachable,
    TokenRefused,
)
from sideband.protocols.a2a.client.peer import PeerAgent, TaskContent
from sideband.protocols.a2a.client.refusals import NotSupportedByPeer
from sideband.protocols.a2a.client.reminders import TaskFallback, TaskReminded, TaskReminderRoute
from sideband.protocols.a2a.messages import CarriedDeduped, CarriedEmitted, CarriedExpired, PendingReminder
from sideband.protocols.jsonrpc import RpcError

__all__ = [
    "ANSWER_SECONDS",
    "POLL_SECONDS",
    "CardPlace",
    "CardReminders",
    "CarriedDeduped",
    "CarriedEmitted",
    "CarriedExpired",
    "NotSupportedByPeer",
    "PeerAgent",
    "PeerArtifact",
    "PeerEvent",
    "PeerFailed",
    "PeerNotTrusted",
    "PeerNotUnderstood",
    "PeerReminder",
    "PeerSilent",
    "PeerState",
    "PeerStatus",
    "PeerTask",
    "PeerUnreachable",
    "PendingReminder",
    "RpcError",
    "TaskContent",
    "TaskFallback",
    "TaskReminded",
    "TaskReminderRoute",
    "TokenRefused",
    "connect",
]
