"""A session as its loop uses it: each method commits one decision of the core."""

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeAlias

from sideband.core import accept, drain, lifecycle, turn
from sideband.core.errors import WrongEventLoop
from sideband.core.events import Equipped, Event, QueuedMessage
from sideband.core.lifecycle import Injection
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.messages import (
    Content,
    Message,
    Reply,
    ToolCall,
    as_blocks,
    read_call,
    read_content,
    reply_message,
)
from sideband.core.reminder import Draft, ReminderId, Source
from sideband.core.seams import InjectMode, Seam
from sideband.core.state import Decided, Decision, SessionState, ValueT
from sideband.core.topic import Correlation, correlation_of
from sideband.core.trust import IN_PROCESS, Provenance
from sideband.core.turn import NotOpened, OpenedTurn, Unusable
from sideband.loop.cancel import Ended
from sideband.ports import Journal, Lease
from sideband.render.plan import Plan

# The seams that are passed while the session is idle.
OUTSIDE_TURNS: Final = frozenset({Seam.DAEMON_IDLE_PRE, Seam.DAEMON_IDLE_POST, Seam.LOOP_EXIT})

Observer: TypeAlias = Callable[[Sequence[Event], Correlation], None]

# Gets the events of every commit that the current task makes; None if no event log is active.
OBSERVER: Final[ContextVar[Observer | None]] = ContextVar("sideband_observer", default=None)


class _Observed(NamedTuple, Generic[ValueT]):
    """The value of a decision together with the events that it committed."""

    value: ValueT
    events: Sequence[Event]
    correlation: Correlation


class HomeLoop:
    """The event loop that a store belongs to: its wake-ups and locks work in no other one.

    A store that `moves` has no tasks and connections of its own. If its event loop is closed, it belongs to the next one.
    """

    def __init__(self, *, moves: bool) -> None:
        self._moves = moves
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Raise `WrongEventLoop` if the running event loop is not the one that this was first called in."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is None or (self._moves and self._loop.is_closed()):
            self._loop = loop
        else:
            raise WrongEventLoop(closed=self._loop.is_closed())


class Conversation:
    """One session of one agent, bound to the journal that holds it.

    `lease` is the right to run the session, and every commit of a run carries it (None: this process does not run the
    session). `hold` is what `Journal.open` returned; keeping it keeps the state in memory.
    """

    def __init__(
        self,
        journal: Journal,
        session_id: str,
        *,
        new_id: Callable[[], str],
        limits: Limits = DEFAULT_LIMITS,
        home: HomeLoop | None = None,
    ) -> None:
        self.journal = journal
        self.session_id = session_id
        self.new_id = new_id
        self.limits = limits
        self.lease: Lease | None = None
        self.hold: object = None
        # What the model counted in the last request of this process; 0 if nothing was counted.
        self.prompt_tokens = 0
        self._notes: list[Event] = []
        self.home = home or HomeLoop(moves=True)

    @property
    def state(self) -> SessionState:
        """The committed state, to be read; only commits change it."""
        return self.journal.state(self.session_id)

    def write(
        self, decide: Decision[ValueT], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> Awaitable[ValueT]:
        """Commit a decision as `Journal.commit` does, and report its events to the active event log.

        Every commit of a session goes through this method. Without a lease the decision belongs to no run: a producer may
        send while another process runs the session.
        """
        self.home.check()
        observer = OBSERVER.get()
        if observer is None:
            return self.journal.commit(self.session_id, decide, lease=lease, receipts=receipts)
        return self._write_observed(observer, decide, lease, receipts)

    async def _write_observed(
        self, observer: Observer, decide: Decision[ValueT], lease: Lease | None, receipts: Sequence[str]
    ) -> ValueT:
        def observed(state: SessionState) -> Decided[_Observed[ValueT]]:
            decided, value = decide(state)
            events = tuple(decided)
            return Decided(events, _Observed(value, events, correlation_of(self.session_id, state.records)))

        def report(done: "asyncio.Future[_Observed[ValueT]]") -> None:
            if not done.cancelled() and done.exception() is None:
                observer(done.result().events, done.result().correlation)

        # Cancelling the caller does not undo its commit, so the commit is a task of its own and is still reported.
        committing = asyncio.ensure_future(
            self.journal.commit(self.session_id, observed, lease=lease, receipts=receipts)
        )
        committing.add_done_callback(report)
        return (await asyncio.shield(committing)).value

    async def commit(self, decide: Decision[ValueT]) -> ValueT:
        """Commit a decision of a run, after the notes that were taken before it; return the decision's value."""
        notes = self._notes
        if not notes:
            return await self.write(decide, lease=self.lease)

        def with_notes(state: SessionState) -> Decided[ValueT]:
            events, value = decide(state)
            # A closed session records nothing more.
            return Decided(events if state.closed else (*notes, *events), value)

        self._notes = []
        try:
            return await self.write(with_notes, lease=self.lease)
        except Exception:
            # A refused commit has written nothing, so the notes are still to be written.
            self._notes = [*notes, *self._notes]
            raise

    async def commit_in_turn(self, decide: Decision[ValueT]) -> ValueT:
        """Commit a decision about the running turn; raise `Ended` and write nothing if the turn was cancelled."""

        def in_turn(state: SessionState) -> Decided[ValueT]:
            if not state.running:
                raise Ended
            return decide(state)

        return await self.commit(in_turn)

    # Seams.

    async def drain(
        self,
        seam: Seam,
        *,
        calls: Sequence[ToolCall] = (),
        closing: bool = False,
        starting: bool = False,
        reminders_only: bool = False,
        added_from: int | None = None,
    ) -> tuple[str, ...]:
        """Take what this seam takes and return the ids; see `sideband.core.drain`.

        Raise `Ended` if the seam is one of a turn and the turn was cancelled.
        """
        if not closing and self.journal.nothing_waits(self.session_id):
            return ()
        commit = self.commit if seam in OUTSIDE_TURNS else self.commit_in_turn
        return await commit(
            partial(
                drain.drain,
                seam=seam,
                calls=calls,
                closing=closing,
                starting=starting,
                reminders_only=reminders_only,
                added_from=added_from,
            )
        )

    async def skip(self, calls: Sequence[ToolCall]) -> bool:
        """Let a queued interrupt skip these calls and stay in the inbox; return whether one did."""
        if self.journal.nothing_waits(self.session_id):
            return False
        return await self.commit_in_turn(lambda state: drain.skip(state, calls))

    async def start_queued(self, *, even_held: bool = False, provided: str | None = None) -> bool:
        """Let the first queued message start a turn; return whether one did. See `sideband.core.drain`."""
        return await self.commit(partial(drain.start_queued, even_held=even_held, provided=provided))

    async def start_message(self, message_id: str) -> bool:
        """Let this queued message start a turn; return False if it was withdrawn meanwhile."""
        return await self.commit(lambda state: drain.start_message(state, message_id))

    async def start_with(self, content: Content) -> None:
        """Let this message start a turn at once, before the queue."""
        blocks = read_content(as_blocks(content), self.limits)
        message = QueuedMessage(message_id=self.new_id(), content=blocks, mode=InjectMode.QUEUE, provenance=IN_PROCESS)
        await self.commit(lambda state: drain.start_with(state, message))

    async def wake(self) -> None:
        """Begin to run without a message, if there is anything for the model to answer."""
        await self.commit(drain.wake)

    # The run.

    async def idle(self, *, status: str) -> None:
        await self.commit_in_turn(partial(turn.idle, status=status))

    async def settle(self, *, status: str, records: Mapping[str, Any]) -> None:
        await self.commit(partial(turn.settle, status=status, records=records))

    async def cancel(self, *, prompt: str | None = None) -> None:
        """End the turn of a run. If it has not begun, `prompt` is its message, which then starts no turn later."""
        await self.commit(partial(turn.cancel_run, prompt=prompt))

    async def finish_call(self, *, status: str) -> None:
        await self.commit(partial(turn.finish_call, status=status))

    async def recover(self, *, repeatable: Container[str] = (), resume: bool = False) -> None:
        await self.commit(partial(turn.recover, repeatable=repeatable, resume=resume))

    async def equip(self, equipped: Equipped, *, records: Mapping[str, Any]) -> Sequence[str]:
        """Record how a run begins; return the ids of hooks and providers that the last run had and this one lacks."""
        return await self.commit(partial(turn.equip, equipped=equipped, records=records))

    # Turns.

    async def open_request(self, plan_for: Callable[[SessionState], tuple[Plan, bool]]) -> tuple[OpenedTurn, Plan]:
        """Plan a request and record what it shows before any byte of it leaves; raise `Ended` if the run is over.

        Planning runs the model's code on the event loop, outside the commit. If the session changed meanwhile in a way
        that the plan depends on, the request is planned again.
        """
        while True:
            state = self.state
            basis = state.basis
            plan, repeats = plan_for(state)
            opened = await self.commit(
                partial(turn.open_request, basis=basis, planned=plan, repeats=repeats, reply_id=self.new_id())
            )
            if opened is NotOpened.ENDED:
                raise Ended
            if isinstance(opened, OpenedTurn):
                return opened, plan

    async def drop_unusable(self, unusable: Iterable[Unusable]) -> None:
        await self.commit_in_turn(partial(turn.drop_unusable, unusable=unusable))

    async def repeat_request(self, number: int, *, attempt: int) -> bool:
        return await self.commit(lambda state: turn.repeat_request(state, number, attempt=attempt))

    async def close_turn(self, reply: Reply) -> bool:
        """Commit the reply, before tools run; return False if another process voided the turn meanwhile."""
        message = reply_message(reply)
        return await self.commit(partial(turn.close_turn, reply=message, usage=reply.usage))

    async def void_turn(self) -> None:
        await self.commit(turn.void_turn)

    # Tools.

    async def record(self, call: ToolCall, message: Message) -> bool:
        """Record the result of a call; return False if the call was cancelled meanwhile, and so has one."""
        return await self.commit(lambda state: turn.record_result(state, call, message))

    def open_calls(self) -> list[ToolCall]:
        """The calls that have no result yet."""
        return [read_call(call) for call in self.state.open_calls.values()]

    async def ask_permission(self, call_id: str) -> None:
        """Record that permission is asked for a call; raise `Ended` if the call was cancelled meanwhile."""
        if not await self.commit(lambda state: turn.ask_permission(state, call_id)):
            raise Ended

    async def answer_permission(self, request_id: str) -> None:
        await self.commit(lambda state: turn.answer_permission(state, request_id))

    # Compaction.

    async def compact(
        self, before: Sequence[Message], after: Sequence[Message], *, begun_at: int, in_turn: bool = False
    ) -> int:
        """Go on with `after` instead of `before`; return how many messages were archived.

        `begun_at` is `state.live.next_place` when the compaction began. New messages get an id. A compaction that began
        during a turn is not committed if the turn was cancelled meanwhile.
        """
        commit = self.commit_in_turn if in_turn else self.commit
        known = [message for message in before if "id" not in message]
        named = [
            message if "id" in message or message in known else {**message, "id": self.new_id()} for message in after
        ]
        return await commit(lambda state: lifecycle.compact(state, before, named, begun_at=begun_at))

    # Reminders of this process.

    async def inject(self, draft: Draft, *, source: Source, provider_id: str | None = None) -> Injection:
        """Make a reminder of a hook or a provider live at once."""
        reminder_id = ReminderId(self.new_id())
        provenance = Provenance(provider_id=provider_id)
        return await self.commit(
            lambda state: lifecycle.inject(
                state, draft, provenance, reminder_id=reminder_id, source=source, limits=self.limits
            )
        )

    def has_capacity(self, draft: Draft, *, beside: int) -> bool:
        """Whether this reminder can become live together with `beside` others."""
        return accept.has_capacity(self.state, draft, IN_PROCESS, self.limits, beside=beside)

    def note(self, *events: Event) -> None:
        """Let the next commit write these events, which change no state and are not worth a commit of their own."""
        self._notes.extend(events)

    async def write_notes(self) -> None:
        """Write the notes now, without a lease, because no other commit may follow."""
        if self._notes:
            notes, self._notes = self._notes, []
            await self.write(lambda state: Decided(() if state.closed else notes, None))
