"""The HTTP client for one peer: it sends the token to allowed origins only, follows no redirect, and bounds what it reads."""

from collections.abc import AsyncIterator, Collection
from http import HTTPStatus
from typing import Final
from urllib.parse import SplitResult, urlsplit

import httpx

from sideband import __version__
from sideband.core.errors import InvalidOption, shown
from sideband.protocols.a2a.client.failures import PeerNotTrusted, PeerNotUnderstood
from sideband.protocols.a2a.client.refusals import read_refusal
from sideband.protocols.http import is_loopback

CONNECT_SECONDS: Final = 10.0
KEPT_CONNECTIONS: Final = 20
# A task may have large artifacts. The answers of the methods for reminders are small.
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
MAX_REMINDER_BYTES: Final = 1024 * 1024
LIMIT: Final = "sideband.max_bytes"
"""The extension of a request with the largest answer that is read."""

_SCHEMES: Final = {"http": 80, "https": 443}
_EVENTS: Final = "text/event-stream"
_BLANK_LINES: Final = (b"\n\n", b"\n\r\n", b"\r\r")
# What a chunk may have of a blank line that the next chunk ends.
_BLANK_BYTES: Final = 2


# Addresses.


def read_address(url: object) -> str:
    """The address of an agent without a slash at its end; `InvalidOption` if it is not one."""
    parts = _split(url)
    if parts is None or parts.query or parts.fragment:
        raise InvalidOption(
            f"url must be an address like https://agents.example.org/a2a, not {_without_password(url)}", field="url"
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidOption("url must not contain a user name or a password; pass the token as `token`", field="url")
    return parts.geturl().rstrip("/")


def origin_of(url: object) -> str | None:
    """Scheme, host and port of an address; None if it is not an address of HTTP."""
    parts = _split(url)
    if parts is None or parts.username is not None:
        return None
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{parts.port or _SCHEMES[parts.scheme]}"


def is_local(url: str) -> bool:
    """Whether only a program of this machine can be at this address."""
    return is_loopback(urlsplit(url).hostname or "")


def at_host_of(given: str, url: str) -> str:
    """`url` with the host of `given` if both are the same port of this machine; otherwise `url` itself."""
    here, there = _split(given), _split(url)
    if here is None or there is None or there.username is not None or not (is_local(given) and is_local(url)):
        return url
    is_same = (here.scheme, here.port or _SCHEMES[here.scheme]) == (there.scheme, there.port or _SCHEMES[there.scheme])
    return there._replace(netloc=here.netloc).geturl() if is_same else url


def _split(url: object) -> SplitResult | None:
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url.strip())
        known = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if known else None


def _without_password(url: object) -> str:
    return "one with a password" if isinstance(url, str) and "@" in url else shown(url)


# The client.


def http_client(origins: Collection[str], *, token: str | None, local: bool) -> httpx.AsyncClient:
    """A client that talks to these origins only, and sends them the token.

    It waits for an answer without a limit, because a peer may answer a message when its task has ended. `local`: no proxy
    of the environment is used, because the proxy would get the token, and the peer is on this machine.
    """
    guard = _Guard(frozenset(origins), token)
    return httpx.AsyncClient(
        headers={"User-Agent": f"sideband/{__version__}", "Accept-Encoding": "identity"},
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        # Each event stream has a connection of its own, and must not block other requests.
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS),
        follow_redirects=False,
        trust_env=not local,
        event_hooks={"request": [guard.check], "response": [guard.read]},
    )


class _Guard:
    """What is checked of each request before it is sent, and of each answer before it is read."""

    def __init__(self, origins: frozenset[str], token: str | None) -> None:
        self._origins = origins
        self._token = token

    async def check(self, request: httpx.Request) -> None:
        if origin_of(str(request.url)) not in self._origins:
            raise PeerNotTrusted(f"{request.url.host} is not an origin of this peer, so nothing is sent there")
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"

    async def read(self, response: httpx.Response) -> None:
        """Read an answer within its limit and raise a `PeerRefusal` if it is one; an event stream is left to its reader."""
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # A small answer could become a large one, and it was not asked for.
            raise PeerNotUnderstood("the peer compressed its answer, although the request did not allow it")
        limit = response.request.extensions.get(LIMIT, MAX_ANSWER_BYTES)
        is_stream = response.headers.get("content-type", "").lower().startswith(_EVENTS)
        streams = is_stream and response.status_code == HTTPStatus.OK
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - tells the type checker
        response.stream = _Bounded(response.stream, limit, by_event=streams)
        if streams:
            return
        refusal = read_refusal(response.status_code, await response.aread())
        if refusal is not None:
            raise refusal


class _Bounded(httpx.AsyncByteStream):
    """The bytes of an answer; raises when the answer, or with `by_event` an event of it, exceeds the limit."""

    def __init__(self, stream: httpx.AsyncByteStream, limit: int, *, by_event: bool) -> None:
        self._stream = stream
        self._limit = limit
        self._by_event = by_event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        before = b""
        async for chunk in self._stream:
            read += len(chunk)
            if self._by_event:
                # A blank line ends an event, and may be divided between two chunks.
                seen = before + chunk
                end = max(seen.rfind(blank) for blank in _BLANK_LINES)
                read = read if end < 0 else len(seen) - end
                before = seen[-_BLANK_BYTES:]
            if read > self._limit:
                raise PeerNotUnderstood(
                    f"the peer sent more than {self._limit:,} bytes at once; nothing of it was used"
                )
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
