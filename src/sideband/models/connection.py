"""Clients of services: each is open as long as the event loop that it was opened in, and shared by all who use it alike."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

ClientT = TypeVar("ClientT")
SettingsT = TypeVar("SettingsT", bound=Hashable)


class _Held(Generic[ClientT]):
    """A client of one event loop, and who uses it. The lock keeps two requests from opening two."""

    def __init__(self) -> None:
        self.opening = asyncio.Lock()
        self.generator: AsyncGenerator[ClientT, None] | None = None
        self.client: ClientT | None = None
        self.users: WeakSet[Any] = WeakSet()


# Held here, so that nobody who forgets a model has closed its client by that: a loop that is just ending could not wait
# for it. When the loop does end, it closes its asynchronous generators, and one of them holds the client.
_HELD: Final[dict[asyncio.AbstractEventLoop, dict[Hashable, _Held[Any]]]] = {}


class Connection(Generic[SettingsT, ClientT]):
    """The way to a service. A client is opened at its first use, and kept between requests.

    `opened` yields the client for some settings once, and closes it when it is closed itself; since a loop closes all
    generators at once, it may not hold another. Connections with the same settings share a client.
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
        """Close the client of the running event loop, unless somebody else uses it; the next request opens another."""
        held = self._held()
        held.users.discard(self)
        if not held.users:
            del _HELD[asyncio.get_running_loop()][self._key]
            if held.generator is not None:
                await held.generator.aclose()

    @property
    def _key(self) -> Hashable:
        return self._opened, self._settings

    def _held(self) -> _Held[ClientT]:
        loop = asyncio.get_running_loop()
        if loop not in _HELD:
            for other in [other for other in _HELD if other.is_closed()]:
                del _HELD[other]
        return _HELD.setdefault(loop, {}).setdefault(self._key, _Held())
