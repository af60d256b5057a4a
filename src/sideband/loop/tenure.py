"""A session on lease for as long as a run takes: renewed in time, given back at the end."""

import asyncio
import contextlib
from collections.abc import Callable
from math import isinf
from typing import Final

from sideband.core.failures import LeaseLost, StoreError
from sideband.loop.conversation import Conversation
from sideband.ports import Lease

# How often a renewal that fails is tried again in a third of the lease.
TRIES: Final = 4


class Tenure:
    """The right to run a session, from when it is taken until it is released.

    A lease that never lapses needs no renewing, and costs nothing beside what it takes to hold it.
    """

    def __init__(self, talk: Conversation, lease: Lease, *, since: float) -> None:
        self._talk = talk
        self._lease = lease
        self._loop = asyncio.get_running_loop()
        # By the clock of this process, and from before the store was asked: never later than the store thinks.
        self._renewed_at = since
        self._renewing: asyncio.Task[None] | None = None
        talk.lease = lease

    @property
    def lapses(self) -> bool:
        """Whether it has to be renewed."""
        return not isinf(self._lease.seconds)

    @property
    def _lapses_at(self) -> float:
        return self._renewed_at + self._lease.seconds

    @property
    def _third(self) -> float:
        return self._lease.seconds / 3

    def keep(self, lost: Callable[[LeaseLost], None]) -> None:
        """Renew it from now on; `lost` is told, once, where somebody else has taken the session over, or may have."""
        if self.lapses and self._renewing is None:
            self._renewing = asyncio.ensure_future(self._keep(lost))

    async def _keep(self, lost: Callable[[LeaseLost], None]) -> None:
        try:
            while True:
                await asyncio.sleep(max(0.0, self._renewed_at + self._third - self._loop.time()))
                await self._renew_in_time()
        except LeaseLost as error:
            lost(error)

    async def _renew_in_time(self) -> None:
        """What fails is tried again until the lease has lapsed: what goes on after that may go on twice."""
        while True:
            left = self._lapses_at - self._loop.time()
            try:
                # Who wakes up too late asks all the same: nobody else may have noticed.
                async with asyncio.timeout(left if left > 0 else self._third):
                    return await self._renew()
            except LeaseLost:
                raise
            except StoreError as error:
                why = str(error)
            except TimeoutError:
                why = "the store did not answer"
            left = self._lapses_at - self._loop.time()
            if left <= 0:
                raise LeaseLost(self._lease.session_id, why=why)
            await asyncio.sleep(min(left, self._third / TRIES))

    async def ensure(self) -> None:
        """Have a third of it left, or renew it: what is begun now can be told to nobody once it is lost."""
        if self.lapses and self._loop.time() >= self._renewed_at + 2 * self._third:
            await self._renew()

    async def _renew(self) -> None:
        since = self._loop.time()
        renewed = await self._talk.journal.renew(self._lease)
        self._renewed_at = since
        if self._talk.lease is self._lease:
            self._talk.lease = renewed
        self._lease = renewed

    async def release(self) -> None:
        """Give it back; a store that cannot take it back now lets it lapse."""
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        if self._talk.lease is self._lease:
            self._talk.lease = None
        with contextlib.suppress(StoreError):
            await self._talk.journal.release(self._lease)


async def take(talk: Conversation, holder: str) -> Tenure:
    """Take the session on lease; `SessionBusy` where somebody else has it."""
    since = asyncio.get_running_loop().time()
    return Tenure(talk, await talk.journal.acquire(talk.session_id, holder), since=since)
