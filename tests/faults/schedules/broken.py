"""Planted faults: each class is the real one with the fault in its docstring."""

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from sideband.core import turn
from sideband.core.apply import apply
from sideband.core.drain import drain
from sideband.core.events import (
    Cancelled,
    Compacted,
    Event,
    Expired,
    Fired,
    Idled,
    InjectAccepted,
    InjectDelivered,
    Queued,
    QueuedMessage,
    RequestCommitted,
    ResultRecorded,
    Started,
)
from sideband.core.messages import Message, Reply, ToolCall, ToolStatus, as_blocks, reply_message, result_message
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.state import Decision, SessionState
from sideband.core.trust import IN_PROCESS
from sideband.core.turn import OpenedTurn
from sideband.loop.conversation import Conversation
from sideband.loop.dispatch import CallOutcome, Dispatcher
from sideband.ports import Lease, Logged
from sideband.render.plan import Plan
from sideband.runtime.session import Session
from sideband.store.feed import Feed
from tests.decisions import deciding, saying
from tests.faults.schedules.stores import GroupingStore, WitnessedStore

_Value = TypeVar("_Value")

# Stores.


class AwaitsBetweenCheckAndAct(WitnessedStore):
    """Others get their turn after the decision and before its events are applied.

    As in a database, a statement that finds no row changes nothing and says nothing.
    """

    async def commit(
        self,
        session_id: str,
        decide: Decision[_Value],
        *,
        lease: Lease | None = None,
        receipts: Sequence[str] = (),  # noqa: ARG002 - the signature of the real one
    ) -> _Value:
        state = self.state(session_id)
        if lease is not None:
            self._attend(state, session_id, lease)
        decided = decide(state)
        events = tuple(decided.events)
        await asyncio.sleep(0)
        for event in events:
            with suppress(KeyError):
                apply(state, event)
            logged = Logged(sequence=len(self.journal) + 1, session_id=session_id, event=event)
            self.journal.append(logged)
            self._feed.announce([logged])
        if events:
            self.commits.append(events)
            self.wake(session_id).set()
            self.give_cues({type(event) for event in events})
        return decided.value


class AnswersBeforeItCommits(GroupingStore):
    """Says yes to a sender while the commit still stands in line."""

    def __init__(self) -> None:
        super().__init__()
        self._promised: list[asyncio.Future[Any]] = []

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        decided = decide(self.state(session_id))
        made = asyncio.ensure_future(super().commit(session_id, lambda _: decided, lease=lease, receipts=receipts))
        if not any(isinstance(event, Queued | InjectAccepted) for event in decided.events):
            return await made
        self._promised.append(made)
        return decided.value


class ForgetsToLog(WitnessedStore):
    """Applies without writing it down that a session has gone idle."""

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        decided = decide(self.state(session_id))
        if [type(event) for event in decided.events] == [Idled]:
            apply(self.state(session_id), decided.events[0])
            return decided.value
        return await super().commit(session_id, lambda _: decided, lease=lease, receipts=receipts)


class SkipsASubscriber(WitnessedStore):
    """Tells its subscribers of all but every seventh event."""

    def __init__(self) -> None:
        super().__init__()
        self._feed = _ForgetfulFeed(0)


class _ForgetfulFeed(Feed):
    def announce(self, news: Iterable[Logged]) -> None:
        super().announce(logged for logged in news if logged.sequence % 7)


# Conversations.


class GoesIdleInTwoCommits(Conversation):
    """Looks for what waits, and goes idle in a commit of its own."""

    async def drain(self, seam: Seam, *, closing: bool = False, **options: Any) -> tuple[str, ...]:  # noqa: ANN401 - handed on
        taken = await super().drain(seam, **options)
        if closing and not taken:
            await self.idle(status="completed")
        return taken


class DrainsOnlyAtTheEnd(Conversation):
    """Leaves everything in the inbox until the closing drain."""

    async def drain(self, seam: Seam, *, closing: bool = False, **options: Any) -> tuple[str, ...]:  # noqa: ANN401 - handed on
        if not closing and seam in (Seam.ITERATION_START, Seam.POST_TOOL_DISPATCH, Seam.ITERATION_END):
            return ()
        return await super().drain(seam, closing=closing, **options)


class DrainsAfterTheLastRequest(Conversation):
    """Takes what is left at the exit, where no request follows."""

    async def drain(self, seam: Seam, *, closing: bool = False, **options: Any) -> tuple[str, ...]:  # noqa: ANN401 - handed on
        if closing:
            await self.idle(status="completed")
            return ()
        if seam is Seam.LOOP_EXIT:
            await self.commit(lambda state: drain(state, Seam.ITERATION_END))
        return await super().drain(seam, **options)


class RunsWhatWasInterrupted(Conversation):
    """Gives the calls their results and does not say that it did."""

    async def drain(self, seam: Seam, *, closing: bool = False, **options: Any) -> tuple[str, ...]:  # noqa: ANN401 - handed on
        taken = await super().drain(seam, closing=closing, **options)
        return () if seam is Seam.PRE_TOOL_DISPATCH else taken


class NeverInterrupts(Conversation):
    """Lets interrupts wait like everything else."""

    async def drain(self, seam: Seam, *, closing: bool = False, **options: Any) -> tuple[str, ...]:  # noqa: ANN401 - handed on
        if seam is Seam.PRE_TOOL_DISPATCH:
            return ()
        return await super().drain(seam, closing=closing, **options)


class StartsWithTheNewest(Conversation):
    """Delivers the message that was queued last."""

    async def start_queued(self, *, even_held: bool = False, provided: str | None = None) -> bool:  # noqa: ARG002 - the signature of the real one
        def decide(state: SessionState) -> Iterable[Event]:
            queued = [item for item in state.inbox.waiting(None) if isinstance(item, QueuedMessage)]
            if not queued or state.running or (state.queue_held and not even_held):
                return ()
            return (Started(), InjectDelivered(message_id=queued[-1].message_id, content=queued[-1].content))

        return bool(await self.commit(deciding(decide)))


PlanFor: TypeAlias = Callable[[SessionState], tuple[Plan, bool]]


class CommitsAStalePlan(Conversation):
    """Records a request without checking that the session is still as it was when the request was planned."""

    async def open_request(self, plan_for: PlanFor) -> tuple[OpenedTurn, Plan]:
        plan, _ = plan_for(self.state)
        opened = await self.commit(lambda state: turn.open_request(state, state.basis, plan, repeats=False))
        assert isinstance(opened, OpenedTurn)
        return opened, plan


class PlansAfterTheCommit(Conversation):
    """Records one request and sends another."""

    async def open_request(self, plan_for: PlanFor) -> tuple[OpenedTurn, Plan]:
        opened, _ = await super().open_request(plan_for)
        return opened, plan_for(self.state)[0]


class NeverExpires(Conversation):
    """Commits a turn without the pass that ends what has had its turns."""

    async def close_turn(self, reply: Reply) -> bool:
        def decide(state: SessionState) -> Iterable[Event]:
            closing = turn.close_turn(state, reply=reply_message(reply), usage=reply.usage)
            return [event for event in closing.events if not isinstance(event, Expired)]

        return bool(await self.commit(deciding(decide)))


class LeavesWhatIsOpen(Conversation):
    """Ends a run and leaves its request and its calls as they are."""

    async def cancel(self, *, prompt: str | None = None) -> None:
        """Nothing: the session was cancelled, and so the run is over."""

    async def settle(self, *, status: str, records: Mapping[str, Any]) -> None:  # noqa: ARG002 - the signature of the real one
        if not (self.state.request or self.state.open_calls):
            await self.commit(lambda state: turn.idle(state, status=status))

    async def recover(self, *, repeatable: Container[str] = (), resume: bool = False) -> None:
        """Recovers nothing."""


class NumbersWhatCameToNothing(Conversation):
    """Gives a turn that was never answered its number for good."""

    _numbers = 0

    async def open_request(self, plan_for: PlanFor) -> tuple[OpenedTurn, Plan]:
        plan, _ = plan_for(self.state)
        self._numbers = number = max(self._numbers, self.state.live.turn) + 1
        fired = [Fired(reminder_id=entry.reminder_id, turn=number, rendered_role="user") for entry in plan.shown]
        await self.commit(deciding(lambda state: (*_void(state), RequestCommitted(turn=number), *fired)))
        return OpenedTurn(number, 1, ""), plan


class DeliversWhileAsking(Conversation):
    """Drains steers while a permission request is open."""

    async def ask_permission(self, call_id: str) -> None:
        await super().ask_permission(call_id)

        def decide(state: SessionState) -> Iterable[Event]:
            for item in state.inbox.waiting(Mode.FINISH_STEP):
                if isinstance(item, QueuedMessage):
                    yield InjectDelivered(message_id=item.message_id, content=item.content)

        await self.commit(deciding(decide))


class KeepsEveryReminder(Conversation):
    """Compacts the messages and nothing else."""

    async def compact(
        self,
        before: Sequence[Message],
        after: Sequence[Message],
        *,
        begun_at: int,  # noqa: ARG002 - the signature of the real one
        in_turn: bool = False,  # noqa: ARG002 - the signature of the real one
    ) -> int:
        archived = len(before) - len(after)
        compacted = Compacted(turn=self.state.live.turn, archived_messages=archived, messages=tuple(after))
        await self.commit(saying(*([compacted] if archived else [])))
        return archived


def _void(state: SessionState) -> Iterable[Event]:
    return turn.void_turn(state).events


# Sessions.


class SpeaksAfterItsEnd(Session):
    """Accepts messages, and does not look whether it is closed."""

    async def inject(self, content: str | Sequence[Mapping[str, Any]], *, mode: str = InjectMode.STEER) -> str:
        blocks = as_blocks(content)
        item = QueuedMessage(
            message_id=self.talk.new_id(), content=blocks, mode=InjectMode(mode), provenance=IN_PROCESS
        )
        await self.talk.journal.commit(self.id, saying(InjectAccepted(item=item)))
        return item.message_id


class EmptiesTheInboxOnCancel(Session):
    """Delivers what waits when the turn is cancelled."""

    async def cancel(
        self, message_id: str | None = None, *, hold_queue: bool | None = None, or_next: bool = False
    ) -> bool:
        cancelled = await super().cancel(message_id, hold_queue=hold_queue, or_next=or_next)
        await self.talk.commit(lambda state: drain(state, Seam.ITERATION_END))
        return cancelled


class CancelsInPart(Session):
    """Marks the turn as cancelled, and leaves it to the run to end what is open."""

    def ended(self, state: SessionState) -> Iterable[Event]:  # noqa: ARG002 - a subclass reads it
        return ()

    async def cancel(
        self,
        message_id: str | None = None,  # noqa: ARG002 - the signature of the real one
        *,
        hold_queue: bool | None = None,  # noqa: ARG002 - the same
        or_next: bool = False,  # noqa: ARG002 - the same
    ) -> bool:
        await self.talk.commit(deciding(lambda state: (*self.ended(state), Cancelled()) if state.running else ()))
        if self.run is not None:
            self.run.cancel()
        return True


class LeavesCallsOpenOnCancel(CancelsInPart):
    """Trusts that every call has reported when a run is cancelled."""

    def ended(self, state: SessionState) -> Iterable[Event]:
        return _void(state)


# Dispatchers.


class RecordsTwice(Dispatcher):
    """Makes sure that a cancelled call has a result, and does not look whether it has one."""

    async def _run_one(self, call: ToolCall) -> CallOutcome:
        try:
            return await super()._run_one(call)
        except asyncio.CancelledError:
            message = result_message(call, ToolStatus.CANCELLED, "Cancelled.")
            result = ResultRecorded(call_id=call.id, status=ToolStatus.CANCELLED.value, message=message)
            await self._talk.commit(saying(result))
            raise
