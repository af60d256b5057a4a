"""The one thread of a process that writes to its store file.

It takes everything that waits and commits it together: however many ask at once, the disk is asked once. The event loop
is never kept waiting, and what it handed in is done whether or not somebody still waits for it.
"""

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from sideband.core.failures import StoreRefused
from sideband.store.batch import Answer, Order
from sideband.store.sqlite.committing import Committer
from sideband.store.sqlite.delivery import Delivery


class Finish(Protocol):
    """Is told on the event loop what something came to: a result, or why there is none."""

    def __call__(self, result: Any, error: Exception | None, /) -> None: ...  # noqa: ANN401 - whatever was asked for


class Errand(NamedTuple):
    """Anything else that is done on this thread, in its turn."""

    run: Callable[[Committer], Any]
    finish: Finish


class Stop(NamedTuple):
    """What was put in before is done; nothing comes after."""

    finish: Finish


class EventLoop(NamedTuple):
    """How the thread reaches the event loop: `post` has one of the others called there, soon.

    `deliver` is told what happened, `give_up` that the store cannot be read any longer.
    """

    post: Callable[..., None]
    deliver: Callable[[Delivery], None]
    give_up: Callable[[StoreRefused], None]


class Writer:
    """Jobs are done in the order in which they were put in; what they come to is posted to the event loop."""

    def __init__(self, loop: EventLoop, *, poll_seconds: float) -> None:
        self._loop = loop
        self._poll_seconds = poll_seconds
        self._jobs: queue.SimpleQueue[Order | Errand | Stop] = queue.SimpleQueue()
        self.put = self._jobs.put
        """Hand in a job; from any thread."""
        self._thread: threading.Thread | None = None

    def start(self, begin: Callable[[], Committer], finish: Finish) -> None:
        """Open the store on the thread; `finish` is handed its last sequence."""
        # Not waited for when the program ends: a store that nobody has closed is as safe as one whose process was killed.
        self._thread = threading.Thread(target=self._run, args=(begin, finish), name="sideband-writer", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread, which ends soon after it has said so."""
        if self._thread is not None:
            self._thread.join()

    # On the thread.

    def _run(self, begin: Callable[[], Committer], finish: Finish) -> None:
        try:
            committer = begin()
        except Exception as error:  # noqa: BLE001 - whoever opens the store is told
            self._loop.post(finish, 0, error)
            return
        self._loop.post(finish, committer.horizon, None)
        jobs: deque[Order | Errand | Stop] = deque()
        while True:
            if not self._take(jobs):
                self._look(committer)
            while jobs:
                job = jobs.popleft()
                match job:
                    case Order():
                        self._commit(committer, job, jobs)
                    case Errand():
                        self._do(committer, job)
                    case Stop():
                        committer.close()
                        self._loop.post(job.finish, None, None)
                        return

    def _take(self, jobs: deque[Order | Errand | Stop]) -> bool:
        """Everything that waits; False where nothing did for a while."""
        try:
            jobs.append(self._jobs.get(timeout=self._poll_seconds))
            while True:
                jobs.append(self._jobs.get_nowait())
        except queue.Empty:
            return bool(jobs)

    def _commit(self, committer: Committer, first: Order, jobs: deque[Order | Errand | Stop]) -> None:
        orders = [first]
        while jobs and isinstance(jobs[0], Order):
            orders.append(jobs.popleft())  # type: ignore[arg-type]  # the line before has looked
        try:
            delivery, postponed, touched = committer.commit(orders)
        except Exception as error:  # noqa: BLE001 - a thread that died of it would leave everybody waiting
            for order in orders:
                order.replica.forget()
            self._loop.post(self._loop.deliver, Delivery(answers=[Answer(order, error) for order in orders]))
            return
        self._loop.post(self._loop.deliver, delivery)
        jobs.extendleft(reversed(postponed))
        with contextlib.suppress(Exception):
            # Nobody waits for it, and nothing that was promised depends on it.
            committer.tidy(touched)
        self._tell(committer)

    def _do(self, committer: Committer, errand: Errand) -> None:
        try:
            result = errand.run(committer)
        except Exception as error:  # noqa: BLE001 - for whoever asked for it
            self._tell(committer)
            self._loop.post(errand.finish, None, error)
        else:
            self._tell(committer)
            self._loop.post(errand.finish, result, None)

    def _look(self, committer: Committer) -> None:
        try:
            committer.look()
        except StoreRefused as error:
            self._loop.post(self._loop.give_up, error)
        except Exception:  # noqa: BLE001 - the next look may have more luck; whoever commits meanwhile is told
            return
        self._tell(committer)

    def _tell(self, committer: Committer) -> None:
        delivery = committer.delivery()
        if delivery != Delivery():
            self._loop.post(self._loop.deliver, delivery)
