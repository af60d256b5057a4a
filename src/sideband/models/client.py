"""What the models share before a request is sent: API keys, and a pool that keeps SDK clients open between requests."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar
from weakref import WeakSet

from sideband.ports import ModelError

ClientT = TypeVar("ClientT")
SettingsT = TypeVar("SettingsT", bound=Hashable)


class Endpoint(NamedTuple):
    """How to reach a service; None leaves the choice to the SDK client. `seconds` is its read time-out."""

    api_key: str | None = None
    base_url: str | None = None
    seconds: float | None = None


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
    """Opens a client on first use and keeps it open between requests, one per event loop.

    `opened` is an asynchronous generator function: it yields the client for the given settings once, and closes the
    client when the generator is closed. It must not hold another generator open, because an ending event loop closes
    all of them at the same time. Pools with the same `opened` and settings share one client.
    """

    def __init__(self, opened: Callable[[SettingsT], AsyncGenerator[ClientT, None]], settings: SettingsT) -> None:
        self._opened = opened
        self._settings = settings

    async def client(self) -> ClientT:
        """The client of the running event loop."""
        held = self._held()
        held.users.add(self)
        async with held.opening:
            if held.client is None:
                held.generator = self._opened(self._settings)
                held.client = await anext(held.generator)
            return held.client

    async def aclose(self) -> None:
        """Close the client of the running event loop, unless another pool uses it; the next request opens a new one."""
        held = self._held()
        held.users.discard(self)
        if not held.users:
            del _OPEN[asyncio.get_running_loop()][self._key]
            if held.generator is not None:
                await held.generator.aclose()

    @property
    def _key(self) -> Hashable:
        return self._opened, self._settings

    def _held(self) -> _OpenClient[ClientT]:
        loop = asyncio.get_running_loop()
        if loop not in _OPEN:
            for other in [other for other in _OPEN if other.is_closed()]:
                del _OPEN[other]
        return _OPEN.setdefault(loop, {}).setdefault(self._key, _OpenClient())


def need_key(service: str, given: str | None, *variables: str) -> None:
    """Raise `ModelError` unless a usable key was given or is in one of the environment `variables` the client reads."""
    if given is not None and given.strip():
        check_key(service, given)
        return
    found = {name: value for name in variables if (value := os.environ.get(name, "")).strip()}
    if given is not None or not found:
        raise ModelError(f"{service} needs a key: set the environment variable {variables[0]}")
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
