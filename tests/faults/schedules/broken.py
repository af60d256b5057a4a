"""Code with a fault in it: each class is the real one but for the fault that its first line tells."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sideband.core import lifecycle
from sideband.core.events import (
    Cancelled,
    Compacted,
    Event,
    Expired,
    Idled,
    InjectAccepted,
    InjectDelivered,
    Queued,
    ResultRecorded,
    Started,
)
from sideband.core.items import InboxItem, QueuedMessage
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.state import SessionState, apply
from sideband.core.trust import IN_PROCESS
from sideband.loop.conversation import Conversation
from sideband.loop.decisions import Build, Opened
from sideband.loop.dispatch import Dispatcher
from sideband.loop.messages import reply_message, result_message, user_content
from sideband.loop.outcome import Outcome
from sideband.ports import Committed, Decision, Lease, Logged, Message, Reply, ToolCall, ToolStatus
from sideband.runtime.session import Session
from sideband.store.feed import Feed
from tests.faults.schedules.stores import GroupingStore, WitnessedStore

# Stores.


class AwaitsBetweenCheckAndAct(WitnessedStore):
    """Others get their turn after the decision and before its events are applied.

    As in a database, a statement that finds no row changes nothing and says nothing.
    """

    async def commit(self, session_id: str, decide: Decision, *, lease: Lease | None = None) -> Committed:
        state = self.state(session_id)
        if lease is not None:
            self._attend(state, session_id, lease)
        events = tuple(decide(state))
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
        return Committed(events=events, sequence=len(self.journal))


class AnswersBeforeItCommits(GroupingStore):
    """Says yes to a sender while the commit still stands in line."""

    def __init__(self) -> None:
        super().__init__()
        self._promised: list[asyncio.Future[Committed]] = []

    async def commit(self, session_id: str, decide: Decision, *, lease: Lease | None = None) -> Committed:
        events = tuple(decide(self.state(session_id)))
        made = asyncio.ensure_future(super().commit(session_id, lambda _: events, lease=lease))
        if not any(isinstance(event, Queued | InjectAccepted) for event in events):
            return await made
        self._promised.append(made)
        return Committed(events=events, sequence=len(self.journal))


class ForgetsToLog(WitnessedStore):
    """Applies without writing it down that a session has gone idle."""

    async def commit(self, session_id: str, decide: Decision, *, lease: Lease | None = None) -> Committed:
        events = tuple(decide(self.state(session_id)))
        if [type(event) for event in events] == [Idled]:
            apply(self.state(session_id), events[0])
            return Committed(events=events, sequence=len(self.journal))
        return await super().commit(session_id, lambda _: events, lease=lease)


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

    async def drain(
        self, seam: Seam, *, closing: bool = False, starting: bool = False, calls: Sequence[ToolCall] = ()
    ) -> tuple[InboxItem, ...]:
        taken = await super().drain(seam, starting=starting, calls=calls)
        if closing and not taken:
            await self.idle()
        return taken


class DrainsOnlyAtTheEnd(Conversation):
    """Leaves everything in the inbox until the closing drain."""

    async def drain(
        self, seam: Seam, *, closing: bool = False, starting: bool = False, calls: Sequence[ToolCall] = ()
    ) -> tuple[InboxItem, ...]:
        if not closing and seam in (Seam.ITERATION_START, Seam.POST_TOOL_DISPATCH, Seam.ITERATION_END):
            return ()
        return await super().drain(seam, closing=closing, starting=starting, calls=calls)


class DrainsAfterTheLastRequest(Conversation):
    """Takes what is left at the exit, where no request follows."""

    async def drain(
        self, seam: Seam, *, closing: bool = False, starting: bool = False, calls: Sequence[ToolCall] = ()
    ) -> tuple[InboxItem, ...]:
        if closing:
            await self.idle()
            return ()
        if seam is Seam.LOOP_EXIT:
            await super().drain(Seam.ITERATION_END)
        return await super().drain(seam, starting=starting, calls=calls)


class RunsWhatWasInterrupted(Conversation):
    """Gives the calls their results and does not say that it did."""

    async def drain(
        self, seam: Seam, *, closing: bool = False, starting: bool = False, calls: Sequence[ToolCall] = ()
    ) -> tuple[InboxItem, ...]:
        taken = await super().drain(seam, closing=closing, starting=starting, calls=calls)
        return () if seam is Seam.PRE_TOOL_DISPATCH else taken


class NeverInterrupts(Conversation):
    """Lets interrupts wait like everything else."""

    async def drain(
        self, seam: Seam, *, closing: bool = False, starting: bool = False, calls: Sequence[ToolCall] = ()
    ) -> tuple[InboxItem, ...]:
        if seam is Seam.PRE_TOOL_DISPATCH:
            return ()
        return await super().drain(seam, closing=closing, starting=starting, calls=calls)


class StartsWithTheNewest(Conversation):
    """Delivers the message that was queued last."""

    async def start_queued(self, *, even_held: bool = False) -> bool:
        def decide(state: SessionState) -> Iterable[Event]:
            queued = [item for item in state.inbox.waiting(None) if isinstance(item, QueuedMessage)]
            if not queued or state.running or (state.queue_held and not even_held):
                return ()
            return (Started(), InjectDelivered(message_id=queued[-1].message_id, content=queued[-1].content))

        return bool(await self.commit(decide))


class PlansBeforeTheCommit(Conversation):
    """Builds the request from a state that may have moved on when it is put on record."""

    async def open_request(self, build: Build) -> Opened:
        plan = build(self.state, None)
        return await super().open_request(lambda _state, _left: plan)


class PlansAfterTheCommit(Conversation):
    """Puts one request on record and sends another."""

    async def open_request(self, build: Build) -> Opened:
        opened = await super().open_request(build)
        return Opened(opened.turn, opened.attempt, build(self.state, None))


class NeverExpires(Conversation):
    """Commits a turn without the pass that ends what has had its turns."""

    async def close_turn(self, reply: Reply) -> bool:
        def decide(state: SessionState) -> Iterable[Event]:
            if state.request is None:
                return ()
            closing = lifecycle.close_turn(state.live, state.request, reply=reply_message(reply))
            return [event for event in closing if not isinstance(event, Expired)]

        return bool(await self.commit(decide))


class EmptiesTheInboxOnCancel(Conversation):
    """Delivers what waits when the turn is cancelled."""

    async def cancel(self, *, hold_queue: bool) -> None:
        await super().cancel(hold_queue=hold_queue)
        await self.drain(Seam.ITERATION_END)


class LeavesCallsOpenOnCancel(Conversation):
    """Trusts that every call has reported when a run is cancelled."""

    async def cancel(self, *, hold_queue: bool) -> None:
        await self.commit(lambda state: (*_void(state), Cancelled(hold_queue=hold_queue)))

    async def settle(self, *, hold_queue: bool) -> None:
        if self.state.request is None:
            await self.idle()
        else:
            await self.cancel(hold_queue=hold_queue)


class LeavesTheTurnOpen(Conversation):
    """Ends a run and leaves its request as it is."""

    async def cancel(self, *, hold_queue: bool) -> None:
        await self.commit(lambda _: (Cancelled(hold_queue=hold_queue),))

    async def settle(self, *, hold_queue: bool) -> None:
        """A run that is over is over."""

    async def recover(self, *, may_repeat: Callable[[str], bool]) -> None:
        """Nothing can have been left behind."""


class NumbersWhatCameToNothing(Conversation):
    """Gives a turn that was never answered its number for good."""

    _numbers = 0

    async def open_request(self, build: Build) -> Opened:
        opened: list[Opened] = []

        def decide(state: SessionState) -> Iterable[Event]:
            self._numbers = max(self._numbers, state.live.turn) + 1
            plan = build(state, None)
            opened.append(Opened(self._numbers, 1, plan))
            return (*_void(state), *lifecycle.open_request(self._numbers, plan.shown))

        await self.commit(decide)
        return opened[-1]


class DeliversWhileAsking(Conversation):
    """Takes steers as soon as somebody is asked for permission."""

    async def ask_permission(self, request_id: str) -> None:
        await super().ask_permission(request_id)

        def decide(state: SessionState) -> Iterable[Event]:
            for item in state.inbox.waiting(Mode.FINISH_STEP):
                if isinstance(item, QueuedMessage):
                    yield InjectDelivered(message_id=item.message_id, content=item.content)

        await self.commit(decide)


class KeepsEveryReminder(Conversation):
    """Compacts the messages and nothing else."""

    async def compact(self, before: Sequence[Message], after: Sequence[Message]) -> int:
        archived = len(before) - len(after)
        compacted = Compacted(turn=self.state.live.turn, archived_messages=archived, messages=tuple(after))
        await self.commit(lambda _: (compacted,) if archived else ())
        return archived


def _void(state: SessionState) -> Iterable[Event]:
    return () if state.request is None else lifecycle.void_turn(state.request)


# Sessions.


class SpeaksAfterItsEnd(Session):
    """Accepts messages, and does not look whether it is closed."""

    async def inject(self, content: str | Sequence[Mapping[str, Any]], *, mode: str = InjectMode.STEER) -> str:
        blocks = user_content(content) if isinstance(content, str) else tuple(map(dict, content))
        item = QueuedMessage(
            message_id=self.talk.new_id(), content=blocks, mode=InjectMode(mode), provenance=IN_PROCESS
        )
        await self.talk.accept(lambda _: (InjectAccepted(item=item),))
        return item.message_id


# Dispatchers.


class RecordsTwice(Dispatcher):
    """Makes sure that a cancelled call has a result, and does not look whether it has one."""

    async def _run_one(self, call: ToolCall) -> Outcome:
        try:
            return await super()._run_one(call)
        except asyncio.CancelledError:
            message = result_message(call, ToolStatus.CANCELLED, "Cancelled.")
            result = ResultRecorded(call_id=call.id, status=ToolStatus.CANCELLED.value, message=message)
            await self._talk.commit(lambda _: (result,))
            raise
