"""The one task of a process that writes to its PostgreSQL store.

It takes everything that waits and commits it together: however many ask at once, the server is asked once. What was
handed in is done whether or not somebody still waits for it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from sideband.store.batch import Answer, Order, tell
from sideband.store.postgres.committing import Apart, Committer, Round

# What is committed together has to be in memory, here and on the server.
MOST_ORDERS: Final = 500


class Errand(NamedTuple):
    """Anything else that is done by this task, in its turn."""

    run: Callable[[Committer], Awaitable[Any]]
    done: "asyncio.Future[Any]"


class Writer:
    """Jobs are done in the order in which they were put in; `deliver` is told of each round before those who asked."""

    def __init__(self, committer: Committer, *, deliver: Callable[[Round], None]) -> None:
        self.committer = committer
        self._deliver = deliver
        self._jobs: deque[Order | Errand] = deque()
        self._asked = asyncio.Event()
        self._is_stopping = False
        self._task = asyncio.create_task(self._run(), name="sideband-writer")

    def put(self, job: Order | Errand) -> None:
        self._jobs.append(job)
        self._asked.set()

    async def stop(self) -> None:
        """Do what was put in before, and no more."""
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
        if isinstance(job, Errand):
            await self._go(job)
            return
        orders = [job]
        while self._jobs and isinstance(behind := self._jobs[0], Order) and len(orders) < MOST_ORDERS:
            orders.append(behind)
            self._jobs.popleft()
        await self._commit(orders)

    async def _commit(self, orders: list[Order]) -> None:
        try:
            done = await self.committer.commit(orders)
        except Apart:
            # What one of them asks for cannot be written; the others have nothing to do with it.
            for order in orders:
                await self._commit([order])
            return
        except Exception as error:  # noqa: BLE001 - the last to hear of it: whoever asked has to be told
            tell(Answer(order, error) for order in orders)
            return
        try:
            self._deliver(done)
        except Exception as error:  # noqa: BLE001 - what was committed is committed, whatever is made of it here
            asyncio.get_running_loop().call_exception_handler(
                {"message": "what was committed could not be shown", "exception": error}
            )
        tell(done.answers)
        self._jobs.extendleft(reversed(done.postponed))
        await self.committer.tidy(done.touched)

    async def _go(self, errand: Errand) -> None:
        try:
            result = await errand.run(self.committer)
        except Exception as error:  # noqa: BLE001 - the same
            if not errand.done.done():
                errand.done.set_exception(error)
        else:
            if not errand.done.done():
                errand.done.set_result(result)
