"""A journal that forwards every call to another; subclasses override single methods."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TypeVar

from sideband.core.state import Decision, SessionState
from sideband.ports import NO_RECORDS, AsOf, Journal, Lease, Logged, SessionEntry, Wake

_Value = TypeVar("_Value")


class ForwardingJournal:
    """Forwards every call to `inner`."""

    def __init__(self, inner: Journal) -> None:
        self.inner = inner

    async def open(self, session_id: str) -> object:
        return await self.inner.open(session_id)

    def state(self, session_id: str) -> SessionState:
        return self.inner.state(session_id)

    def nothing_waits(self, session_id: str) -> bool:
        return self.inner.nothing_waits(session_id)

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        return await self.inner.commit(session_id, decide, lease=lease, receipts=receipts)

    async def read(self, session_id: str, look: Callable[[SessionState], _Value]) -> AsOf[_Value]:
        return await self.inner.read(session_id, look)

    async def entry(self, session_id: str) -> SessionEntry | None:
        return await self.inner.entry(session_id)

    async def sessions(
        self, *, records: Mapping[str, str] = NO_RECORDS, before: int | None = None, limit: int = 100
    ) -> Sequence[SessionEntry]:
        return await self.inner.sessions(records=records, before=before, limit=limit)

    async def acquire(self, session_id: str, holder: str) -> Lease:
        return await self.inner.acquire(session_id, holder)

    async def renew(self, lease: Lease) -> Lease:
        return await self.inner.renew(lease)

    async def release(self, lease: Lease) -> None:
        await self.inner.release(lease)

    def wake(self, session_id: str) -> Wake:
        return self.inner.wake(session_id)

    def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        return self.inner.subscribe(session_id=session_id, kind_prefix=kind_prefix, after=after)

    def history(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        return self.inner.history(session_id=session_id, kind_prefix=kind_prefix, after=after)

    async def prune(self, session_id: str, *, keep_events: int = 0) -> int:
        return await self.inner.prune(session_id, keep_events=keep_events)

    async def close(self) -> None:
        await self.inner.close()
