"""What all servers on HTTP share: the checks that they make before they read a request, and how they are run.

The check of the host protects against DNS rebinding, the check of the origin against pages of other sites.
"""

import asyncio
import hmac
import ipaddress
import re
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from sideband.core.errors import BodyTooLarge, InvalidOption, shown

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive

LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
# How long open connections may take after a server was told to end.
GRACE_SECONDS: Final = 1
# How long a request may take to arrive.
BODY_SECONDS: Final = 30.0

_HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?")


class HttpRefusal(NamedTuple):
    """The status and the text that a request is refused with; `reason` is a word for programs."""

    status: int
    text: str
    reason: str


class Headers(Protocol):
    """The headers of a request, by names in any case; those of Starlette are such."""

    def get(self, key: str, default: str, /) -> str: ...

    def getlist(self, key: str, /) -> list[str]: ...


class RequestChecks:
    """Which hosts and origins a server answers.

    `allowed_hosts` are the names by which clients may reach it, with a port (only this one) or without (any).
    `allowed_origins` are the origins of pages that may send requests. Programs that are no browsers send no origin.
    """

    def __init__(self, allowed_hosts: Collection[str], allowed_origins: Collection[str]) -> None:
        self._hosts = _words("allowed_hosts", allowed_hosts)
        self._origins = _words("allowed_origins", allowed_origins)

    def refusal(self, headers: Headers) -> HttpRefusal | None:
        """Why a request is refused; None if it is not."""
        if not self._is_host_allowed(headers.getlist("host")):
            return HttpRefusal(421, "This server does not answer for this host.", "wrong_host")
        origins = headers.getlist("origin")
        if origins and (len(origins) > 1 or origins[0].lower() not in self._origins):
            return HttpRefusal(403, "Pages of this origin may not connect.", "wrong_origin")
        return None

    def _is_host_allowed(self, given: Sequence[str]) -> bool:
        if len(given) != 1:
            return False
        host = given[0].lower()
        parts = _HOST.fullmatch(host)
        return parts is not None and (host in self._hosts or parts["name"] in self._hosts)


def bearer_token(headers: Headers) -> str | None:
    """The token in the header `Authorization`; None if there is none."""
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else None


def is_equal_secret(given: str, secret: str) -> bool:
    """Whether both are equal, compared in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode("utf-8"))


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can connect to this address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def refused_type(method: str, headers: Headers, accepted: Collection[str]) -> HttpRefusal | None:
    """Why a request is refused for its content type; None if it is not.

    Only JSON is read: a page of another site can send other types without asking the browser for permission.
    """
    given = headers.get("content-type", "")
    has_body = headers.get("content-length", "0") != "0" or bool(headers.get("transfer-encoding", ""))
    if method in ("GET", "HEAD", "DELETE", "OPTIONS") or not (given or has_body):
        return None
    if given.partition(";")[0].strip().lower() in accepted:
        return None
    return HttpRefusal(415, f"The content type must be {' or '.join(accepted)}.", "wrong_content_type")


class ClientGone(Exception):
    """The client has closed the connection before its request was complete."""


async def read_body(headers: Headers, receive: "Receive", *, limit: int) -> bytes:
    """The whole body of a request.

    `BodyTooLarge` if it is larger than the limit, `TimeoutError` if it does not arrive within `BODY_SECONDS`, and
    `ClientGone` if it does not arrive at all.
    """
    announced = headers.get("content-length", "")
    size = int(announced) if announced.isdigit() else 0
    body = bytearray()
    more = size <= limit
    async with asyncio.timeout(BODY_SECONDS):
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            size = max(size, len(body))
            more = message.get("more_body", False) and size <= limit
    if size > limit:
        raise BodyTooLarge(size, limit, field="body")
    return bytes(body)


def _words(field: str, given: Collection[str]) -> frozenset[str]:
    if isinstance(given, str | Mapping):
        raise InvalidOption(f"{field} must be a list of names, not {shown(given)}", field=field, value=given)
    return frozenset(word.lower() for word in given)


async def serve_app(
    app: "ASGIApp",
    listening: socket.socket,
    *,
    stopping: asyncio.Event,
    stop: Callable[[], None] = lambda: None,
) -> None:
    """Serve an application on a socket until `stopping` is set; then `stop` is called first."""
    import uvicorn  # noqa: PLC0415 - the checks do not need it
    from sse_starlette.sse import AppStatus  # noqa: PLC0415 - the same

    # It remembers for the whole process that an earlier web server was ended by a signal, and would end every stream.
    AppStatus.should_exit = False

    if listening.family in (socket.AF_INET, socket.AF_INET6):
        # asyncio sets it only for sockets that name their protocol. Without it, each answer on a connection that is kept
        # open waits 40 ms for an acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    class Server(uvicorn.Server):
        """The caller handles signals: a second one must not end the server before it has told its clients."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    web = Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            # Nothing depends on the address of a client, and any local program could forge these headers.
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )
    serving = asyncio.create_task(web.serve([listening]))
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    stop()
    web.should_exit = True
    await serving
