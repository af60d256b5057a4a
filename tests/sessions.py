"""A session in memory: each decision of the core is written to its journal and applied, as a store would do it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from sideband.core.accept import (
    Accepted,
    RevokeStatus,
    Selector,
    accept,
    accept_message,
    clear,
    issue_grant,
    replace_message,
    replace_reminder,
    revoke_message,
    revoke_reminder,
)
from sideband.core.apply import apply
from sideband.core.drain import drain, start_queued
from sideband.core.errors import RateLimited
from sideband.core.events import Checkpoint, Compacted, Deleted, Dropped, DropReason, Event, InboxItem
from sideband.core.inbox import Receipt, receipt_in
from sideband.core.lifecycle import go_live, plan_compaction
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.messages import Message
from sideband.core.reminder import Draft, Reminder
from sideband.core.seams import InjectMode, Seam
from sideband.core.state import Decided, SessionState
from sideband.core.trust import IN_PROCESS, Grant, Provenance, Trust, TrustPolicy
from sideband.core.turn import (
    OpenedTurn,
    PlannedRequest,
    Shown,
    begin,
    close,
    close_turn,
    delete,
    open_request,
    record,
    repeat_request,
    void_turn,
)
from tests.builders import a_text, counting_ids

CLIENT = Provenance(trust=Trust.CONTROLLER, principal="editor", via="acp")
PEER = Provenance(trust=Trust.PEER, principal="planner", via="a2a")
SERVER = Provenance(trust=Trust.SERVER, principal="watcher", via="mcp")

ValueT = TypeVar("ValueT")


class Drained(NamedTuple):
    """What a drain took, and the events it committed."""

    taken: tuple[InboxItem, ...]
    events: tuple[Event, ...]

    @property
    def dispatch_skipped(self) -> bool:
        return any(isinstance(event, Checkpoint) and event.dispatch_skipped for event in self.events)


class Session:
    """Commits decisions of the core; `journal` has every event, `state` is the result of applying them.

    A process holds its lease, as it does while a run lasts.
    """

    def __init__(self) -> None:
        self.state = SessionState()
        self.state.attended = True
        self.journal: list[Event] = []
        self.receipts: dict[str, Receipt] = {}
        self.new_id = counting_ids()

    @property
    def live_ids(self) -> list[str]:
        """The live reminders in transcript order."""
        return [item.id for item in self.state.live]

    @property
    def queued_ids(self) -> list[str]:
        """The inbox in acceptance order."""
        return [item.id for item in self.state.inbox.items()]

    def commit(self, events: Iterable[Event]) -> tuple[Event, ...]:
        committed = tuple(events)
        for event in committed:
            self.journal.append(event)
            apply(self.state, event)
            if isinstance(event, Deleted):
                self.receipts.clear()
            if (found := receipt_in(event)) is not None:
                self.receipts[found[0]] = found[1]
        return committed

    def decide(self, decided: Decided[ValueT]) -> ValueT:
        """Commit a decision and return its value."""
        self.commit(decided.events)
        return decided.value

    def inject(self, reminder: Reminder, provenance: Provenance = IN_PROCESS) -> tuple[Event, ...]:
        return self.commit(go_live(self.state, reminder, provenance))

    def accept(
        self,
        draft: Draft,
        provenance: Provenance = CLIENT,
        *,
        policy: TrustPolicy = TrustPolicy.CEILINGS,
        versioned: bool = False,
        now: int = 0,
        rate: RateLimited | None = None,
        limits: Limits = DEFAULT_LIMITS,
        new_id: str | None = None,
    ) -> Accepted:
        if draft.caller_id is not None:
            self.state.receipts = {draft.caller_id: self.receipts.get(draft.caller_id)}
        return self.decide(
            accept(
                self.state,
                draft,
                provenance,
                new_id=new_id or self.new_id(),
                limits=limits,
                policy=policy,
                versioned=versioned,
                now=now,
                rate=rate,
            )
        )

    def grant(self, grant: Grant) -> None:
        self.decide(issue_grant(self.state, grant, IN_PROCESS))

    def drain(self, seam: Seam = Seam.ITERATION_START, *, closing: bool = False) -> Drained:
        waiting = {item.id: item for item in self.state.inbox.items()}
        events, taken = drain(self.state, seam, closing=closing)
        return Drained(tuple(waiting[item_id] for item_id in taken), self.commit(events))

    def revoke(self, reminder_id: str, actor: Provenance = CLIENT) -> RevokeStatus:
        return self.decide(revoke_reminder(self.state, reminder_id, actor))

    def say(self, text: str, mode: InjectMode = InjectMode.STEER, provenance: Provenance = CLIENT) -> str:
        """Accept a user message and return its id."""
        new_id = self.new_id()
        return self.decide(
            accept_message(self.state, tuple(a_text(text)), mode, provenance, new_id=new_id, limits=DEFAULT_LIMITS)
        )

    def revoke_message(self, message_id: str, actor: Provenance = CLIENT) -> RevokeStatus:
        return self.decide(revoke_message(self.state, message_id, actor))

    def replace_message(self, message_id: str, text: str, actor: Provenance = CLIENT) -> tuple[Event, ...]:
        return self.commit(replace_message(self.state, message_id, tuple(a_text(text)), actor).events)

    def replace_reminder(self, reminder_id: str, body: str, actor: Provenance = CLIENT) -> tuple[Event, ...]:
        return self.commit(replace_reminder(self.state, reminder_id, body, actor).events)

    def start(self) -> tuple[Event, ...]:
        """Let the first queued message start a turn, if it may."""
        return self.commit(start_queued(self.state).events)

    def clear(self, selector: Selector, actor: Provenance = IN_PROCESS) -> tuple[Event, ...]:
        return self.commit(clear(self.state, selector, actor).events)

    def drop(self, reminder_id: str, reason: DropReason) -> tuple[Event, ...]:
        return self.commit([Dropped(reminder_id=reminder_id, reason=reason)])

    def send_request(self, *, left_out: Iterable[str] = (), attempt: int = 1) -> list[str]:
        """The request of the next turn leaves; return the live reminders it shows: all but those left out."""
        missing = frozenset(left_out)
        showing = [reminder_id for reminder_id in self.live_ids if reminder_id not in missing]
        if attempt > 1:
            self.decide(repeat_request(self.state, self.state.live.turn + 1, attempt=attempt))
            return showing
        shown = tuple(Shown(reminder_id, "system") for reminder_id in showing)
        self.commit(opened(self.state, PlannedRequest(shown=shown, left_out=tuple(sorted(missing)))))
        return showing

    def take_reply(self) -> tuple[Event, ...]:
        """Commit the reply to the open request."""
        assert self.state.request is not None
        return self.commit(close_turn(self.state, reply=None, usage=None).events)

    def void(self) -> tuple[Event, ...]:
        """The open request failed for good."""
        assert self.state.request is not None
        return self.commit(void_turn(self.state).events)

    def turn(self, *, left_out: Iterable[str] = ()) -> list[str]:
        """One request and its reply; return what it showed."""
        showing = self.send_request(left_out=left_out)
        self.take_reply()
        return showing

    def compact(self, *, archived_messages: int = 1) -> tuple[Event, ...]:
        """Archive this many messages, as a transcript without messages of its own would."""
        if not archived_messages:
            return ()
        compacted = Compacted(turn=self.state.live.turn, archived_messages=archived_messages)
        return self.commit((*plan_compaction(self.state).events, compacted))

    def close(self, reason: DropReason = DropReason.SESSION_CLOSED) -> tuple[Event, ...]:
        return self.commit(close(self.state, reason=reason).events)

    def begin(self, messages: Iterable[Message] = (), **records: object) -> bool:
        """Begin the session with these records and messages; return False if it exists already."""
        return self.decide(begin(self.state, attributes=records, messages=tuple(messages)))

    def record(self, **records: object) -> tuple[Event, ...]:
        return self.commit(record(self.state, records).events)

    def delete(self) -> tuple[Event, ...]:
        return self.commit(delete(self.state).events)


def opened(state: SessionState, planned: PlannedRequest) -> Sequence[Event]:
    """The events of a new request. Only a running session may send one, so this pretends that it runs."""
    running, state.running = state.running, True
    decided = open_request(state, state.basis, planned, repeats=False)
    state.running = running
    assert isinstance(decided.value, OpenedTurn)
    return decided.events
