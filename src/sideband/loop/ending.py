"""How a run ends: nothing of it stays open, whatever ended it, and its session is free for the next."""

from sideband.core.failures import LeaseLost
from sideband.core.hookevents import SessionEvent
from sideband.core.seams import Seam
from sideband.loop.conversation import Conversation
from sideband.loop.problems import Problem
from sideband.loop.run import LoopStatus
from sideband.loop.scope import Ended
from sideband.loop.telling import Teller
from sideband.loop.tenure import Tenure
from sideband.ports import ModelError


class Ending:
    """The end of one run; `error` is what a model failed with for good (None: it did not).

    Who has lost the lease on the session writes nothing more: it is somebody else's by now.
    """

    def __init__(self, talk: Conversation, teller: Teller, tenure: Tenure | None, *, hold_queue: bool) -> None:
        self._talk = talk
        self._teller = teller
        self._tenure = tenure
        self._hold_queue = hold_queue
        self.lost: LeaseLost | None = None
        self.error: str | None = None

    async def close(self, why: Exception | None, status: LoopStatus) -> LoopStatus:
        """Leave nothing open; how the run ended, which is by `why` if anything, else with `status`."""
        if isinstance(why, LeaseLost):
            self.lost = why
        try:
            if self.lost is None:
                status = await self._explain(why, status)
                await self.settle()
        except LeaseLost as error:
            self.lost = error
        if self.lost is None:
            return status
        self._teller.report(Problem("lease", str(self.lost)))
        return LoopStatus.LEASE_LOST

    async def _explain(self, why: Exception | None, status: LoopStatus) -> LoopStatus:
        if isinstance(why, Ended):
            await self._talk.cancel(hold_queue=self._hold_queue)
            return LoopStatus.CANCELLED
        if isinstance(why, ModelError):
            self.error = str(why)
            await self._talk.void_turn()
            await self._teller.tell(SessionEvent.SESSION_ERROR, error=self.error)
            return LoopStatus.FAILED
        return status

    async def settle(self) -> None:
        """The session is idle, and what was for the record alone is on it."""
        if self.lost is None:
            await self._talk.settle(hold_queue=self._hold_queue)
            await self._talk.drain(Seam.LOOP_EXIT)

    async def release(self) -> None:
        """Give the session back; from then on anybody may run it."""
        if self._tenure is not None:
            await self._tenure.release()
