"""The only module that relies on how the SDK of A2A behaves beyond its documented interface; contract tests pin it.

- A request reaches the handler with a context that a builder makes from the request. `A2aCall` travels in it.
- An error of the handler becomes an answer with the SDK's own codes and details. `A2aCall.refusal` replaces that answer.
- A streamed answer is an `EventSourceResponse`, whose `body_iterator` yields the frames that the handler's events become.
"""

import functools
import inspect
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, cast

import msgspec
from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.routes import ServerCallContextBuilder, create_rest_routes
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.utils.error_handlers import build_rest_error_payload
from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from sse_starlette.sse import EventSourceResponse
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sideband.core.errors import InvalidOption, RateLimited, ReminderError, StoreError
from sideband.logs import LOG
from sideband.protocols.a2a.auth import Caller
from sideband.protocols.refusals import error_details, refusal

LEGACY_HEADER: Final = f"X-{HTTP_EXTENSION_HEADER}"
MAX_VALUES: Final = 10_000
MEDIA_TYPE: Final = "application/a2a+json"
SCOPE_KEY: Final = "sideband.a2a"

_P = ParamSpec("_P")
_T = TypeVar("_T")
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


# The call.


class A2aCall(msgspec.Struct, kw_only=True):
    """A request and who sends it.

    `extensions` are those that the caller has activated. `raw_frames` are notifications that the stream has to send as
    frames of their own. `refusal` is why the request was refused (None: it was not), and `id_name` the parameter with the
    id that a refusal is about.
    """

    caller: Caller
    extensions: frozenset[str] = frozenset()
    raw_frames: deque[dict[str, Any]] = msgspec.field(default_factory=deque)
    refusal: ReminderError | None = None
    id_name: str = "taskId"
    request_id: str | int | None = None


class CallContextBuilder(ServerCallContextBuilder):
    """Puts the call of a request into the context that the handler gets."""

    def build(self, request: Request) -> ServerCallContext:
        call: A2aCall = request.scope[SCOPE_KEY]
        return ServerCallContext(
            state={"headers": dict(request.headers), SCOPE_KEY: call}, requested_extensions=set(call.extensions)
        )


def call_of(context: ServerCallContext) -> A2aCall:
    """The call that a handler answers."""
    call: A2aCall = context.state[SCOPE_KEY]
    return call


def requested_extensions(headers: Headers) -> frozenset[str]:
    """The extensions that a request activates, under the header of version 1.0 or that of 0.3."""
    given = (*headers.getlist(HTTP_EXTENSION_HEADER), *headers.getlist(LEGACY_HEADER))
    return frozenset(get_requested_extensions([*given]))


# Errors.

_CLASSES: Final[Mapping[int, type[A2AError]]] = MappingProxyType(
    {-32001: TaskNotFoundError, -32004: UnsupportedOperationError, -32602: InvalidParamsError}
)


def handling(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let a method of a handler refuse requests with the errors of Sideband, and hide all other failures."""
    if inspect.isasyncgenfunction(method):

        @functools.wraps(method)
        async def generator(self: RequestHandler, params: object, context: ServerCallContext) -> AsyncIterator[Any]:
            try:
                events = cast("Any", method)(self, params, context)
                # Closed at once when the client leaves, and not when the garbage collector finds it.
                async with aclosing(events):
                    async for event in events:
                        yield event
            except Exception as error:  # noqa: BLE001 - the outermost handler
                raise _translated(error, context) from None

        return cast("Callable[_P, _T]", generator)

    @functools.wraps(method)
    async def coroutine(self: RequestHandler, params: object, context: ServerCallContext) -> object:
        try:
            return await cast("Any", method)(self, params, context)
        except Exception as error:  # noqa: BLE001 - the outermost handler
            raise _translated(error, context) from None

    return cast("Callable[_P, _T]", coroutine)


def _translated(error: Exception, context: ServerCallContext) -> A2AError:
    """The error that the SDK is given; `A2aCall.refusal` is what the caller gets, where an answer can still be chosen."""
    if isinstance(error, A2AError):
        return error
    if isinstance(error, ReminderError):
        call_of(context).refusal = error
        return _CLASSES.get(refusal(error).a2a, InternalError)(message=_text(error))
    if isinstance(error, StoreError):
        LOG.warning("a request failed: %s", error)
    else:
        LOG.error("a request failed", exc_info=error)
    return InternalError(message="Internal error")


def _text(error: ReminderError) -> str:
    return str(error).removeprefix(f"{error.code}: ")


def rpc_error(error: ReminderError, call: A2aCall) -> dict[str, Any]:
    """The JSON-RPC answer that refuses a request."""
    details = error_details(error, id_name=call.id_name)
    body = {"code": refusal(error).a2a, "message": _text(error), "data": details}
    return {"jsonrpc": "2.0", "id": call.request_id, "error": body}


_STATUS_WORDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        400: "INVALID_ARGUMENT",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        409: "FAILED_PRECONDITION",
        413: "RESOURCE_EXHAUSTED",
        429: "RESOURCE_EXHAUSTED",
        500: "INTERNAL",
    }
)


def http_error(error: ReminderError, call: A2aCall) -> Response:
    """The answer that refuses a request on the HTTP+JSON binding."""
    status = refusal(error).http
    body = {"code": status, "status": _STATUS_WORDS[status], "message": _text(error)}
    answer = {"error": {**body, "details": error_details(error, id_name=call.id_name)}}
    headers = {}
    if isinstance(error, RateLimited):
        headers["Retry-After"] = str(-(-error.retry_after_ms // 1_000))
    return JSONResponse(answer, status, headers, media_type=MEDIA_TYPE)


# What is checked before the SDK reads it.


class NotJson(ValueError):
    """A body is not JSON, or is nested too deeply."""


def check_json(body: bytes) -> None:
    """Raise `NotJson`, or `InvalidOption` if a body has more values than a message needs.

    The SDK takes seconds for a body of 1 MiB that consists of many small values, and nothing else runs meanwhile. What
    Python's parser cannot read, it answers with an internal error.
    """
    if not body.strip():
        return
    try:
        pending: list[Any] = [msgspec.json.decode(body)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NotJson from None
    values = 0
    while pending:
        value = pending.pop()
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        values += len(inner)
        if values > MAX_VALUES:
            raise InvalidOption(f"a request may have at most {MAX_VALUES:,} values", field="params")
        pending.extend(inner)


# Endpoints.


def jsonrpc_endpoint(handler: RequestHandler) -> Endpoint:
    """What answers the methods of A2A over JSON-RPC."""
    dispatcher = JsonRpcDispatcher(handler, context_builder=CallContextBuilder(), enable_v0_3_compat=True)

    async def endpoint(request: Request) -> Response:
        call: A2aCall = request.scope[SCOPE_KEY]
        return await _adapted(
            await dispatcher.handle_requests(request), call, lambda error: JSONResponse(rpc_error(error, call))
        )

    return endpoint


def http_routes(handler: RequestHandler) -> list[Route]:
    """The routes of the HTTP+JSON binding."""

    def adapted(route: Route) -> Route:
        inner: Endpoint = route.endpoint

        async def endpoint(request: Request) -> Response:
            call: A2aCall = request.scope[SCOPE_KEY]
            try:
                check_json(await request.body())
            except NotJson:
                answer = build_rest_error_payload(InvalidParamsError(message="The body is not JSON."))
                return JSONResponse(answer, 400, media_type=MEDIA_TYPE)
            except InvalidOption as error:
                return http_error(error, call)
            return await _adapted(await inner(request), call, lambda error: http_error(error, call))

        return Route(route.path, endpoint, methods=sorted(route.methods or ()))

    routes = create_rest_routes(handler, context_builder=CallContextBuilder(), enable_v0_3_compat=True)
    # Without the routes under a tenant, because this server has none.
    return [adapted(route) for route in routes if isinstance(route, Route)]


async def _adapted(response: Response, call: A2aCall, refuse: Callable[[ReminderError], Response]) -> Response:
    if isinstance(response, EventSourceResponse):
        frames = _with_raw_frames(response.body_iterator, call)
        # A stream of version 0.3 is answered before its handler has said anything.
        try:
            first = await anext(frames, None)
        except Exception:
            if call.refusal is None:
                raise
            first = None
        if call.refusal is None:
            response.body_iterator = _with_first(first, frames)
            return response
        await frames.aclose()
    return response if call.refusal is None else refuse(call.refusal)


async def _with_first(first: object, frames: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async with aclosing(cast("Any", frames)):
        if first is not None:
            yield first
        async for frame in frames:
            yield frame


async def _with_raw_frames(frames: AsyncIterable[Any], call: A2aCall) -> AsyncGenerator[Any, None]:
    """The frames of a stream, each followed by the notifications that came up with it."""
    async with aclosing(cast("Any", frames)):
        async for frame in frames:
            yield frame
            while call.raw_frames:
                told = dict(call.raw_frames.popleft())
                notified = {"jsonrpc": "2.0", "method": told.pop("method"), "params": told}
                yield {"data": msgspec.json.encode(notified).decode()}
