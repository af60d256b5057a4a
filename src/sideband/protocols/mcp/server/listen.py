"""Listen streams: what a client asks for, the frames that begin and end its stream, and the stream itself."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import anyio
import msgspec
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import (
    INVALID_PARAMS,
    RequestId,
    ServerNotification,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
)

from sideband.protocols.mcp.capabilities import NAME
from sideband.protocols.mcp.messages import ReminderFilter, ReminderParams
from sideband.protocols.mcp.server.carriage import Carriage, Write, reminder_writer
from sideband.protocols.mcp.server.clients import ClientId, Context, is_modern

SUBSCRIPTIONS_LISTEN: Final = "subscriptions/listen"

Honoured: TypeAlias = bool | dict[str, Any]
"""The value of the filter key in the acknowledgement: true for everything, else the filter."""


def requested(params: Mapping[str, Any] | None) -> object:
    """The value of the key `reminders` in the filter of `subscriptions/listen`; None if the client does not ask."""
    wanted = (params or {}).get("notifications")
    value = wanted.get(NAME) if isinstance(wanted, Mapping) else None
    return None if value is False else value


def asks_for_more(params: Mapping[str, Any] | None) -> bool:
    """Whether the filter of `subscriptions/listen` also asks for notifications other than reminders."""
    wanted = (params or {}).get("notifications")
    return isinstance(wanted, Mapping) and any(value for name, value in wanted.items() if name != NAME)


def read_filter(value: object, *, where: str) -> ReminderFilter:
    """The filter in a request; `where` is its place there, for the error."""
    if value is True:
        return ReminderFilter()
    try:
        return msgspec.convert(value, ReminderFilter)
    except msgspec.ValidationError as error:
        why, _, path = str(error).partition(" - at `$")
        field = where + path.rstrip("`")
        allowed = "tags must be a list of strings and minTtl a whole number from 1"
        raise MCPError(INVALID_PARAMS, f"{field} is wrong: {why}; {allowed}") from None


def honoured(wants: ReminderFilter) -> Honoured:
    """What the acknowledgement repeats."""
    return msgspec.to_builtins(wants) or True


def stamp(subscription: RequestId) -> dict[str, Any]:
    """The `_meta` of every frame of a stream."""
    return {SUBSCRIPTION_ID_META_KEY: subscription}


def acknowledgement(subscription: RequestId, value: Honoured) -> SubscriptionsAcknowledgedNotification:
    """The first frame of a stream that carries only reminders."""
    return SubscriptionsAcknowledgedNotification(
        params=SubscriptionsAcknowledgedNotificationParams(
            notifications=SubscriptionFilter.model_validate({NAME: value}), _meta=stamp(subscription)
        )
    )


def ending(subscription: RequestId) -> dict[str, Any]:
    """The result that ends a stream: the server has closed it on purpose."""
    return {"resultType": "complete", "_meta": stamp(subscription)}


class AcknowledgingSession:
    """A session that adds the reminders to the acknowledgement which the server's own listen handler sends.

    `acknowledged` is called when the acknowledgement has been written. Everything else goes to the session itself.
    """

    def __init__(self, session: ServerSession, value: Honoured, acknowledged: Callable[[], None]) -> None:
        self._session = session
        self._value = value
        self._acknowledged = acknowledged

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of the session
        return getattr(self._session, name)

    async def send_notification(
        self, notification: ServerNotification, related_request_id: RequestId | None = None
    ) -> None:
        if not isinstance(notification, SubscriptionsAcknowledgedNotification):
            await self._session.send_notification(notification, related_request_id)
            return
        wanted = notification.params.notifications.model_copy(update={NAME: self._value})
        params = notification.params.model_copy(update={"notifications": wanted})
        await self._session.send_notification(notification.model_copy(update={"params": params}), related_request_id)
        self._acknowledged()


# The stream.


class Disconnected(Exception):
    """The client has closed the HTTP response that carries its listen stream."""

    def __init__(self, unsent: ReminderParams) -> None:
        super().__init__()
        self.unsent = unsent


class ListenStream(Carriage):
    """A carriage that a client has opened with a request, and that lasts until this request ends.

    `has_other_keys`: the server's own handler serves other notifications on the same stream.
    """

    def __init__(self, ctx: Context, client: ClientId, wants: ReminderFilter, *, has_other_keys: bool) -> None:
        self.request_id = cast("RequestId", ctx.request_id)
        write = reminder_writer(ctx.session, related_to=self.request_id, subscription=self.request_id)
        # Up to 2025-11-25 the SDK lets a request run on when its HTTP connection is closed.
        if ctx.request is not None and not is_modern(ctx):
            write = _while_connected(ctx.request, write)
        super().__init__(client, write, wants=wants)
        self.has_other_keys = has_other_keys
        self.scope = anyio.CancelScope()

    def give_way(self) -> None:
        """Stop the reminders, because a newer stream carries them; end the stream if it carries nothing else."""
        self.outbox.close()
        if not self.has_other_keys:
            self.scope.cancel()

    def end(self) -> None:
        """End the stream with its graceful result."""
        self.outbox.close()
        self.scope.cancel()


def _while_connected(request: Any, write: Write) -> Write:  # noqa: ANN401 - the SDK does not type it
    async def checked(params: ReminderParams) -> None:
        if await request.is_disconnected():
            raise Disconnected(params)
        await write(params)

    return checked
