"""A client of a running `sideband serve`: requests and event streams over HTTP, with the standard library only."""

import re
import socket
import ssl
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import msgspec

from sideband import __version__
from sideband.cli.token import TOKEN_VARIABLE, token_for
from sideband.core.errors import CursorExpired
from sideband.core.surfaces import Case, spelled
from sideband.inspect.report import CommandError
from sideband.protocols.http import is_loopback
from sideband.protocols.refusals import reported_error

CONNECT_SECONDS: Final = 10.0
# A stream sends something each 15 seconds.
ANSWER_SECONDS: Final = 60.0
MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
# The pauses before a lost stream is opened again.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0

_CODE: Final = re.compile(r"[A-Z]+(?:-[A-Z0-9]+)+")
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
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


class StreamLost(Exception):
    """The server cannot be reached, or ended a stream."""


def read_server_url(url: str) -> str:
    """The address of a server without a slash at its end; an error does not repeat it, because it may hold a password."""
    parts = _split(url)
    if parts is None or parts.query or parts.username is not None:
        raise CommandError(
            "--to must be like http://HOST:PORT#ID, with no query, user name or password before the #; the token is "
            f"read from ${TOKEN_VARIABLE}"
        )
    return parts.geturl().rstrip("/")


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if known else None


def snake_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with their names in Python."""
    return {_FIELDS.get(name, name): value for name, value in fields.items()}


class ServerClient:
    """Sends requests to the server at `url`, each on a connection of its own. It follows no redirect."""

    def __init__(self, url: str) -> None:
        self.url = read_server_url(url)
        self._parts = urlsplit(self.url)
        self._token = token_for(self.url)
        if self._token is not None and not (self._token.isascii() and self._token.isprintable()):
            raise CommandError(f"${TOKEN_VARIABLE} must be a text of printable ASCII characters")

    # Requests.

    def get(self, *path: str, **query: object) -> bytes:
        """The answer to a request for this path; its parts are escaped, and parameters that are None left out."""
        return self._request("GET", self._target(path, query))

    def post(self, *path: str, body: Mapping[str, Any]) -> bytes:
        """The answer to a request with this JSON body."""
        return self._request("POST", self._target(path, {}), msgspec.json.encode(body))

    def delete(self, *path: str, **query: object) -> bytes:
        return self._request("DELETE", self._target(path, query))

    def _target(self, path: tuple[str, ...], query: Mapping[str, object]) -> str:
        given = urlencode({name: value for name, value in query.items() if value is not None})
        return f"{self._parts.path}/api/{'/'.join(quote(part, safe='') for part in path)}{'?' if given else ''}{given}"

    def _request(self, method: str, target: str, body: bytes | None = None) -> bytes:
        try:
            with self._connected() as connection:
                connection.request(method, target, body, self._headers(_JSON, has_body=method == "POST"))
                with closing(connection.getresponse()) as answer:
                    raw = answer.read(MAX_ANSWER_BYTES + 1)
        except TimeoutError as error:
            # A time-out of the connection has no answer to wait for.
            unknown = " It is not known whether it was accepted; `sideband pending` tells." if body else ""
            raise CommandError(f"the server at {self.url} has not answered in time.{unknown}") from error
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from error
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
        if isinstance(error, ssl.SSLError):
            return CommandError(f"no secure connection to {self.url}: {error.reason or error}")
        if isinstance(error, HTTPException):
            return self._stranger("it does not speak HTTP")
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return CommandError(
            f"no server answers at {self.url} ({why}); start one with `sideband serve`, or name the address that it printed"
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
        told = {"field": field, "retryAfterMs": fault.retry_after_ms, **({} if field is None else {field: fault.id})}
        known = reported_error(fault.reason, fault.message, told)
        # The codes of facts have no class of their own.
        if known is not None and fault.code in (None, known.code):
            return known
        text = (
            fault.message if status < HTTPStatus.INTERNAL_SERVER_ERROR else f"the server at {self.url}: {fault.message}"
        )
        return CommandError(text, code=fault.code if fault.code and _CODE.fullmatch(fault.code) else None)

    def _about_token(self) -> str:
        remedy = f"set ${TOKEN_VARIABLE} to the token of its operator"
        if self._token is None:
            if is_loopback(self._parts.hostname or ""):
                return f"the server at {self.url} requires a token, and you have none yet; {remedy}"
            return f"the server at {self.url} requires a token, and yours is for this machine only; {remedy}"
        return f"the server at {self.url} refused the token: another user started it, or with another home; {remedy}"

    # Event streams.

    def follow(
        self, *path: str, after: int, notify: Callable[[str], None], **query: object
    ) -> Generator[ServerEvent, None, None]:
        """The events of a stream after a sequence number, without gap or repeat, until the caller stops.

        A stream that is lost is opened again after the last event that had an id. Events without one are not repeated.
        """
        seen, pause, is_open = str(after), FIRST_PAUSE, False
        while True:
            try:
                with closing(self._stream(self._target(path, {**query, "after": seen}), seen)) as stream:
                    for event_id, event in stream:
                        is_open, pause = True, FIRST_PAUSE
                        seen = event_id if event_id is not None and event_id.isdecimal() else seen
                        yield event
                why = "it ended the stream"
            except StreamLost as lost:
                if not is_open:
                    raise CommandError(str(lost)) from None
                why = str(lost)
            notify(f"lost {self.url} ({why}); connecting again")
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _stream(self, target: str, last_id: str) -> Generator[tuple[str | None, ServerEvent], None, None]:
        try:
            with self._connected() as connection:
                connection.request("GET", target, None, {**self._headers(_EVENTS), "Last-Event-ID": last_id})
                with closing(connection.getresponse()) as answer:
                    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                        raise StreamLost(f"HTTP {answer.status}")
                    if answer.status != HTTPStatus.OK or not _is(answer, _EVENTS):
                        self._check(answer, answer.read(MAX_LINE_BYTES))
                        raise self._stranger("its answer is no event stream")
                    yield from read_events(answer)
        except TimeoutError:
            raise StreamLost("it is silent") from None
        except (OSError, HTTPException) as error:
            raise StreamLost(str(self._unreachable(error))) from error


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
