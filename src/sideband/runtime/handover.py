"""Hand what a session is told to an agent that runs elsewhere and keeps its own conversation.

The commits of a turn, in order:

1. `open`: the turn starts, the inbox is drained, and what the prompt hands over is recorded as shown. Then the prompt
   leaves.
2. `take` and `confirm`, for each item that is handed over while the turn runs. The first drains it, then it leaves; the
   second records that the agent has it.
3. `close`: the agent has answered. What was shown ages, and what ends with this turn ends.

A process that dies before 1 has changed nothing. If it dies between 1 and 3, the next `open` voids the turn, and its
prompt hands over again what the prompt of 1 handed over. Of the items of 2, those that were confirmed are not handed over
again. So the agent gets an item twice only if the process died after the item left and before its answer was recorded.

If the store fails at 3, the process remembers the end of the turn, and the next `open` commits it first.
"""

from functools import partial
from typing import Final, NamedTuple

from sideband.core import handover, turn
from sideband.core.errors import LeaseLost, SessionBusy, StoreError, shown
from sideband.core.handover import Given, GivenMessage, GivenReminder, NotStarted, OpenedPrompt
from sideband.core.state import Decision, SessionState
from sideband.loop.lease import HeldLease
from sideband.ports import Wake
from sideband.runtime.session import Session

# Protocols import these from here.
__all__ = ["Given", "GivenMessage", "GivenReminder", "HandOver", "OpenedPrompt"]


# How often the token of a lease changes if this process releases it and takes the next one itself.
OWN_CHANGES: Final = 2


class _UnrecordedEnd(NamedTuple):
    """The decision that ends a turn, and the token of the lease under which the turn ran."""

    decide: Decision[None]
    token: int


class HandOver:
    """Hands the reminders and messages of one session over to its agent, prompt by prompt."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._lease: HeldLease | None = None
        self._handed: set[str] = set()
        self._on_its_way: str | None = None
        # The end of a turn that the store did not record.
        self._unrecorded: _UnrecordedEnd | None = None

    @property
    def is_open(self) -> bool:
        """Whether a prompt has been sent to the agent and not been answered."""
        return self._lease is not None

    async def open(self, *, in_front: bool = True) -> OpenedPrompt | None:
        """Start the turn of a prompt, and return what it hands over; None if the session is over.

        Without `in_front` it hands nothing over. `SessionBusy` if another process runs the session.
        """
        if self._lease is not None:
            raise SessionBusy(
                f"the agent of session {shown(self.session.id)} has not answered the last prompt",
                field="session",
                value=self.session.id,
            )
        lease = await self.session.attend()
        lease.keep(lambda _lost: None)
        try:
            opened = await self._open(in_front=in_front)
        except BaseException:
            await lease.release()
            raise
        if opened is None:
            await lease.release()
            return None
        self._lease = lease
        self._handed = {item.id for item in opened.given}
        return opened

    async def _open(self, *, in_front: bool) -> OpenedPrompt | None:
        withheld = () if self._on_its_way is None else (self._on_its_way,)
        decide = partial(handover.open_prompt, in_front=in_front, withheld=withheld)
        await self._record_end()
        opened = await self.session.talk.commit(decide)
        if opened is NotStarted.LEFT_OPEN:
            await self.session.talk.settle(status="", records={})
            opened = await self.session.talk.commit(decide)
        return opened if isinstance(opened, OpenedPrompt) else None

    async def close(self, *, status: str) -> None:
        """The agent has answered the prompt: end the turn. `LeaseLost` if another process runs the session now."""
        handed = frozenset(self._handed)
        await self._end(partial(handover.close_prompt, handed=handed, status=status))

    async def void(self, *, status: str) -> None:
        """The agent has not run the prompt: what it handed over is handed over again with the next one."""
        await self._end(partial(turn.settle, status=status))

    async def _end(self, decide: Decision[None]) -> None:
        lease, self._lease = self._lease, None
        if lease is None:
            return
        token = self._token
        try:
            await self.session.talk.commit(decide)
        except LeaseLost:
            # The process that runs the session now has voided the turn.
            raise
        except StoreError:
            self._unrecorded = _UnrecordedEnd(decide, token)
            raise
        finally:
            await lease.release()

    async def _record_end(self) -> None:
        """Record the end of the last turn, if the store failed then and no other process has run the session since."""
        if self._unrecorded is None:
            return
        decide, token = self._unrecorded
        if self._token <= token + OWN_CHANGES:
            await self.session.talk.commit(decide)
        self._unrecorded = None

    @property
    def _token(self) -> int:
        lease = self.session.talk.lease
        return 0 if lease is None else lease.token

    # While the turn runs.

    async def take(self, *, tool_runs: bool) -> Given | None:
        """Drain the next item that can be handed over now; `confirm` or `put_back` it. None if there is none."""
        if self._lease is None or self._on_its_way is not None:
            return None
        talk = self.session.talk
        if not (await talk.journal.read(self.session.id, partial(_has_next, tool_runs=tool_runs))).value:
            return None
        given = await talk.commit(partial(handover.take_next, tool_runs=tool_runs))
        self._on_its_way = None if given is None else given.id
        return given

    async def confirm(self, item_id: str) -> None:
        """The agent has the item that was taken."""
        await self.session.talk.write(partial(handover.confirm, item_id=item_id))
        self._on_its_way = None

    def put_back(self) -> None:
        """The agent did not take the item, if it was not confirmed: the next prompt hands it over."""
        self._on_its_way = None

    async def compacted(self) -> None:
        """The agent has compacted its conversation: preserved reminders are handed over again, the others end."""
        await self.session.talk.write(handover.compact_given)
        self._handed -= {item.id for item in self.session.talk.state.live}

    def wake(self) -> Wake:
        """An event that is set whenever something happens in the session, in any process."""
        return self.session.talk.journal.wake(self.session.id)

    async def is_cancelled(self) -> bool:
        """Whether another program has cancelled the turn that this process has opened."""
        return self.is_open and not (await self.session.talk.journal.read(self.session.id, _is_running)).value


def _has_next(state: SessionState, *, tool_runs: bool) -> bool:
    return state.running and handover.next_item(state, tool_runs=tool_runs) is not None


def _is_running(state: SessionState) -> bool:
    return state.running
