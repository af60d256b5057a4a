"""`resources/subscribe` up to 2025-11-25, which the high-level server of the SDK does not serve.

On 2026-07-28 clients subscribe with `subscriptions/listen`, and the SDK's bus tells them.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from mcp.server.context import CallNext, HandlerResult
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, SubscribeRequestParams

from sideband.protocols.mcp.server.clients import ClientId, Context, client_of, has_session

MAX_SUBSCRIPTIONS: Final = 1_024


class _ResourceSubscriber:
    """A client, its subscriptions, and those among them that it has not been told to read again."""

    def __init__(self, session: ServerSession) -> None:
        self.uris: set[str] = set()
        self._session = session
        self._stale: dict[str, None] = {}
        self._changed = asyncio.Event()

    def offer(self, uri: str) -> None:
        if uri in self.uris:
            self._stale[uri] = None
            self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._stale:
                uri = next(iter(self._stale))
                del self._stale[uri]
                await self._session.send_resource_updated(uri)


class ResourceSubscriptions:
    """Tells clients of both eras which resources have changed; a middleware, and the owner of the SDK's bus.

    `MCPServer(..., subscriptions=subscriptions.bus, middleware=[subscriptions])`.
    """

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self._subscribers: dict[ClientId, _ResourceSubscriber] = {}

    async def updated(self, uris: Iterable[str]) -> None:
        """Tell the subscribers of these resources, without waiting for them."""
        for uri in uris:
            for subscriber in self._subscribers.values():
                subscriber.offer(uri)
            await self.bus.publish(ResourceUpdated(uri))

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.method == "initialize":
            return _with_subscribe(await call_next(ctx))
        if not has_session(ctx):
            return await call_next(ctx)
        client = client_of(ctx)
        subscriber = self._subscribers.get(client)
        if ctx.method == "notifications/initialized" and subscriber is None:
            return await self._serve(client, ctx, call_next)
        if subscriber is not None and ctx.method in {"resources/subscribe", "resources/unsubscribe"}:
            uri = SubscribeRequestParams.model_validate(ctx.params or {}, by_name=False).uri
            if ctx.method == "resources/unsubscribe":
                subscriber.uris.discard(uri)
            elif len(subscriber.uris) >= MAX_SUBSCRIPTIONS:
                raise MCPError(INVALID_PARAMS, f"a client can subscribe to {MAX_SUBSCRIPTIONS:,} resources at most")
            else:
                subscriber.uris.add(uri)
            return {}
        return await call_next(ctx)

    async def _serve(self, client: ClientId, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Serve a client until its connection ends, when the SDK cancels the handler of this notification."""
        subscriber = self._subscribers[client] = _ResourceSubscriber(ctx.session)
        writer = asyncio.create_task(subscriber.run())
        try:
            result = await call_next(ctx)
            await writer
        finally:
            writer.cancel()
            del self._subscribers[client]
        return result


def _with_subscribe(result: HandlerResult) -> HandlerResult:
    if not isinstance(result, dict):
        return result
    capabilities = result.get("capabilities") or {}
    resources = {**(capabilities.get("resources") or {}), "subscribe": True}
    return {**result, "capabilities": {**capabilities, "resources": resources}}
