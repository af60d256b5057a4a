"""Operations of the HTTP API: how a request is read and checked, and how errors are answered."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sideband.core.errors import (
    CursorExpired,
    InvalidOption,
    InvalidReminder,
    ReminderError,
    StoreError,
    UnknownOption,
    shown,
)
from sideband.core.parse import refuse_repeated_keys
from sideband.core.trust import Provenance
from sideband.inspect.report import CommandError
from sideband.logs import LOG
from sideband.ports import ModelError
from sideband.protocols.http import ClientGone, HttpRefusal, read_body, refused_type
from sideband.protocols.refusals import REFUSALS, error_data
from sideband.recall.facts import FactError
from sideband.studio.auth import Gate
from sideband.studio.shapes import ApiError, ApiFault
from sideband.studio.stream import EventStream, until_gone

_encode: Final = msgspec.json.Encoder().encode
_JSON: Final = ("application/json",)
SSE: Final = "text/event-stream"


# Operations.


class ApiCall(NamedTuple):
    """A request: the parameters of its path, its query and its body as the operation declares them, and its sender."""

    path: Mapping[str, str]
    query: Any
    body: Any
    sender: Provenance
    headers: Mapping[str, str]


Handler: TypeAlias = Callable[[Any, ApiCall], Awaitable[object]]


class Operation(NamedTuple):
    """One method of one path.

    The handler gets the `body` as this shape, or its bytes if it `is_raw`. `answer=None` is the status 204. An operation
    with `events` answers with these server-sent events if the request accepts them, or always if it has no other answer.
    One that `is_open` needs no login.
    """

    method: str
    path: str
    summary: str
    handler: Handler
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    answer: Any = None
    status: int = 200
    is_raw: bool = False
    events: str | None = None
    is_open: bool = False

    @property
    def streams(self) -> bool:
        return self.events is not None

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields of its body."""
        return () if self.body is None else self.body.__struct_encode_fields__


class ApiRefusal(Exception):
    """A request that is refused before a session is asked."""

    def __init__(self, refusal: HttpRefusal) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal


# Answering.


class ApiEndpoint:
    """Answers the requests of one path."""

    def __init__(self, api: object, operations: Mapping[str, Operation], gate: Gate, *, limit: int) -> None:
        self._api = api
        self._operations = operations
        self._gate = gate
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(Request(scope, receive))
        except ClientGone:
            return
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response | EventStream:
        operation = self._operations.get("GET" if request.method == "HEAD" else request.method)
        if operation is None:
            allowed = ", ".join(self._operations)
            return refused(HttpRefusal(405, f"This address takes {allowed}.", "method_not_allowed"), {"Allow": allowed})
        try:
            call = await self._read(request, operation)
            if request.method == "HEAD" and operation.streams:
                # A stream has no end, and the answer to HEAD has no body.
                return Response(media_type=SSE)
            handling = operation.handler(self._api, call)
            is_read = operation.method == "GET" and not operation.streams
            value = await (_unless_gone(request.receive, handling) if is_read else handling)
        except ClientGone:
            raise
        except ApiRefusal as error:
            return refused(error.refusal)
        except TimeoutError:
            return refused(HttpRefusal(408, "The request did not arrive in time.", "timed_out"))
        except (ReminderError, FactError, StoreError, ModelError, CommandError) as error:
            return refused_with(error, operation)
        except Exception as error:  # noqa: BLE001 - the outermost handler
            LOG.error("the request %s %s failed", request.method, request.url.path, exc_info=error)
            return refused(HttpRefusal(500, "The server failed; its log says why.", "internal_error"))
        if isinstance(value, Response | EventStream):
            return value
        if value is None:
            return Response(status_code=204)
        return Response(_encode(value), operation.status, media_type="application/json")

    async def _read(self, request: Request, operation: Operation) -> ApiCall:
        headers = request.headers
        sender = self._gate.sender(headers)
        if isinstance(sender, HttpRefusal):
            if not operation.is_open or sender.status != HTTPStatus.UNAUTHORIZED:
                raise ApiRefusal(sender)
            sender = Provenance()
        wrong = refused_type(operation.method, headers, _JSON)
        if wrong is not None:
            raise ApiRefusal(wrong)
        query = _read_query(request, operation.query or _NoQuery)
        body: Any = None
        if operation.body is not None:
            body = await read_body(headers, request.receive, limit=self._limit)
            if not operation.is_raw:
                body = _decoded(body or b"{}", operation.body)
        path = {name: unquote(value) for name, value in request.path_params.items()}
        return ApiCall(path, query, body, sender, headers)


async def _unless_gone(receive: Receive, handling: Awaitable[object]) -> object:
    """The answer to a read, which is cancelled if its client leaves: reads wait for each other."""
    working = asyncio.ensure_future(handling)
    leaving = asyncio.ensure_future(until_gone(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait((working, leaving))


class _NoQuery(msgspec.Struct):
    """No parameters."""


def _read_query(request: Request, shape: type[msgspec.Struct]) -> Any:  # noqa: ANN401 - of this shape
    given = request.query_params
    known = shape.__struct_fields__
    for name in given:
        if name not in known:
            there_are = f"there are {', '.join(known)}" if known else "this address takes none"
            raise UnknownOption(f"there is no parameter {shown(name)}; {there_are}", field=name)
        if len(given.getlist(name)) > 1:
            raise InvalidOption(f"the parameter {name} is given twice", field=name)
    try:
        return msgspec.convert({**given}, shape, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidOption(f"query: {error}", field=_field(error)) from None


def _decoded(raw: bytes, shape: type[msgspec.Struct]) -> Any:  # noqa: ANN401 - of this shape
    try:
        refuse_repeated_keys(raw)
        return msgspec.json.decode(raw, type=shape)
    except RecursionError:
        raise InvalidOption("the body is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise InvalidOption(f"body: {error}", field=_field(error)) from None
    except InvalidReminder as error:
        # A repeated key; the body is no reminder.
        raise InvalidOption(str(error).removeprefix(f"{error.code}: "), field=error.field) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidOption(f"the body is not JSON: {error}") from None


def _field(error: msgspec.ValidationError) -> str | None:
    """The field that the error is about, if it names one."""
    _, _, path = str(error).partition(" - at `$")
    return path.rstrip("`").lstrip(".") or None


# Errors.


def refused(refusal: HttpRefusal, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that is refused before a session is asked."""
    given = {**(headers or {}), **({"WWW-Authenticate": "Bearer"} if refusal.status == HTTPStatus.UNAUTHORIZED else {})}
    fault = ApiFault(reason=refusal.reason, message=refusal.text)
    return Response(_encode(ApiError(error=fault)), refusal.status, given, media_type="application/json")


def refused_with(error: Exception, operation: Operation) -> Response:
    """The answer to a request of this operation that was refused with this error."""
    status, data = _status(error), error_data(error) if isinstance(error, ReminderError) else {}
    code: str | None = getattr(error, "code", None)
    reason, message = getattr(error, "reason", "invalid_option"), str(error).removeprefix(f"{code}: ")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        LOG.error("a request failed: %s", error)
        what = "The store cannot be used now" if isinstance(error, StoreError) else "The server failed"
        data, message = {}, f"{what}; the log of the server says why."
    about: str | None = data.get("id") or data.get("reminderId") or data.get("messageId")
    retry_after_ms: int | None = data.get("retryAfterMs")
    fault = ApiFault(
        reason=reason,
        message=message,
        code=code,
        field="id" if about is not None and "id" in operation.fields else data.get("field"),
        id=about,
        retry_after_ms=retry_after_ms,
        oldest=error.oldest if isinstance(error, CursorExpired) else None,
    )
    headers = None if retry_after_ms is None else {"Retry-After": str(-(-retry_after_ms // 1_000))}
    return Response(_encode(ApiError(error=fault)), status, headers, media_type="application/json")


def _status(error: Exception) -> int:
    match error:
        case ReminderError():
            return REFUSALS[error.reason].http
        case FactError() | CommandError():
            return 400
        case CursorExpired():
            return 410
        case _:
            return 503
