"""A session in memory: what is decided is written to its journal and applied, as a store would do it."""

from collections.abc import Iterable

from sideband.core.draft import Draft
from sideband.core.drain import Drain, close, drain, start
from sideband.core.events import Dropped, DropReason, Event, InjectAccepted
from sideband.core.inbox import (
    Accepted,
    RevokeStatus,
    accept,
    accept_message,
    replace_message,
    revoke_message,
    revoke_reminder,
)
from sideband.core.lifecycle import (
    Selector,
    Shown,
    clear,
    close_turn,
    compact,
    inject,
    open_request,
    plan_compaction,
    repeat_request,
    void_turn,
)
from sideband.core.reminder import Reminder
from sideband.core.seams import InjectMode, Seam
from sideband.core.state import SessionState, apply
from sideband.core.trust import IN_PROCESS, Ceiling, Provenance, Trust
from tests.builders import a_text, counting_ids

CLIENT = Provenance(trust=Trust.CONTROLLER, principal="editor", via="acp")
PEER = Provenance(trust=Trust.PEER, principal="planner", via="a2a")
SERVER = Provenance(trust=Trust.SERVER, principal="watcher", via="mcp")


class Session:
    """The decisions of the core in a row; `journal` has every event, `state` is what applying them gave."""

    def __init__(self) -> None:
        self.state = SessionState()
        self.journal: list[Event] = []
        self.new_id = counting_ids()

    @property
    def live_ids(self) -> list[str]:
        """The live reminders in transcript order."""
        return [item.id for item in self.state.live]

    @property
    def queued_ids(self) -> list[str]:
        """What waits in the inbox, in acceptance order."""
        return [item.id for item in self.state.inbox.items()]

    def commit(self, events: Iterable[Event]) -> tuple[Event, ...]:
        committed = tuple(events)
        for event in committed:
            self.journal.append(event)
            apply(self.state, event)
        return committed

    def inject(self, reminder: Reminder, provenance: Provenance = IN_PROCESS) -> tuple[Event, ...]:
        return self.commit(inject(self.state.live, reminder, provenance))

    def accept(self, draft: Draft, provenance: Provenance = CLIENT, *, ceiling: Ceiling | None = None) -> Accepted:
        accepted = accept(
            self.state.inbox, draft, provenance, new_id=self.new_id(), closed=self.state.closed, ceiling=ceiling
        )
        self.commit(accepted.events)
        return accepted

    def drain(self, seam: Seam = Seam.ITERATION_START, *, closing: bool = False) -> Drain:
        drained = drain(
            self.state.inbox,
            self.state.live,
            seam,
            next_turn=self.state.next_turn,
            skipped_batches=self.state.skipped_batches,
            permission_open=self.state.permission_open,
            closing=closing,
        )
        self.commit(drained.events)
        return drained

    def revoke(self, reminder_id: str, actor: Provenance = CLIENT) -> RevokeStatus:
        revocation = revoke_reminder(self.state.inbox, reminder_id, actor)
        self.commit(revocation.events)
        return revocation.status

    def say(self, text: str, mode: InjectMode = InjectMode.STEER, provenance: Provenance = CLIENT) -> str:
        """A user message is accepted; tells the id that was minted for it."""
        (accepted,) = self.commit(
            accept_message(
                self.state.inbox,
                a_text(text),
                mode,
                provenance,
                new_id=self.new_id(),
                running=self.state.running,
                closed=self.state.closed,
            )
        )
        assert isinstance(accepted, InjectAccepted)
        return accepted.item.message_id

    def revoke_message(self, message_id: str, actor: Provenance = CLIENT) -> RevokeStatus:
        revocation = revoke_message(self.state.inbox, message_id, actor)
        self.commit(revocation.events)
        return revocation.status

    def replace_message(self, message_id: str, text: str, actor: Provenance = CLIENT) -> tuple[Event, ...]:
        return self.commit(replace_message(self.state.inbox, message_id, a_text(text), actor))

    def start(self) -> tuple[Event, ...]:
        """The next queued message starts a turn, if one may."""
        return self.commit(start(self.state.inbox, running=self.state.running, queue_held=self.state.queue_held))

    def clear(self, selector: Selector, actor: Provenance = IN_PROCESS) -> tuple[Event, ...]:
        return self.commit(clear(self.state.live, selector, actor))

    def drop(self, reminder_id: str, reason: DropReason) -> tuple[Event, ...]:
        """End a live reminder as a request does that finds it unusable."""
        live = reminder_id in self.state.live
        return self.commit((Dropped(reminder_id=reminder_id, reason=reason),) if live else ())

    def send_request(self, *, left_out: Iterable[str] = (), attempt: int = 1) -> list[str]:
        """The request of the next turn leaves; it shows every live reminder but those left out, and those are told."""
        missing = frozenset(left_out)
        showing = [reminder_id for reminder_id in self.live_ids if reminder_id not in missing]
        turn = self.state.live.turn + 1
        shown = [Shown(reminder_id, "system") for reminder_id in showing]
        if attempt > 1:
            self.commit(repeat_request(turn, attempt=attempt))
        else:
            self.commit(open_request(turn, shown, sorted(missing)))
        return showing

    def take_reply(self) -> tuple[Event, ...]:
        """The reply to the open request is in."""
        assert self.state.request is not None
        return self.commit(close_turn(self.state.live, self.state.request))

    def void(self) -> tuple[Event, ...]:
        """The open request came to nothing."""
        assert self.state.request is not None
        return self.commit(void_turn(self.state.request))

    def turn(self, *, left_out: Iterable[str] = ()) -> list[str]:
        """One request and its reply; tells what it showed."""
        showing = self.send_request(left_out=left_out)
        self.take_reply()
        return showing

    def compact(self, *, archived_messages: int = 1) -> tuple[Event, ...]:
        plan = plan_compaction(self.state.live)
        return self.commit(compact(self.state.live, plan, archived_messages=archived_messages))

    def close(self) -> tuple[Event, ...]:
        return self.commit(close(self.state.inbox, self.state.live))
