"""The task that commits to a PostgreSQL store; there is one per store.

It commits all waiting orders in one transaction, so that concurrent commits share the round trips. A job that was put in
is done even if its caller is cancelled.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from sideband.store.batch import CommitAnswer, Order, resolve
from sideband.store.postgres.committer import CommitSeparately, PostgresCommitter, PostgresRound

# The orders of one transaction have to fit in memory, here and on the server.
MOST_ORDERS: Final = 500


class PostgresErrand(NamedTuple):
    """Any other job for the writer task."""

    run: Callable[[PostgresCommitter], Awaitable[Any]]
    done: "asyncio.Future[Any]"


class PostgresWriter:
    """Does jobs in the order in which they were put in; `deliver` gets the result of each group before the callers."""

    def __init__(self, committer: PostgresCommitter, *, deliver: Callable[[PostgresRound], None]) -> None:
        self.committer = committer
        self._deliver = deliver
        self._jobs: deque[Order | PostgresErrand] = deque()
        self._asked = asyncio.Event()
        self._is_stopping = False
        self._task = asyncio.create_task(self._run(), name="sideband-writer")

    def put(self, job: Order | PostgresErrand) -> None:
        self._jobs.append(job)
        self._asked.set()

    async def stop(self) -> None:
        """Do the jobs that were put in before, then end the task."""
        self._is_stopping = True
        self._asked.set()
        await self._task

    async def _run(self) -> None:
        while True:
            while self._jobs:
                await self._work()
            if self._is_stopping:
                return
            self._asked.clear()
            await self._asked.wait()

    async def _work(self) -> None:
        job = self._jobs.popleft()
        if isinstance(job, PostgresErrand):
            await self._go(job)
            return
        orders = [job]
        while self._jobs and isinstance(following := self._jobs[0], Order) and len(orders) < MOST_ORDERS:
            orders.append(following)
            self._jobs.popleft()
        await self._commit(orders)

    async def _commit(self, orders: list[Order]) -> None:
        try:
            done = await self.committer.commit(orders)
        except CommitSeparately:
            # One of the orders cannot be stored; commit each alone, so that the others succeed.
            for order in orders:
                await self._commit([order])
            return
        except Exception as error:  # noqa: BLE001 - reported to the callers
            resolve(CommitAnswer(order, error=error) for order in orders)
            return
        try:
            self._deliver(done)
        except Exception as error:  # noqa: BLE001 - the commit is durable, even if it cannot be shown
            asyncio.get_running_loop().call_exception_handler(
                {"message": "committed events could not be delivered", "exception": error}
            )
        resolve(done.answers)
        self._jobs.extendleft(reversed(done.postponed))
        await self.committer.tidy(done.touched)

    async def _go(self, errand: PostgresErrand) -> None:
        try:
            result = await errand.run(self.committer)
        except Exception as error:  # noqa: BLE001 - reported to the caller
            if not errand.done.done():
                errand.done.set_exception(error)
        else:
            if not errand.done.done():
                errand.done.set_result(result)
