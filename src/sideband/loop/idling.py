"""A daemon between two runs: what wakes it, and what it is told then."""

import asyncio

from sideband.core.drain import wakes_daemon
from sideband.core.hookevents import SessionEvent
from sideband.core.seams import Seam
from sideband.loop.conversation import Conversation
from sideband.loop.scope import Ended, Scope
from sideband.loop.telling import Teller
from sideband.ports import Clock


class Idler:
    """Waits until an idle session has a reason to go on."""

    def __init__(self, talk: Conversation, teller: Teller, clock: Clock, *, wake_seconds: float | None) -> None:
        self._talk = talk
        self._teller = teller
        self._clock = clock
        self._scope = Scope()
        self._wake_seconds = wake_seconds

    def end(self) -> None:
        """There is nothing more to wait for."""
        self._scope.end()

    async def wait(self) -> None:
        """Return when there is an interrupt, a message to deliver, the daemon's own time has come, or all has ended.

        An interrupt makes the session run again in the commit that takes it; a message will, when it is delivered.
        """
        if await self._talk.drain(Seam.DAEMON_IDLE_PRE, starting=True):
            return
        try:
            timed_out = await self._scope.inside(self._timed_out())
        except Ended:
            return
        if self._talk.state.closed:
            return
        if timed_out:
            waited = int((self._wake_seconds or 0) * 1000)
            await self._teller.tell(SessionEvent.SESSION_IDLE, wake_interval_ms=waited)
        await self._talk.drain(Seam.DAEMON_IDLE_POST, starting=True)
        if timed_out:
            await self._talk.wake()

    async def _timed_out(self) -> bool:
        """Whether only the time was up."""
        if self._wake_seconds is None:
            await self._reason()
            return False
        reason = asyncio.ensure_future(self._reason())
        sleeping = asyncio.ensure_future(self._clock.sleep(self._wake_seconds))
        try:
            done, _ = await asyncio.wait((reason, sleeping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            reason.cancel()
            sleeping.cancel()
        for task in done:
            task.result()
        return reason not in done

    async def _reason(self) -> None:
        """Return when there is one. What came and was revoked is none."""
        wake = self._talk.journal.wake(self._talk.session_id)
        while not self._has_reason():
            wake.clear()
            await wake.wait()

    def _has_reason(self) -> bool:
        state = self._talk.state
        if state.closed:
            return True
        return bool(any(map(wakes_daemon, state.inbox.items())) or (state.inbox.waiting(None) and not state.queue_held))
