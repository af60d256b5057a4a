"""Operations of the HTTP API: how a request is read and checked, and how errors are answered."""

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
from sideband.protocols.http import HttpRefusal, read_body, refused_type
from sideband.protocols.refusals import REFUSALS, error_data
from sideband.recall.facts import FactError
from sideband.studio.auth import Gate
from sideband.studio.shapes import ApiError, ApiFault
from sideband.studio.stream import EventStream

_encode: Final = msgspec.json.Encoder().encode
_JSON: Final = ("application/json",)
SSE: Final = "text/event-stream"


# Operations.


class Call(NamedTuple):
    """A request: the parameters of its path, its query and its body as the operation declares them, and its sender."""

    path: Mapping[str, str]
    query: Any
    body: Any
    sender: Provenance
    headers: Mapping[str, str]


Handler: TypeAlias = Callable[[Any, Call], Awaitable[object]]


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


class ApiRefusal(Exception):
    """A request that is refused before a session is asked."""

    def __init__(self, refusal: HttpRefusal) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal


# Answering.


class Endpoint:
    """Answers the requests of one path."""

    def __init__(self, api: object, operations: Mapping[str, Operation], gate: Gate, *, limit: int) -> None:
        self._api = api
        self._operations = operations
        self._gate = gate
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        answer = await self._answer(request)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response | EventStream:
        operation = self._operations.get("GET" if request.method == "HEAD" else request.method)
        if operation is None:
            allowed = ", ".join(self._operations)
            return refused(HttpRefusal(405, f"This address takes {allowed}.", "method_not_allowed"), {"Allow": allowed})
        try:
            call = await self._read(request, operation)
            if request.method == "HEAD" and operation.streams:
                # A stream has no end, and nobody would read it.
                return Response(media_type=SSE)
            value = await operation.handler(self._api, call)
        except ApiRefusal as error:
            return refused(error.refusal)
        except TimeoutError:
            return refused(HttpRefusal(408, "The request did not arrive in time.", "timed_out"))
        except (ReminderError, FactError, StoreError, ModelError, CommandError) as error:
            return refused_with(error)
        except Exception as error:  # noqa: BLE001 - the outermost handler
            LOG.error("the request %s %s failed", request.method, request.url.path, exc_info=error)
            return refused(HttpRefusal(500, "The server failed; its log says why.", "internal_error"))
        if isinstance(value, Response | EventStream):
            return value
        if value is None:
            return Response(status_code=204)
        return Response(_encode(value), operation.status, media_type="application/json")

    async def _read(self, request: Request, operation: Operation) -> Call:
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
        return Call(path, query, body, sender, headers)


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


def refused_with(error: Exception) -> Response:
    """The answer to a request that was refused with this error."""
    status, data = _status(error), error_data(error) if isinstance(error, ReminderError) else {}
    code: str | None = getattr(error, "code", None)
    fault = ApiFault(
        reason=getattr(error, "reason", "invalid_option"),
        message=str(error).removeprefix(f"{code}: "),
        code=code,
        field=data.get("field"),
        id=data.get("id") or data.get("reminderId") or data.get("messageId"),
        retry_after_ms=data.get("retryAfterMs"),
    )
    if isinstance(error, CursorExpired):
        fault = msgspec.structs.replace(fault, oldest=error.oldest)
    elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        LOG.error("a request failed: %s", error)
        what = "The store cannot be used now" if isinstance(error, StoreError) else "The server failed"
        fault = ApiFault(reason=fault.reason, code=code, message=f"{what}; the log of the server says why.")
    return Response(_encode(ApiError(error=fault)), status, media_type="application/json")


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
