"""A client of a running `sideband serve`: requests and event streams over HTTP, with the standard library only."""

import re
import socket
import ssl
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http import HTTPStatus
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
    RemoteDisconnected,
)
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import msgspec

from sideband import __version__
from sideband.cli.target import ServerLost
from sideband.cli.token import TOKEN_VARIABLE, has_given_token, token_for
from sideband.core.errors import CursorExpired, shown
from sideband.core.surfaces import Case, spelled
from sideband.inspect.report import CommandError
from sideband.protocols.http import is_loopback
from sideband.protocols.refusals import reported_error

CONNECT_SECONDS: Final = 10.0
# A stream sends something each 15 seconds.
ANSWER_SECONDS: Final = 60.0
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
# The pauses before a lost server is tried again.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0

_CODE: Final = re.compile(r"[A-Z]+(?:-[A-Z0-9]+)+")
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
# The connection failed or was lost; any other HTTPException is an answer that is not HTTP.
_LOST: Final = (OSError, IncompleteRead)
# The path of an address can be sent as it is.
_PATH: Final = re.compile(r"[!-~]*")
# The command that shows what a request has changed, by the first part of its path.
_SHOWN_BY: Final[Mapping[str, str]] = {"sessions": "sideband pending", "facts": "sideband facts"}
# The fields of a reminder, by their names on the wire.
_FIELDS: Final[Mapping[str, str]] = {
    spelled(field, Case.CAMEL): field
    for field in ("dedupe_key", "ttl_turns", "preserve_on_compact", "role_hint", "reminder_id", "message_id")
} | {"_meta.sideband.idempotencyKey": "id"}


class Fault(msgspec.Struct, frozen=True, rename="camel"):
    """Why the server refused a request."""

    reason: str
    message: str
    code: str | None = None
    field: str | None = None
    id: str | None = None
    retry_after_ms: int | None = None
    oldest: int | None = None


class _Answer(msgspec.Struct, frozen=True):
    error: Fault


class ServerEvent(NamedTuple):
    """One event of a stream."""

    name: str
    data: bytes


def _read_url(url: str, argument: str) -> SplitResult:
    """The address of a server without a slash at its end; an error does not repeat it, because it may hold a password."""
    try:
        parts = urlsplit(url.rstrip("/"))
        # A host that cannot be encoded is refused here, and not when it is connected to.
        host = (parts.hostname or "").encode("idna")
        is_known = parts.scheme in ("http", "https") and bool(host) and parts.port != 0
    except ValueError:
        is_known = False
    if not is_known or parts.query or parts.username is not None or _PATH.fullmatch(parts.path) is None:
        raise CommandError(
            f"{argument} must have an address like http://HOST:PORT, with no query, user name or password; the token is read "
            f"from ${TOKEN_VARIABLE}"
        )
    return parts


def pauses() -> Iterator[float]:
    """The pauses between attempts to reach a server that was lost, in seconds."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_PAUSE)


def snake_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with their names in Python."""
    return {_FIELDS.get(name, name): value for name, value in fields.items()}


class ServerClient:
    """Sends requests to the server at `url`, each on a connection of its own. It follows no redirect.

    `argument` is the one with the address, for errors.
    """

    def __init__(self, url: str, *, argument: str = "--to") -> None:
        self._parts = _read_url(url, argument)
        self.url = self._parts.geturl()
        self._token = token_for(self.url)
        if self._token is not None and not (self._token.isascii() and self._token.isprintable()):
            raise CommandError(f"${TOKEN_VARIABLE} must be a text of printable ASCII characters")

    # Requests.

    def get(self, *path: str, **query: object) -> bytes:
        """The answer to a request for this path; its parts are escaped, and parameters that are None left out."""
        return self._request("GET", path, query)

    def post(self, *path: str, body: Mapping[str, Any]) -> bytes:
        """The answer to a request with this JSON body."""
        return self._request("POST", path, {}, body)

    def delete(self, *path: str, **query: object) -> bytes:
        return self._request("DELETE", path, query)

    def _target(self, path: Sequence[str], query: Mapping[str, object]) -> str:
        with _encoding():
            given = urlencode({name: value for name, value in query.items() if value is not None})
            where = "/".join(quote(part, safe="") for part in path)
        return f"{self._parts.path}/api/{where}{'?' if given else ''}{given}"

    def _request(
        self, method: str, path: Sequence[str], query: Mapping[str, object], body: Mapping[str, Any] | None = None
    ) -> bytes:
        target, is_sent = self._target(path, query), False
        with _encoding():
            data = None if body is None else msgspec.json.encode(body)
        try:
            with self._connected() as connection:
                is_sent = True
                connection.request(method, target, data, self._headers(_JSON, has_body=data is not None))
                with closing(connection.getresponse()) as answer:
                    raw = answer.read(MAX_ANSWER_BYTES + 1)
                    if answer.length and len(raw) <= MAX_ANSWER_BYTES:
                        raise IncompleteRead(raw)
        except _LOST as error:
            if is_sent and method != "GET" and path[0] in _SHOWN_BY:
                raise self._unknown_outcome(error, _SHOWN_BY[path[0]]) from error
            raise self._unreachable(error) from error
        except HTTPException:
            raise self._stranger("it does not speak HTTP") from None
        if len(raw) > MAX_ANSWER_BYTES:
            raise CommandError(f"the answer of the server at {self.url} is larger than {MAX_ANSWER_BYTES:,} bytes")
        self._check(answer, raw)
        return raw

    @contextmanager
    def _connected(self) -> Iterator[HTTPConnection]:
        secure = self._parts.scheme == "https"
        kind = HTTPSConnection if secure else HTTPConnection
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=CONNECT_SECONDS)
        try:
            connection.connect()
            if connection.sock is not None:
                connection.sock.settimeout(ANSWER_SECONDS)
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connection
        finally:
            connection.close()

    def _headers(self, accepts: str, *, has_body: bool = False) -> dict[str, str]:
        headers = {"Accept": accepts, "User-Agent": f"sideband/{__version__}"}
        if has_body:
            headers["Content-Type"] = _JSON
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    # Errors.

    def _unreachable(self, error: Exception) -> CommandError:
        why = _reason(error)
        if isinstance(error, ssl.SSLError):
            return ServerLost(f"no secure connection to {self.url}: {why}", why)
        if isinstance(error, TimeoutError):
            return ServerLost(f"the server at {self.url} has not answered in time", why)
        return ServerLost(
            f"no server answers at {self.url} ({why}); start one with `sideband serve`, or name the address that it printed",
            why,
        )

    def _unknown_outcome(self, error: Exception, shown_by: str) -> CommandError:
        """The error for a request that the server may have accepted."""
        why = _reason(error)
        return ServerLost(
            f"the server at {self.url} has not answered ({why}). It is not known whether the request was accepted; "
            f"`{shown_by}` with the same --to shows it",
            why,
        )

    def _stranger(self, why: str) -> CommandError:
        return CommandError(
            f"the server at {self.url} is not `sideband serve` ({why}); name the address that `sideband serve` printed"
        )

    def _check(self, answer: HTTPResponse, raw: bytes) -> None:
        """Raise the error that an answer reports."""
        if answer.status < HTTPStatus.MULTIPLE_CHOICES:
            if answer.status != HTTPStatus.NO_CONTENT and not _is(answer, _JSON, _EVENTS):
                raise self._stranger("its answer is not JSON")
            return
        if answer.status < HTTPStatus.BAD_REQUEST:
            raise self._stranger(f"it redirects, HTTP {answer.status}")
        try:
            fault = msgspec.json.decode(raw, type=_Answer).error
        except (msgspec.DecodeError, ValueError):
            raise self._stranger(f"HTTP {answer.status}") from None
        raise self._error(answer.status, fault)

    def _error(self, status: int, fault: Fault) -> Exception:
        if status == HTTPStatus.UNAUTHORIZED:
            return CommandError(self._about_token())
        if fault.reason == CursorExpired.reason:
            return CursorExpired(0, fault.oldest or 0)
        field = None if fault.field is None else _FIELDS.get(fault.field, fault.field)
        # The name of a field on the wire says nothing to a user of the command line.
        message = fault.message if fault.field is None else fault.message.replace(fault.field, field or "")
        told = {"field": field, "retryAfterMs": fault.retry_after_ms, **({} if field is None else {field: fault.id})}
        known = reported_error(fault.reason, message, told)
        # The codes of facts have no class of their own.
        if known is not None and fault.code in (None, known.code):
            return known
        text = message if status < HTTPStatus.INTERNAL_SERVER_ERROR else f"the server at {self.url}: {message}"
        return CommandError(text, code=fault.code if fault.code and _CODE.fullmatch(fault.code) else None)

    def _about_token(self) -> str:
        is_here = is_loopback(self._parts.hostname or "")
        if has_given_token():
            otherwise = ", or unset it to use your own" if is_here else ""
            return f"the server at {self.url} refused the token in ${TOKEN_VARIABLE}; correct it{otherwise}"
        remedy = f"set ${TOKEN_VARIABLE} to the token of its operator"
        if self._token is not None:
            why = "another user started it, or with another data directory"
            return f"the server at {self.url} refused your own token: {why}; {remedy}"
        why = "you have none yet" if is_here else "yours is for this machine only"
        return f"the server at {self.url} requires a token, and {why}; {remedy}"

    # Event streams.

    def follow(
        self, *path: str, after: int, notify: Callable[[str], None], **query: object
    ) -> Generator[ServerEvent, None, None]:
        """The events of a stream after a sequence number, without gap or repeat, until the caller stops.

        A stream that is lost is opened again after the last event that had an id. Events without one are not repeated.
        """
        seen, waits, is_open, is_lost = str(after), pauses(), False, False
        while True:
            try:
                with closing(self._stream(self._target(path, {**query, "after": seen}), seen)) as stream:
                    for event_id, event in stream:
                        if is_lost:
                            notify(f"connected to {self.url} again")
                        waits, is_open, is_lost = pauses(), True, False
                        seen = event_id if event_id is not None and event_id.isdecimal() else seen
                        yield event
                why = "it ended the stream"
            except ServerLost as lost:
                if not is_open:
                    raise
                why = lost.reason
            if not is_lost:
                notify(f"lost {self.url} ({why}); trying again")
            is_lost = True
            time.sleep(next(waits))

    def _stream(self, target: str, last_id: str) -> Generator[tuple[str | None, ServerEvent], None, None]:
        try:
            with self._connected() as connection:
                connection.request("GET", target, None, {**self._headers(_EVENTS), "Last-Event-ID": last_id})
                with closing(connection.getresponse()) as answer:
                    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                        why = f"HTTP {answer.status}"
                        raise ServerLost(f"the server at {self.url} has failed ({why}); its log says why", why)
                    if answer.status != HTTPStatus.OK or not _is(answer, _EVENTS):
                        self._check(answer, answer.read(MAX_LINE_BYTES))
                        raise self._stranger("its answer is no event stream")
                    yield from read_events(answer)
        except _LOST as error:
            raise self._unreachable(error) from error
        except HTTPException:
            raise self._stranger("it does not speak HTTP") from None


def _reason(error: Exception) -> str:
    """Why a connection failed, in a few words."""
    if isinstance(error, TimeoutError):
        return f"no data for {ANSWER_SECONDS:.0f} seconds"
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    if isinstance(error, RemoteDisconnected | IncompleteRead):
        return "it closed the connection"
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


@contextmanager
def _encoding() -> Iterator[None]:
    """Report a text that cannot be sent: the bytes of an argument that are not UTF-8 are lone surrogates in it."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise CommandError(f"{shown(error.object)} is not text in UTF-8; write the argument in UTF-8") from None


def read_events(answer: HTTPResponse) -> Iterator[tuple[str | None, ServerEvent]]:
    """The server-sent events of an answer, each with its id; an event that is cut off is left out."""
    name, event_id, data = "message", None, list[bytes]()
    while line := answer.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise HTTPException("a line is too long")
        if not line.endswith(b"\n"):
            return
        field, _, value = line.rstrip(b"\r\n").partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"" if line.strip():
                # A comment.
                continue
            case b"":
                if data:
                    yield event_id, ServerEvent(name, b"\n".join(data))
                name, event_id, data = "message", None, []
            case b"event":
                name = value.decode(errors="replace")
            case b"data":
                data.append(value)
            case b"id":
                event_id = value.decode(errors="replace")
            case _:
                pass


def _is(answer: HTTPResponse, *types: str) -> bool:
    return answer.headers.get_content_type() in types
