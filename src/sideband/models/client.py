"""What the models share before a request is sent: API keys, and a pool that keeps SDK clients open between requests."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

from sideband.core.errors import InvalidOption
from sideband.ports import ModelError

_SCHEMES: Final = frozenset({"http", "https"})

ClientT = TypeVar("ClientT")
SettingsT = TypeVar("SettingsT", bound=Hashable)


class Endpoint(NamedTuple):
    """How to reach a service; None leaves the choice to the SDK client. `seconds` is its read time-out.

    `environment` has the environment variables that the client reads when it is opened.
    """

    api_key: str | None = None
    base_url: str | None = None
    seconds: float | None = None
    environment: tuple[tuple[str, str], ...] = ()


def environment(*prefixes: str) -> tuple[tuple[str, str], ...]:
    """The environment variables whose names start with one of the prefixes, in the order of their names."""
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith(prefixes)))


class _OpenClient(Generic[ClientT]):
    """One open client of one event loop, and the pools that use it."""

    def __init__(self) -> None:
        # Keeps two concurrent requests from opening two clients.
        self.opening = asyncio.Lock()
        self.generator: AsyncGenerator[ClientT, None] | None = None
        self.client: ClientT | None = None
        self.users: WeakSet[Any] = WeakSet()


# A module-level reference, so that garbage collection of a model does not close its client: closing has to be awaited.
# When an event loop ends it closes its asynchronous generators, and the generator that yielded the client closes it.
_OPEN: Final[dict[asyncio.AbstractEventLoop, dict[Hashable, _OpenClient[Any]]]] = {}


class ClientPool(Generic[SettingsT, ClientT]):
    """Opens a client on first use and keeps it open between requests, one per event loop and settings.

    `opened` is an asynchronous generator function: it yields the client for the given settings once, and closes the
    client when the generator is closed. It must not hold another generator open, because an ending event loop closes
    all of them at the same time. Pools with the same `opened` share the clients for the same settings.
    """

    def __init__(self, opened: Callable[[SettingsT], AsyncGenerator[ClientT, None]]) -> None:
        self._opened = opened

    async def client(self, settings: SettingsT) -> ClientT:
        """The client of the running event loop for these settings."""
        held: _OpenClient[ClientT] = _clients().setdefault((self._opened, settings), _OpenClient())
        held.users.add(self)
        async with held.opening:
            if held.client is None:
                held.generator = self._opened(settings)
                held.client = await anext(held.generator)
            return held.client

    async def aclose(self) -> None:
        """Close the clients of the running event loop that no other pool uses; the next request opens a new one."""
        clients = _clients()
        for key, held in [(key, held) for key, held in clients.items() if self in held.users]:
            held.users.discard(self)
            if not held.users:
                del clients[key]
                if held.generator is not None:
                    await held.generator.aclose()


def _clients() -> dict[Hashable, _OpenClient[Any]]:
    """The open clients of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _OPEN:
        for other in [other for other in _OPEN if other.is_closed()]:
            del _OPEN[other]
    return _OPEN.setdefault(loop, {})


def read_base_url(base_url: object) -> str | None:
    """The address of a service; `InvalidOption` if it is not one that a client can connect to (None: the default)."""
    if base_url is None:
        return None
    try:
        parts = urlsplit(base_url) if isinstance(base_url, str) else None
        is_address = parts is not None and parts.scheme in _SCHEMES and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not (isinstance(base_url, str) and is_address):
        # The value is not quoted: an address may contain a password.
        raise InvalidOption(
            "base_url must be the address of a server, like 'https://gateway.example' or 'http://127.0.0.1:8080/v1'",
            field="base_url",
        )
    return base_url


def need_key(service: str, given: object, *variables: str) -> None:
    """Raise `ModelError` unless a usable key was given or is in one of the environment `variables` the client reads."""
    if not isinstance(given, str | None):
        raise InvalidOption(f"api_key must be a string or None, not {type(given).__name__}", field="api_key")
    if given is not None and given.strip():
        check_key(service, given)
        return
    found = {name: value for name in variables if (value := os.environ.get(name, "")).strip()}
    if given is not None or not found:
        raise ModelError(
            f"{service} needs a key: set the environment variable {' or '.join(variables)}, or pass api_key"
        )
    for name, value in found.items():
        check_key(service, value, name)


def check_key(service: str, key: str, variable: str | None = None) -> None:
    """Raise `ModelError` if the key cannot be sent as an HTTP header; `variable` is None if the program passed the key.

    Checked here because the SDK's own error message would quote the key.
    """
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        remedy = "pass a valid key" if variable is None else f"set the environment variable {variable} again"
        raise ModelError(
            f"the key for {service} contains white space at its ends, a control character or a non-ASCII character: "
            f"{remedy}"
        )
