"""An idle daemon: it waits for an interrupt, a queued message, or its wake interval."""

import asyncio

from sideband.core.drain import wakes_daemon
from sideband.core.hookevents import SessionEvent
from sideband.core.seams import Seam
from sideband.loop.cancel import CancelScope, Ended
from sideband.loop.conversation import Conversation
from sideband.loop.hooks import HookRunner
from sideband.ports import Clock


class DaemonIdle:
    """Waits until an idle session has a reason to run."""

    def __init__(self, talk: Conversation, hooks: HookRunner, clock: Clock, *, wake_seconds: float | None) -> None:
        self._talk = talk
        self._hooks = hooks
        self._clock = clock
        self._scope = CancelScope()
        self._wake_seconds = wake_seconds

    def end(self) -> None:
        """Stop waiting, now and in the future."""
        self._scope.end()

    async def wait(self) -> None:
        """Return on an interrupt, on a message to deliver, after the wake interval, or when the wait has ended.

        The commit that drains an interrupt also starts the session. A message starts it later, when it is delivered.
        """
        if await self._talk.drain(Seam.DAEMON_IDLE_PRE, starting=True):
            return
        try:
            timed_out = await self._scope.run(self._wait_for_reason())
        except Ended:
            return
        if self._talk.state.closed:
            return
        if timed_out:
            waited = int((self._wake_seconds or 0) * 1000)
            await self._hooks.notify(SessionEvent.SESSION_IDLE, {"wake_interval_ms": waited})
        await self._talk.drain(Seam.DAEMON_IDLE_POST, starting=True)
        if timed_out:
            await self._talk.wake()

    async def _wait_for_reason(self) -> bool:
        """Wait for a reason to run or for the wake interval; return whether only the interval has passed."""
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
        # Look again after each wake-up: the commit that set the flag may be a revoke.
        wake = self._talk.journal.wake(self._talk.session_id)
        while not self._has_reason():
            wake.clear()
            await wake.wait()

    def _has_reason(self) -> bool:
        state = self._talk.state
        if state.closed:
            return True
        return bool(any(map(wakes_daemon, state.inbox.items())) or (state.inbox.waiting(None) and not state.queue_held))
