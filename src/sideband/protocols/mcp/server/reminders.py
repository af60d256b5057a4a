"""Reminders of an MCP server: one object that any server of the official SDK mounts, and one call that emits.

`Reminders` is an extension, which the server advertises, and a middleware, which sees every message. The middleware
finds out on which carriage each client can be reached, because the revisions of the protocol differ:

- Up to 2025-11-25 a server may write to a client at any time. Each initialised client is served on its standalone
  channel; over HTTP, what is emitted inside one of its requests goes on the stream of that request, which is open for
  certain.
- On 2026-07-28 a server may only write on the stream of a request or on a listen stream.
- A client that has a listen stream gets everything there.

To one client a reminder travels on one carriage only.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension, ToolBinding
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, METHOD_NOT_FOUND, CallToolRequestParams, RequestId

from sideband.core.errors import BodyTooLarge, InvalidOption, shown
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.parse import parse, read_meta
from sideband.core.reminder import Propagate, PropagateWord, RoleHint, RoleHintWord, Tags
from sideband.core.surfaces import Surface
from sideband.core.trust import Trust
from sideband.logs import LOG
from sideband.protocols.mcp.capabilities import (
    CHANNEL,
    EXTENSION,
    LISTEN,
    declares_receive,
    emit_settings,
    with_emit,
)
from sideband.protocols.mcp.messages import ReminderFilter, ReminderParams, ReminderSpec
from sideband.protocols.mcp.server.carriage import Carriage, channel_writer, reminder_writer
from sideband.protocols.mcp.server.clients import (
    ClientId,
    Context,
    client_of,
    declared,
    has_session,
    is_modern,
    is_ready,
)
from sideband.protocols.mcp.server.hook_tool import TOOL, PendingReminders
from sideband.protocols.mcp.server.listen import (
    SUBSCRIPTIONS_LISTEN,
    AcknowledgingSession,
    Disconnected,
    ListenStream,
    acknowledgement,
    asks_for_more,
    ending,
    honoured,
    read_filter,
    requested,
)
from sideband.protocols.mcp.server.outbox import Unheard
from sideband.runtime.system import new_id

MAX_CLIENTS: Final = 256
"""How many standalone channels and how many listen streams are served at a time.

This bounds the memory for clients that do not read.
"""
# No session accepts a larger body, whatever it grants a server.
MAX_BODY_BYTES: Final = DEFAULT_LIMITS.body_bytes[Trust.OPERATOR]


class _RequestScope:
    """A request that is being served, and the carriage on its response stream.

    A context variable holds the scope in the task of the handler and in the tasks that it starts, so that `emit` finds
    it. `carriage` is None if this response stream carries no reminders, and after the request has ended.
    """

    def __init__(self, owner: "Reminders", carriage: Carriage | None) -> None:
        self.owner = owner
        self.carriage = carriage
        self._writer: asyncio.Task[None] | None = None

    def offer(self, params: ReminderParams) -> None:
        if self.carriage is None:
            return
        self.carriage.offer(params)
        if self._writer is None:
            self._writer = asyncio.create_task(self.carriage.run())

    async def finish(self) -> None:
        """Write what waits, because nothing can be written on this stream after the response."""
        carriage, self.carriage = self.carriage, None
        if carriage is not None:
            carriage.outbox.close()
        if self._writer is not None:
            # Cancelling this request cancels the task too.
            await self._writer


_REQUEST: Final[ContextVar[_RequestScope | None]] = ContextVar("sideband_mcp_request", default=None)


_WordT = TypeVar("_WordT", Propagate, RoleHint)


def _members(kind: type[_WordT], words: Sequence[str], *, field: str) -> tuple[_WordT, ...]:
    """The members of a vocabulary that these words name; `InvalidOption` for any other word."""
    allowed = ", ".join(repr(member.value) for member in kind)
    if isinstance(words, str):
        raise InvalidOption(f"{field} must be a list of {allowed}, not {shown(words)}", field=field, value=words)
    try:
        return tuple(map(kind, words))
    except ValueError:
        unknown = next(word for word in words if word not in [member.value for member in kind])
        raise InvalidOption(
            f"{field} must be a list of {allowed}; {shown(unknown)} is none of them", field=field, value=unknown
        ) from None


class _Unserved(Exception):
    """The server has no handler of its own for listen streams."""


class Reminders(Extension):
    """Emits reminders to the clients of the server that it is mounted on.

    `MCPServer(..., extensions=[reminders], middleware=[reminders])`, or `server.middleware.append(reminders)` on a
    low-level `Server`.

    `only_declared` leaves out clients up to 2025-11-25 that do not declare reminders. `channel` sends those the
    notification of Claude Code's channels instead. `hook_tool` adds the tool `pending_reminders`, for hosts whose hooks
    can call a tool; its value names this server in the text of the hook. It needs an `MCPServer` with this extension:
    on other servers, requests fail with `InvalidOption`. With `keep_unheard`, what is emitted while no client can be
    reached is kept for the first one that can: the newest of each key, for a minute. `propagate` and `role_hints` are
    the values that this server emits; it declares them, and `emit` refuses all others.
    """

    identifier = EXTENSION

    def __init__(
        self,
        *,
        only_declared: bool = False,
        channel: bool = False,
        hook_tool: str | None = None,
        keep_unheard: bool = False,
        propagate: Sequence[PropagateWord] = (Propagate.SESSION, Propagate.NONE),
        role_hints: Sequence[RoleHintWord] = (RoleHint.SYSTEM, RoleHint.DEVELOPER),
    ) -> None:
        if only_declared and channel:
            raise InvalidOption(
                "only_declared and channel exclude each other: the channel is for clients that do not declare "
                "reminders",
                field="channel",
                value=channel,
            )
        self._only_declared = only_declared
        self._has_channel = channel
        self._propagate = _members(Propagate, propagate, field="propagate")
        self._role_hints = _members(RoleHint, role_hints, field="role_hints")
        self._pending = None if hook_tool is None else PendingReminders(hook_tool)
        self._unheard = Unheard() if keep_unheard else None
        # Whether an `MCPServer` has taken the tools of this extension.
        self._is_extension = False
        # The client that has sent nothing for the longest time is the first.
        self._standalone: dict[ClientId, Carriage] = {}
        self._streams: list[ListenStream] = []
        # The loop of the server; None before its first message.
        self._loop: asyncio.AbstractEventLoop | None = None

    # What a server calls.

    async def emit(
        self,
        body: str,
        *,
        dedupe_key: str | None = None,
        ttl_turns: int | None = None,
        tags: Tags = (),
        preserve_on_compact: bool = False,
        propagate: PropagateWord = "session",
        role_hint: RoleHintWord = "system",
        id: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> str:
        """Send a reminder to all clients, and return its id.

        The call does not wait for clients: for each, up to 64 reminders wait in a buffer. It works in any task of the
        server's event loop, inside and outside of requests. A wrong value raises the error that a host would report,
        and nothing is sent.
        """
        self._check_loop()
        params = self._params(
            {
                "id": new_id() if id is None else id,
                "body": body,
                "tags": tags,
                "dedupeKey": dedupe_key,
                "ttlTurns": ttl_turns,
                "preserveOnCompact": preserve_on_compact,
                "propagate": propagate,
                "roleHint": role_hint,
            },
            meta,
        )
        self._send(params)
        # A burst in one task would otherwise push out reminders that the clients are ready to read.
        await asyncio.sleep(0)
        return params.reminder.id

    def close(self) -> None:
        """End all listen streams gracefully, for example before the server shuts down."""
        for stream in self._streams:
            stream.end()

    def _params(self, payload: Mapping[str, object], meta: Mapping[str, Any] | None) -> ReminderParams:
        draft = parse(payload, Surface.MCP)
        size = len(draft.body.encode())
        if size > MAX_BODY_BYTES:
            raise BodyTooLarge(size, MAX_BODY_BYTES)
        for field, value, values in (
            ("propagate", draft.propagate, self._propagate),
            ("role_hint", draft.role_hint, self._role_hints),
        ):
            if value not in values:
                words = ", ".join(repr(word.value) for word in values)
                option = "propagate" if field == "propagate" else "role_hints"
                raise InvalidOption(
                    f"{field} {shown(value.value)} is not among the values that this server declares ({words}); "
                    f"declare it: Reminders({option}=[...])",
                    field=field,
                    value=value,
                )
        return ReminderParams(
            reminder=ReminderSpec(
                id=cast("str", draft.caller_id),
                body=draft.body,
                tags=draft.tags or None,
                dedupe_key=draft.dedupe_key,
                ttl_turns=draft.ttl_turns,
                preserve_on_compact=draft.preserve_on_compact,
                propagate=draft.propagate,
                role_hint=draft.role_hint,
            ),
            meta=None if meta is None else dict(read_meta(meta, Surface.MCP)),
        )

    def _check_loop(self) -> None:
        # A closed loop belongs to an earlier run of the server.
        if self._loop is None or self._loop.is_closed():
            return
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "emit() was called in another event loop than the server's; from a thread, use "
                "anyio.from_thread.run(reminders.emit, body) or asyncio.run_coroutine_threadsafe(...)"
            )

    def _send(self, params: ReminderParams) -> None:
        """Put a reminder into the outbox of one carriage of each client."""
        if self._pending is not None:
            self._pending.outbox.put(params)
        listening = {stream.client for stream in self._streams if not stream.outbox.is_closed}
        for stream in self._streams:
            stream.offer(params)
        scope = _REQUEST.get()
        caller = None
        if scope is not None and scope.owner is self and scope.carriage is not None:
            caller = scope.carriage.client
            if caller not in listening:
                scope.offer(params)
        if self._unheard is not None and not listening and caller is None and not self._standalone:
            self._unheard.put(params, now=asyncio.get_running_loop().time())
        for client, carriage in self._standalone.items():
            if client == caller or client in listening:
                # An older one that still waits here would arrive after the newer one.
                carriage.outbox.withdraw(params)
            else:
                carriage.offer(params)

    def _forget_unheard(self) -> None:
        if self._unheard is not None:
            self._unheard.take(now=asyncio.get_running_loop().time())

    def _catch_up(self, carriage: "Carriage | _RequestScope") -> None:
        """Offer what was emitted while no client could be reached."""
        if self._unheard is not None:
            for params in self._unheard.take(now=asyncio.get_running_loop().time()):
                carriage.offer(params)

    # The extension.

    def settings(self) -> dict[str, Any]:
        return emit_settings(propagate=self._propagate, role_hints=self._role_hints)

    def tools(self) -> Sequence[ToolBinding]:
        self._is_extension = True
        return () if self._pending is None else (self._pending.binding,)

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        """Refuse tool calls if these reminders are mounted as an extension but not as a middleware.

        The middleware sees each message before this function does, so `_loop` is None only if there is no middleware.
        """
        if self._loop is None:
            raise InvalidOption(
                "reminders are mounted as an extension only, and reach no client; "
                f"write MCPServer(..., extensions=[reminders], middleware=[reminders]) (tool {params.name!r})",
                field="middleware",
            )
        return await call_next(ctx)

    # The middleware.

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Serve the messages that concern reminders, and pass on all others."""
        self._loop = asyncio.get_running_loop()
        if self._pending is not None and not self._is_extension and ctx.request_id is not None:
            raise InvalidOption(
                "hook_tool adds a tool to an MCPServer only; write MCPServer(..., extensions=[reminders], "
                "middleware=[reminders]), or leave hook_tool out",
                field="hook_tool",
            )
        self._note_activity(ctx)
        match ctx.method:
            case "initialize" | "server/discover":
                return self._with_capability(ctx, await call_next(ctx))
            case "notifications/initialized":
                return await self._serve_standalone(ctx, call_next)
            case "notifications/cancelled":
                self._end_cancelled(ctx)
        if ctx.request_id is None or not is_ready(ctx):
            return await call_next(ctx)
        if ctx.method == LISTEN:
            return await self._serve_listen(ctx, None, {k: v for k, v in (ctx.params or {}).items() if k != "_meta"})
        if ctx.method == SUBSCRIPTIONS_LISTEN and (wanted := requested(ctx.params)) is not None:
            return await self._serve_listen(ctx, call_next, wanted)
        return await self._serve_request(ctx, call_next)

    def _with_capability(self, ctx: Context, result: HandlerResult) -> HandlerResult:
        if not isinstance(result, dict):
            return result
        capabilities = with_emit(result.get("capabilities") or {}, self.settings())
        if self._has_channel and ctx.method == "initialize":
            capabilities["experimental"] = {**capabilities["experimental"], CHANNEL: {}}
        return {**result, "capabilities": capabilities}

    async def _serve_request(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        scope = _RequestScope(self, self._request_carriage(ctx))
        if self._calls_hook_tool(ctx):
            # The answer of the tool has what was kept, too.
            self._forget_unheard()
        elif scope.carriage is not None and self._pending is None:
            # With the hook tool, a client that has no listen stream gets it in the answer of that tool.
            self._catch_up(scope)
        token = _REQUEST.set(scope)
        try:
            return await call_next(ctx)
        finally:
            _REQUEST.reset(token)
            await scope.finish()

    def _request_carriage(self, ctx: Context) -> Carriage | None:
        """The carriage on the stream of a request; None if its client is not reached this way."""
        if self._calls_hook_tool(ctx):
            return None
        is_declared = declares_receive(declared(ctx))
        if is_modern(ctx):
            is_open = is_declared
        elif ctx.request is None:
            is_open = False
        elif has_session(ctx):
            # A server that answers with JSON instead of a stream cannot write before the answer, nor ask the client.
            is_open = ctx.session.can_send_request and (is_declared or not self._only_declared)
        else:
            is_open = not self._only_declared
        if not is_open:
            return None
        return self._carriage(ctx, is_declared=is_declared, related_to=ctx.request_id)

    def _calls_hook_tool(self, ctx: Context) -> bool:
        return self._pending is not None and ctx.method == "tools/call" and (ctx.params or {}).get("name") == TOOL

    def _carriage(self, ctx: Context, *, is_declared: bool, related_to: RequestId | None = None) -> Carriage:
        uses_channel = self._has_channel and has_session(ctx) and not is_declared
        writer = channel_writer if uses_channel else reminder_writer
        return Carriage(client_of(ctx), writer(ctx.session, related_to=related_to))

    # The standalone channel.

    async def _serve_standalone(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Write to a client that has completed the handshake until its connection ends.

        The handler of the notification does not return before that: the SDK cancels it at the end of the connection,
        and tells a server in no other way that a client has left.
        """
        carriage = self._admit(ctx)
        if carriage is None:
            return await call_next(ctx)
        self._standalone[carriage.client] = carriage
        self._catch_up(carriage)
        try:
            result = await call_next(ctx)
            await carriage.run()
        finally:
            # Not if another client has taken its place.
            if self._standalone.get(carriage.client) is carriage:
                del self._standalone[carriage.client]
        return result

    def _admit(self, ctx: Context) -> Carriage | None:
        """The standalone channel of a new client; None if it gets none."""
        is_declared = declares_receive(declared(ctx))
        if not has_session(ctx) or client_of(ctx) in self._standalone or (self._only_declared and not is_declared):
            return None
        if len(self._standalone) >= MAX_CLIENTS:
            self._evict()
        return self._carriage(ctx, is_declared=is_declared)

    def _evict(self) -> None:
        """End the standalone channel of a client that does not read, or else of the one that is silent for longest.

        Over HTTP the SDK does not tell whether a session was abandoned: writing to it succeeds.
        """
        silent = next(iter(self._standalone.values()))
        evicted = next((other for other in self._standalone.values() if other.outbox.has_overflowed), silent)
        del self._standalone[evicted.client]
        evicted.outbox.clear()
        evicted.outbox.close()
        LOG.warning(
            "more than %d clients are connected: the one that was silent for longest gets reminders only in its "
            "requests and on listen streams",
            MAX_CLIENTS,
        )

    def _note_activity(self, ctx: Context) -> None:
        """Keep the standalone channels in the order in which their clients were last active."""
        if has_session(ctx) and (carriage := self._standalone.pop(client := client_of(ctx), None)) is not None:
            self._standalone[client] = carriage

    # Listen streams.

    async def _serve_listen(self, ctx: Context, call_next: CallNext | None, wanted: object) -> HandlerResult:
        """Serve a listen stream until the client leaves or opens another one.

        `call_next` None: the stream carries only reminders. Otherwise the server's own handler serves what else the
        client asks for, if there is such a handler.
        """
        where = "params" if call_next is None else "notifications.reminders"
        wants = read_filter(wanted, where=where)
        stream = self._open_stream(ctx, wants, has_other_keys=call_next is not None and asks_for_more(ctx.params))
        subscription = stream.request_id
        try:
            with stream.scope:
                if call_next is not None:
                    with suppress(_Unserved):
                        return await self._serve_beside(ctx, call_next, stream, wants)
                    stream.has_other_keys = False
                await ctx.session.send_notification(acknowledgement(subscription, honoured(wants)), subscription)
                await stream.run()
        except Disconnected as gone:
            self._close_stream(stream)
            self._hand_over(stream, gone.unsent)
        finally:
            self._close_stream(stream)
        return ending(subscription)

    async def _serve_beside(
        self, ctx: Context, call_next: CallNext, stream: ListenStream, wants: ReminderFilter
    ) -> HandlerResult:
        """Serve reminders on the stream of the server's own handler, from its acknowledgement on."""
        writer: asyncio.Task[None] | None = None

        def start() -> None:
            nonlocal writer
            writer = asyncio.create_task(stream.run())

        session = cast("ServerSession", AcknowledgingSession(ctx.session, honoured(wants), start))
        try:
            return await call_next(replace(ctx, session=session))
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND and writer is None:
                raise _Unserved from error
            raise
        finally:
            if writer is not None:
                stream.outbox.close()
                await writer

    def _open_stream(self, ctx: Context, wants: ReminderFilter, *, has_other_keys: bool) -> ListenStream:
        """Open a stream, which takes over the reminders of older streams of the same client."""
        client = client_of(ctx)
        stream = ListenStream(ctx, client, wants, has_other_keys=has_other_keys)
        older = [other for other in self._streams if client.is_certain and other.client == client]
        if len(self._streams) - sum(not other.has_other_keys for other in older) >= MAX_CLIENTS:
            raise MCPError(INTERNAL_ERROR, f"{MAX_CLIENTS} listen streams are open; no more are served")
        for other in older:
            while (params := other.outbox.take()) is not None:
                stream.offer(params)
            other.give_way()
            if not other.has_other_keys:
                self._close_stream(other)
        self._streams.append(stream)
        self._catch_up(stream)
        return stream

    def _hand_over(self, stream: ListenStream, unsent: ReminderParams | None) -> None:
        """Put what a broken stream could not write on the standalone channel of its client, if it has one."""
        carriage = self._standalone.get(stream.client)
        while carriage is not None and unsent is not None:
            carriage.offer(unsent)
            unsent = stream.outbox.take()

    def _close_stream(self, stream: ListenStream) -> None:
        with suppress(ValueError):
            self._streams.remove(stream)

    def _end_cancelled(self, ctx: Context) -> None:
        """End the stream that a client cancels with a request of its own, as over HTTP without sessions."""
        client, cancelled = client_of(ctx), (ctx.params or {}).get("requestId")
        for stream in [*self._streams]:
            if stream.client == client and stream.request_id == cancelled:
                self._close_stream(stream)
                stream.end()
