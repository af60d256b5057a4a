"""A journal in front of another: whoever wants to come in between overrides one method."""

from collections.abc import AsyncGenerator

from sideband.core.state import SessionState
from sideband.ports import Committed, Decision, Journal, Lease, Logged, Wake


class PassingOn:
    """Everything is asked of the journal behind it."""

    def __init__(self, behind: Journal) -> None:
        self.behind = behind

    async def open(self, session_id: str) -> object:
        return await self.behind.open(session_id)

    def state(self, session_id: str) -> SessionState:
        return self.behind.state(session_id)

    def nothing_waits(self, session_id: str) -> bool:
        return self.behind.nothing_waits(session_id)

    async def commit(self, session_id: str, decide: Decision, *, lease: Lease | None = None) -> Committed:
        return await self.behind.commit(session_id, decide, lease=lease)

    async def acquire(self, session_id: str, holder: str) -> Lease:
        return await self.behind.acquire(session_id, holder)

    async def renew(self, lease: Lease) -> Lease:
        return await self.behind.renew(lease)

    async def release(self, lease: Lease) -> None:
        await self.behind.release(lease)

    def wake(self, session_id: str) -> Wake:
        return self.behind.wake(session_id)

    def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        return self.behind.subscribe(session_id=session_id, kind_prefix=kind_prefix, after=after)

    def history(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        return self.behind.history(session_id=session_id, kind_prefix=kind_prefix, after=after)

    async def prune(self, session_id: str, *, keep_events: int = 0) -> int:
        return await self.behind.prune(session_id, keep_events=keep_events)

    async def close(self) -> None:
        await self.behind.close()
