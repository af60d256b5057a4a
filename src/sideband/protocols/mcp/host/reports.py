"""What a host reports of its servers, for `sideband mcp listen` and for programs that want to show it."""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

import msgspec

from sideband.core.events import DropReason


class Admission(StrEnum):
    """What has become of a reminder at the host."""

    ACCEPTED = "accepted"
    HELD = "held"
    DROPPED = "dropped"


class ReminderReport(msgspec.Struct, frozen=True, kw_only=True):
    """A reminder of a server was accepted into a session, held until there is room, or dropped.

    `session_id` is None while no session is attached. `id`, `body` and `dedupe_key` are None if the reminder could not be
    read. `reason` and `detail` say why it was held or dropped. `deduped_count` is the number of waiting reminders that an
    accepted one replaced.
    """

    server: str
    admission: Admission
    session_id: str | None = None
    id: str | None = None
    body: str | None = None
    dedupe_key: str | None = None
    reason: DropReason | None = None
    detail: str | None = None
    deduped_count: int = 0


class ServerState(StrEnum):
    """How the connection to a server is."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    LISTENING = "listening"
    LOST = "lost"
    CLOSED = "closed"


class ServerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The connection to a server has changed.

    `protocol_version` is the negotiated revision (None: not connected). `emits` says whether the server declares reminders.
    `detail` says why a connection was lost.
    """

    server: str
    state: ServerState
    protocol_version: str | None = None
    emits: bool = False
    tools: int = 0
    detail: str | None = None


HostReport: TypeAlias = ReminderReport | ServerReport
OnReport: TypeAlias = Callable[[HostReport], None]


def ignore(_report: HostReport) -> None:
    """The listener of a host that has none."""
