"""The carriages on which reminders travel to a client: its standalone channel, a request, or a listen stream."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import msgspec
from mcp.server.session import ServerSession
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import Notification, RequestId, ServerNotification

from sideband.protocols.mcp.capabilities import CHANNEL_NOTIFICATION, NOTIFICATION
from sideband.protocols.mcp.messages import ChannelParams, ReminderFilter, ReminderParams, ReminderSpec
from sideband.protocols.mcp.server.clients import ClientId
from sideband.protocols.mcp.server.outbox import Outbox
from sideband.render.escape import neutralise_all

Write: TypeAlias = Callable[[ReminderParams], Awaitable[None]]


class Carriage:
    """Writes the reminders of one client, in order, as fast as the client reads them.

    `wants` None: every reminder. The owner runs it in a task that ends with the connection, request or stream.
    """

    def __init__(self, client: ClientId, write: Write, *, wants: ReminderFilter | None = None) -> None:
        self.client = client
        self.outbox = Outbox()
        self._write = write
        self._wants = wants

    def offer(self, params: ReminderParams) -> None:
        """Queue a reminder, if the client wants it."""
        if self._wants is None or _passes(params.reminder, self._wants):
            self.outbox.put(params)

    async def run(self) -> None:
        """Write until the outbox is closed and empty."""
        while (params := await self.outbox.get()) is not None:
            await self._write(params)


def _passes(reminder: ReminderSpec, wants: ReminderFilter) -> bool:
    if wants.tags is not None and not set(wants.tags) & set(reminder.tags or ()):
        return False
    # A reminder without a TTL outlasts every number of turns.
    return wants.min_ttl is None or reminder.ttl_turns is None or reminder.ttl_turns >= wants.min_ttl


# What is written.


class _ExtensionNotification(Notification[dict[str, Any], str]):
    """A notification that the SDK has no class for."""


async def notify(
    session: ServerSession, method: str, params: dict[str, Any], *, related_to: RequestId | None = None
) -> None:
    """Send a notification that belongs to no revision of the protocol."""
    message = cast("ServerNotification", _ExtensionNotification(method=method, params=params))
    await session.send_notification(message, related_request_id=related_to)


def reminder_writer(
    session: ServerSession, *, related_to: RequestId | None = None, subscription: RequestId | None = None
) -> Write:
    """Writes `notifications/reminder`; those of a subscription are stamped with its id."""

    async def write(params: ReminderParams) -> None:
        message: dict[str, Any] = msgspec.to_builtins(params)
        if subscription is not None:
            message["_meta"] = {**message.get("_meta", {}), SUBSCRIPTION_ID_META_KEY: subscription}
        await notify(session, NOTIFICATION, message, related_to=related_to)

    return write


def channel_writer(session: ServerSession, *, related_to: RequestId | None = None) -> Write:
    """Writes `notifications/claude/channel`, whose `meta` maps strings to strings."""

    async def write(params: ReminderParams) -> None:
        reminder = params.reminder
        meta = {
            "id": reminder.id,
            "dedupe_key": reminder.dedupe_key or "",
            "tags": ",".join(reminder.tags or ()),
            "ttl_turns": "" if reminder.ttl_turns is None else str(reminder.ttl_turns),
        }
        message = ChannelParams(
            content=neutralise_all(reminder.body), meta={name: value for name, value in meta.items() if value}
        )
        await notify(session, CHANNEL_NOTIFICATION, msgspec.to_builtins(message), related_to=related_to)

    return write
