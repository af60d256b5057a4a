"""The session as its loop handles it: every commit point is one method, and each is one decision."""

from collections.abc import Callable, Iterable, Sequence

from sideband.core import drain, lifecycle
from sideband.core.draft import Draft, mint
from sideband.core.events import (
    Equipped,
    Event,
    Idled,
    InjectAccepted,
    InjectDelivered,
    PermissionAsked,
    PermissionReplied,
    Started,
)
from sideband.core.inbox import check_body_size
from sideband.core.items import InboxItem, QueuedMessage
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.pending import live_beside
from sideband.core.reminder import Reminder, ReminderId, Source
from sideband.core.room import Room
from sideband.core.seams import InjectMode, Seam
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from sideband.loop import decisions
from sideband.loop.decisions import Build, Opened, cancelled, recorded, unfinished, voided
from sideband.loop.messages import read_call, reply_message, result_message, user_content
from sideband.ports import Decision, Journal, Lease, Message, Reply, ToolCall, ToolStatus


class Conversation:
    """One session of one agent, bound to the journal it lives in.

    While it runs, `lease` is the right to do so, and every commit carries it (None: nobody runs it here). `hold` is what
    keeps the state at hand: whatever opening the session has returned.
    """

    def __init__(
        self, journal: Journal, session_id: str, *, new_id: Callable[[], str], limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.journal = journal
        self.session_id = session_id
        self.new_id = new_id
        self.limits = limits
        self.lease: Lease | None = None
        self.hold: object = None
        self._noted: list[Event] = []

    @property
    def state(self) -> SessionState:
        """What the session knows now; read it, and change it by committing."""
        return self.journal.state(self.session_id)

    async def commit(self, decide: Decision) -> tuple[Event, ...]:
        """Decide on the state as it is in the commit, and apply what was decided. What was noted before goes first."""
        noted = self._noted
        if not noted:
            return (await self.journal.commit(self.session_id, decide, lease=self.lease)).events
        self._noted = []
        try:
            committed = await self.journal.commit(
                self.session_id, lambda state: (*noted, *decide(state)), lease=self.lease
            )
        except Exception:
            # A refusal has written nothing, the notes included.
            self._noted = [*noted, *self._noted]
            raise
        return committed.events[len(noted) :]

    async def accept(self, decide: Decision) -> tuple[Event, ...]:
        """The same for what anybody may send to the session, whoever runs it."""
        return (await self.journal.commit(self.session_id, decide)).events

    # Seams.

    async def drain(
        self, seam: Seam, *, closing: bool = False, starting: bool = False, calls: Sequence[ToolCall] = ()
    ) -> tuple[InboxItem, ...]:
        """Take what this seam takes. Between a reply and its tools, what is taken stands for the results of `calls`.

        With `starting`, what is taken makes an idle session run, in the same commit.
        """
        if not closing and self.journal.nothing_waits(self.session_id):
            return ()
        return await self._drain(seam, closing=closing, starting=starting, calls=calls)

    async def _drain(
        self, seam: Seam, *, closing: bool, starting: bool, calls: Sequence[ToolCall]
    ) -> tuple[InboxItem, ...]:
        taken: tuple[InboxItem, ...] = ()

        def decide(state: SessionState) -> Iterable[Event]:
            nonlocal taken
            taken, events = decisions.take(state, seam, closing=closing, starting=starting, calls=calls)
            return events

        await self.commit(decide)
        return taken

    async def skip(self, calls: Sequence[ToolCall]) -> bool:
        """Let an interrupt keep these calls from running though no request will show it: it waits on, for the next run."""
        if self.journal.nothing_waits(self.session_id):
            return False
        return bool(await self.commit(lambda state: decisions.skip(state, calls)))

    async def start_queued(self, *, even_held: bool = False) -> bool:
        """Let the next queued message start a turn; False where none may. A cancel may hold them all."""
        return bool(
            await self.commit(
                lambda state: drain.start(
                    state.inbox, running=state.running, queue_held=state.queue_held and not even_held
                )
            )
        )

    async def start_with(self, text: str) -> None:
        """Let this message start a turn, before all that is queued."""
        item = QueuedMessage(
            message_id=self.new_id(), content=user_content(text), mode=InjectMode.QUEUE, provenance=IN_PROCESS
        )

        def decide(state: SessionState) -> Iterable[Event]:
            decisions.refuse_closed(state)
            delivered = InjectDelivered(message_id=item.message_id, content=item.content)
            return (InjectAccepted(item=item), Started(), delivered)

        await self.commit(decide)

    async def wake(self) -> None:
        """Begin to run without a message, if there is anything to say."""
        await self.commit(decisions.wake)

    async def idle(self) -> None:
        """A run ends without a closing drain: it failed, or was asked to stop between turns."""
        await self.commit(lambda state: (Idled(),) if state.running else ())

    async def settle(self, *, hold_queue: bool) -> None:
        """A run is over, however it ended: nothing of it stays open. What ended in good order is left alone."""

        def decide(state: SessionState) -> Iterable[Event]:
            if state.request is not None or state.open_calls:
                return cancelled(state, hold_queue=hold_queue)
            return (Idled(),) if state.running else ()

        await self.commit(decide)

    async def cancel(self, *, hold_queue: bool) -> None:
        """The turn ends at a client's word; the inbox stays as it is."""
        await self.commit(lambda state: cancelled(state, hold_queue=hold_queue))

    async def finish_call(self) -> None:
        """A single call is over: a request without a reply never happened, and no tool will run."""

        def decide(state: SessionState) -> Iterable[Event]:
            yield from voided(state)
            yield from unfinished(state, ToolStatus.CANCELLED)
            yield Idled()

        await self.commit(decide)

    async def recover(self, *, may_repeat: Callable[[str], bool]) -> None:
        """End what a process that died has left open.

        Its calls are told as unknown, except those of the tools that may run again. Its request stays open: the next
        one is the same again, if nothing is said before.
        """

        def decide(state: SessionState) -> Iterable[Event]:
            yield from unfinished(state, ToolStatus.UNKNOWN, except_for=may_repeat)
            yield from (PermissionReplied(request_id=request_id) for request_id in state.permissions)
            if state.running:
                yield Idled()

        await self.commit(decide)

    async def equip(self, registered: Sequence[str]) -> Sequence[str]:
        """Note the ids of the hooks and providers of a run; which ones the last run had are missing in this one."""
        ids = tuple(registered)
        if self.state.equipped == ids:
            return ()
        missing = [known for known in self.state.equipped if known not in ids]
        await self.commit(lambda _: (Equipped(ids=ids),))
        return missing

    # Turns.

    async def open_request(self, build: Build) -> Opened:
        """What the request shows is on record before any byte of it leaves; it is built from the state of that commit.

        One that a dead process has left open is sent again as it was, if nothing has been said since.
        """
        opened: list[Opened] = []

        def decide(state: SessionState) -> Iterable[Event]:
            opened.append(decisions.open_request(state, build))
            return opened[-1].events

        await self.commit(decide)
        return opened[-1]

    async def retry_request(self, opened: Opened, *, attempt: int) -> bool:
        """The same request leaves once more; False where somebody has voided the turn meanwhile."""

        def decide(state: SessionState) -> Iterable[Event]:
            if state.request is None or state.request.turn != opened.turn:
                return ()
            return lifecycle.repeat_request(opened.turn, attempt=attempt)

        return bool(await self.commit(decide))

    async def close_turn(self, reply: Reply) -> bool:
        """The reply is in: the turn counts, and what it has shown ages, before tools add more.

        False where somebody has voided the turn meanwhile: another process may cancel it.
        """
        message = reply_message(reply)

        def decide(state: SessionState) -> Iterable[Event]:
            if state.request is None:
                return ()
            return lifecycle.close_turn(state.live, state.request, reply=message, usage=reply.usage)

        return bool(await self.commit(decide))

    async def void_turn(self) -> None:
        """The open request came to nothing."""
        await self.commit(voided)

    # Tools.

    async def record(self, call: ToolCall, status: ToolStatus, text: str, *, truncated: bool = False) -> None:
        """One call has ended; a second result for it is not recorded."""
        result = recorded(call, result_message(call, status, text, truncated=truncated))
        await self.commit(lambda state: (result,) if call.id in state.open_calls else ())

    def open_calls(self) -> list[ToolCall]:
        """The calls that have no result yet."""
        return [read_call(call) for call in self.state.open_calls.values()]

    async def ask_permission(self, request_id: str) -> None:
        await self.commit(lambda _: (PermissionAsked(request_id=request_id),))

    async def answer_permission(self, request_id: str) -> None:
        await self.commit(
            lambda state: (PermissionReplied(request_id=request_id),) if request_id in state.permissions else ()
        )

    # Compaction.

    async def compact(self, before: Sequence[Message], after: Sequence[Message]) -> int:
        """Go on with `after` instead of `before`, and end the reminders that do not survive it: how many were archived.

        Nothing happens where there was nothing to compact, or where the conversation is no longer `before`.
        """
        archived = decisions.archived(before, after)

        def decide(state: SessionState) -> Iterable[Event]:
            if state.request is not None or state.open_calls or list(before) != state.messages:
                return ()
            plan = lifecycle.plan_compaction(state.live)
            return lifecycle.compact(state.live, plan, archived_messages=archived, messages=tuple(after))

        return archived if await self.commit(decide) else 0

    # Reminders from this process.

    async def inject(self, draft: Draft, *, source: Source, provider_id: str | None = None) -> tuple[Reminder, int]:
        """A reminder of a hook or a provider is live at once; with it, how many of its key it replaced."""
        check_body_size(draft, Trust.OPERATOR, self.limits)
        provenance = Provenance(provider_id=provider_id)
        reminder_id = ReminderId(self.new_id())
        minted: list[Reminder] = []

        def decide(state: SessionState) -> Iterable[Event]:
            minted.append(mint(draft, reminder_id=reminder_id, source=source, fired_at_turn=state.next_turn))
            return decisions.inject(state, minted[-1], provenance, self.limits)

        events = await self.commit(decide)
        return minted[-1], len(events) - 1

    def has_room(self, draft: Draft, *, beside: int) -> bool:
        """Whether one more may become live, when so many others do."""
        live = live_beside(self.state.live, IN_PROCESS, draft.dedupe_key)
        return live + self.state.inbox.count_in(Room.REMINDERS) + beside < self.limits.pending_per_session

    def note(self, *events: Event) -> None:
        """Let the next commit write down what changes no state (an evaluation, for instance): it is worth none itself."""
        self._noted.extend(events)

    async def write_notes(self) -> None:
        """Do not wait for another commit: none may follow. A note is nobody's turn, and needs no lease."""
        if self._noted:
            noted, self._noted = self._noted, []
            await self.accept(lambda _: noted)
