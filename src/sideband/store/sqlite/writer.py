"""The thread that writes to a store file; there is one per store.

It commits all waiting orders in one transaction, so that concurrent commits share one sync of the disk. A job that was
put in is done even if its caller is cancelled.
"""

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from sideband.core.errors import StoreRefused
from sideband.store.batch import CommitAnswer, Order
from sideband.store.sqlite.committer import Delivery, SqliteCommitter


class Finish(Protocol):
    """Called on the event loop with the result of a job, or with its error."""

    def __call__(self, result: Any, error: Exception | None, /) -> None: ...  # noqa: ANN401 - whatever was asked for


class SqliteErrand(NamedTuple):
    """Any other job for the writer thread."""

    run: Callable[[SqliteCommitter], Any]
    finish: Finish


class Stop(NamedTuple):
    """Ends the thread after the jobs before it."""

    finish: Finish


class LoopCallbacks(NamedTuple):
    """How the thread reaches the event loop: `post` schedules a call of one of the others there.

    `deliver` gets new events and answers, `give_up` the error after which the store cannot be read any more.
    """

    post: Callable[..., None]
    deliver: Callable[[Delivery], None]
    give_up: Callable[[StoreRefused], None]


class SqliteWriter:
    """Does jobs in the order in which they were put in, and posts the results to the event loop."""

    def __init__(self, loop: LoopCallbacks, *, poll_seconds: float) -> None:
        self._loop = loop
        self._poll_seconds = poll_seconds
        self._jobs: queue.SimpleQueue[Order | SqliteErrand | Stop] = queue.SimpleQueue()
        self.put = self._jobs.put
        """Put in a job; from any thread."""
        self._thread: threading.Thread | None = None

    def start(self, begin: Callable[[], SqliteCommitter], finish: Finish) -> None:
        """Open the store on the thread; `finish` gets its last sequence."""
        # A daemon thread does not delay the exit of the program; an unclosed store is as safe as after a kill.
        self._thread = threading.Thread(target=self._run, args=(begin, finish), name="sideband-writer", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._thread is not None:
            self._thread.join()

    # On the thread.

    def _run(self, begin: Callable[[], SqliteCommitter], finish: Finish) -> None:
        try:
            committer = begin()
        except Exception as error:  # noqa: BLE001 - reported to the caller that opens the store
            self._loop.post(finish, 0, error)
            return
        self._loop.post(finish, committer.horizon, None)
        jobs: deque[Order | SqliteErrand | Stop] = deque()
        while True:
            if not self._take(jobs):
                self._look(committer)
            while jobs:
                job = jobs.popleft()
                match job:
                    case Order():
                        self._commit(committer, job, jobs)
                    case SqliteErrand():
                        self._do(committer, job)
                    case Stop():
                        committer.close()
                        self._loop.post(job.finish, None, None)
                        return

    def _take(self, jobs: deque[Order | SqliteErrand | Stop]) -> bool:
        """Take all waiting jobs; False if none came within the poll interval."""
        try:
            jobs.append(self._jobs.get(timeout=self._poll_seconds))
            while True:
                jobs.append(self._jobs.get_nowait())
        except queue.Empty:
            return bool(jobs)

    def _commit(self, committer: SqliteCommitter, first: Order, jobs: deque[Order | SqliteErrand | Stop]) -> None:
        orders = [first]
        while jobs and isinstance(jobs[0], Order):
            orders.append(jobs.popleft())  # type: ignore[arg-type]  # the loop condition checked the type
        try:
            delivery, postponed, touched = committer.commit(orders)
        except Exception as error:  # noqa: BLE001 - if the thread died, all callers would wait forever
            for order in orders:
                order.replica.forget()
            self._loop.post(
                self._loop.deliver, Delivery(answers=[CommitAnswer(order, error=error) for order in orders])
            )
            return
        self._loop.post(self._loop.deliver, delivery)
        jobs.extendleft(reversed(postponed))
        with contextlib.suppress(Exception):
            # Maintenance: no caller waits for it.
            committer.tidy(touched)
        self._tell(committer)

    def _do(self, committer: SqliteCommitter, errand: SqliteErrand) -> None:
        try:
            result = errand.run(committer)
        except Exception as error:  # noqa: BLE001 - reported to the caller
            self._tell(committer)
            self._loop.post(errand.finish, None, error)
        else:
            self._tell(committer)
            self._loop.post(errand.finish, result, None)

    def _look(self, committer: SqliteCommitter) -> None:
        try:
            committer.look()
        except StoreRefused as error:
            self._loop.post(self._loop.give_up, error)
        except Exception:  # noqa: BLE001 - polling is tried again; a commit reports the error
            return
        self._tell(committer)

    def _tell(self, committer: SqliteCommitter) -> None:
        delivery = committer.delivery()
        if delivery != Delivery():
            self._loop.post(self._loop.deliver, delivery)
