"""The lease on a session: taken for a run or a call, renewed while it lasts, released at the end."""

import asyncio
import contextlib
from collections.abc import Callable
from math import isinf
from typing import Final

import msgspec

from sideband.core.errors import LeaseLost, StoreClosed, StoreError
from sideband.loop.conversation import Conversation
from sideband.ports import Lease

# The lease is renewed after a third of its duration. A failed renewal is retried four times per third.
RETRIES_PER_THIRD: Final = 4
# Tokens count from 1.
_NO_TOKEN: Final = -1


class HeldLease:
    """A lease on a session, from when it is acquired until it is released.

    A lease that never lapses is not renewed and starts no task.
    """

    def __init__(self, talk: Conversation, lease: Lease, *, since: float) -> None:
        self._talk = talk
        self._lease = lease
        self._loop = asyncio.get_running_loop()
        # The time before the store was asked, so that this process never expects the lease to last longer than the
        # store does.
        self._renewed_at = since
        self._renewing: asyncio.Task[None] | None = None
        self._refused: Lease | None = None
        talk.lease = lease

    @property
    def lapses(self) -> bool:
        """Whether the lease has to be renewed."""
        return not isinf(self._lease.seconds)

    @property
    def _lapses_at(self) -> float:
        return self._renewed_at + self._lease.seconds

    @property
    def _third(self) -> float:
        return self._lease.seconds / 3

    def keep(self, on_lost: Callable[[LeaseLost], None]) -> None:
        """Renew the lease from now on. `on_lost` is called once, if another process has or may have the session."""
        if self.lapses and self._renewing is None:
            self._renewing = asyncio.ensure_future(self._keep(on_lost))

    async def _keep(self, on_lost: Callable[[LeaseLost], None]) -> None:
        try:
            while True:
                await asyncio.sleep(max(0.0, self._renewed_at + self._third - self._loop.time()))
                await self._renew_in_time()
        except LeaseLost as error:
            on_lost(error)

    async def _renew_in_time(self) -> None:
        """Renew, with retries until the lease has lapsed: after that, another process may run the session too."""
        while True:
            left = self._lapses_at - self._loop.time()
            try:
                # A lapsed lease can still be renewed if no other process has taken the session over.
                async with asyncio.timeout(left if left > 0 else self._third):
                    return await self._renew()
            except LeaseLost:
                raise
            except StoreClosed as error:
                # Closing a store releases its leases, so there is nothing to wait for.
                raise LeaseLost(self._lease.session_id, why=error) from error
            except StoreError as error:
                why = str(error)
            except TimeoutError:
                why = "the store did not answer"
            left = self._lapses_at - self._loop.time()
            if left <= 0:
                raise LeaseLost(self._lease.session_id, why=why)
            await asyncio.sleep(min(left, self._third / RETRIES_PER_THIRD))

    async def ensure(self) -> None:
        """Renew the lease if less than a third of it is left, so that work that begins now can still be committed."""
        if self.lapses and self._loop.time() >= self._renewed_at + 2 * self._third:
            await self._renew()

    async def _renew(self) -> None:
        since = self._loop.time()
        renewed = await self._talk.journal.renew(self._lease)
        self._renewed_at = since
        if self._talk.lease is self._lease:
            self._talk.lease = renewed
        self._lease = renewed

    def give_up(self) -> None:
        """Let the store refuse every further commit of the run, as after the lease was lost."""
        self._talk.lease = self._refused = msgspec.structs.replace(self._lease, token=_NO_TOKEN)

    async def release(self) -> None:
        """Give the lease back. If the store fails, the lease lapses by itself."""
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        if self._talk.lease is not None and self._talk.lease in (self._lease, self._refused):
            self._talk.lease = None
        with contextlib.suppress(StoreError):
            await self._talk.journal.release(self._lease)


async def acquire_lease(talk: Conversation, holder: str) -> HeldLease:
    """Take the lease on the session; `SessionBusy` if another holder has it."""
    since = asyncio.get_running_loop().time()
    return HeldLease(talk, await talk.journal.acquire(talk.session_id, holder), since=since)
