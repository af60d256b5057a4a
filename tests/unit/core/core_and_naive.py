"""The core and the naive session side by side: what is done to one is done to the other, and both must agree."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import msgspec

from sideband.core.accept import Selector, accept_message, replace_message, revoke_message, revoke_reminder
from sideband.core.apply import fold
from sideband.core.errors import RateLimited, ReminderError
from sideband.core.events import (
    Cancelled,
    Dropped,
    DropReason,
    Fired,
    PermissionAsked,
    PermissionReplied,
    ResultRecorded,
    Started,
)
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.propagation import propagate, seed_child
from sideband.core.reminder import Source
from sideband.core.seams import InjectMode, Seam
from sideband.core.state import SessionState
from sideband.core.trust import Provenance, Trust
from tests.builders import a_draft, a_reminder
from tests.naive_session import NaiveSession, Note, Refused, Reply, Who
from tests.naive_views import core_view, naive_view, noted
from tests.sessions import Session
from tests.unit.core.state_checks import check_indexes, ends, equal_states, from_json

# Small enough to be reached. A body of 30 bytes is too long for peers and servers.
LIMITS = Limits(
    pending_per_session=7,
    reserved_for_interrupts=1,
    pending_per_source={Trust.CONTROLLER: 3, Trust.PEER: 2, Trust.SERVER: 1},
    body_bytes={Trust.OPERATOR: 40, Trust.CONTROLLER: 40, Trust.PEER: 20, Trust.SERVER: 20},
)

THIS_PROCESS = Who(0, None)


def provenance_of(who: Who) -> Provenance:
    return Provenance(trust=Trust(who.level), principal=who.name)


def outcome(call: Callable[[], object]) -> object:
    """The reply, or the reason of the refusal."""
    try:
        return call()
    except (ReminderError, Refused) as refused:
        return f"refused: {refused.reason}"


def both(core: Callable[[], object], naive: Callable[[], object]) -> object:
    """Both give the same reply or the same refusal; return it."""
    answer = outcome(core)
    assert answer == outcome(naive)
    return answer


class Pair:
    """One session twice: in the core and as a naive session."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self.core = Session()
        self.naive = NaiveSession(LIMITS)
        self._numbers = count(1)
        self._replayed, self._read = SessionState(), 0
        self._replayed.attended = True

    def new_id(self, kind: str) -> str:
        return f"{kind}{next(self._numbers)}"

    # The inbox.

    def accept(
        self,
        ask: Note,
        who: Who,
        caller_id: str | None = None,
        *,
        versioned: bool = False,
        has_token: bool = True,
    ) -> str:
        """Return the id that the reminder has, or would have had if it was refused."""
        new_id, now = self.new_id("r"), next(self._numbers)

        def accepted() -> Reply:
            got = self.core.accept(
                a_draft(**ask, caller_id=caller_id),
                provenance_of(who),
                versioned=versioned,
                now=now,
                rate=None if has_token else RateLimited(retry_after_ms=1),
                limits=LIMITS,
                new_id=new_id,
            )
            return Reply(
                got.reminder_id, got.deduped_count, got.requested, got.accepted_at, got.version, is_free=got.is_free
            )

        def expected() -> Reply:
            return self.naive.accept(
                ask,
                who,
                new_id=new_id,
                caller_id=caller_id,
                versioned=versioned,
                now=now,
                has_token=has_token,
            )

        reply = both(accepted, expected)
        return reply.id if isinstance(reply, Reply) else caller_id or new_id

    def accept_message(self, text: str, mode: InjectMode, who: Who, *, has_token: bool = True) -> str:
        new_id, state = self.new_id("m"), self.core.state

        def accepted() -> None:
            content = ({"type": "text", "text": text},)
            rate = None if has_token else RateLimited(retry_after_ms=1)
            self.core.decide(
                accept_message(state, content, mode, provenance_of(who), new_id=new_id, limits=LIMITS, rate=rate)
            )

        both(accepted, lambda: self.naive.accept_message(text, mode.value, who, new_id=new_id, has_token=has_token))
        return new_id

    def revoke(self, item: str, who: Who) -> None:
        """Revoke it as a reminder and as a message; one of the two refuses."""

        def revoked(revoke: Callable[..., Any]) -> str:
            return str(self.core.decide(revoke(self.core.state, item, provenance_of(who))))

        both(lambda: revoked(revoke_reminder), lambda: self.naive.revoke(item, "reminder", who))
        both(lambda: revoked(revoke_message), lambda: self.naive.revoke(item, "user", who))

    def replace(self, item: str, text: str, who: Who) -> None:
        def replaced() -> None:
            content = ({"type": "text", "text": text},)
            self.core.decide(replace_message(self.core.state, item, content, provenance_of(who)))

        both(replaced, lambda: self.naive.replace(item, text, who))

    def replace_reminder(self, item: str, body: str, who: Who) -> None:
        def replaced() -> None:
            self.core.replace_reminder(item, body, provenance_of(who))

        both(replaced, lambda: self.naive.replace_reminder(item, body, who))

    def drain(self, seam: Seam, *, closing: bool = False) -> bool:
        """Return whether a batch was skipped."""
        drained = self.core.drain(seam, closing=closing)
        assert [item.id for item in drained.taken] == self.naive.drain(seam.value, closing=closing)
        return drained.dispatch_skipped

    def dispatch_a_batch(self) -> None:
        """Record a result; that of a skipped batch says so."""
        status = "interrupted" if self.drain(Seam.PRE_TOOL_DISPATCH) else "ok"
        message = {"role": "tool", "tool_call_id": "call", "status": status, "content": ""}
        self.core.commit([ResultRecorded(call_id="call", status=status, message=message)])
        self.naive.record_result("call", status)

    def start(self) -> None:
        self.core.start()
        self.naive.start()

    def turn_away(self, item: str) -> None:
        """A refusal at the door does not affect an item accepted under the same id."""
        self.core.commit([Dropped(reminder_id=item, reason=DropReason.RATE_LIMITED, at_the_door=True)])

    # What is live.

    def inject(self, ask: Note, who: Who = THIS_PROCESS, *, travelled: int = 0) -> str:
        """Injected by this process; `travelled` is the number of hops of an inherited reminder."""
        new_id = self.new_id(f"{self.agent_id}-")
        origin = {"source": Source.INHERITED, "originating_agent_id": "elder"} if travelled else {}
        fields = {name: value for name, value in ask.items() if name != "mode"}
        reminder = a_reminder(new_id, **fields, **origin, fired_at_turn=self.core.state.next_turn)
        provenance = msgspec.structs.replace(provenance_of(who), hops=travelled)
        self.core.inject(reminder, provenance)
        self.naive.go_live({**ask, **noted(reminder, provenance)})
        return new_id

    def inherit_from(self, parent: "Pair", *, hop: Trust) -> None:
        handed, _ = propagate(parent.core.state, agent_id=parent.agent_id, limits=DEFAULT_LIMITS)
        self.core.decide(seed_child(self.core.state, handed, sub_agent_id=self.agent_id, hop=hop))
        self.naive.inherit(parent.naive.handoff(parent.agent_id), hop=hop.value)

    def clear(self, selector: Mapping[str, str], who: Who) -> None:
        cleared = self.core.clear(Selector(**selector), provenance_of(who))
        assert len(cleared) == self.naive.clear(selector, who)

    def drop(self, item: str) -> None:
        if item in self.core.live_ids:
            self.core.drop(item, DropReason.CAPABILITY_MISMATCH)
        self.naive.drop(item, "capability_mismatch")

    # Turns and compactions.

    def send_request(self, *, too_much: set[int]) -> None:
        """The budget leaves out the live reminders at these places."""
        ids = self.core.live_ids
        shown = [item for place, item in enumerate(ids) if place not in too_much]
        left_out = [item for place, item in enumerate(ids) if place in too_much]
        self.core.send_request(left_out=left_out)
        self.naive.open_request(shown, left_out)

    def retry(self) -> None:
        request = self.core.state.request
        assert request is not None
        self.core.send_request(attempt=request.attempt + 1)
        self.naive.retry()

    def void(self) -> None:
        self.core.void()
        self.naive.void_turn()

    def take_reply(self) -> None:
        self.core.take_reply()
        self.naive.commit_turn()

    def turn(self, *, too_much: set[int]) -> None:
        self.send_request(too_much=too_much)
        self.take_reply()

    def void_if_open(self) -> None:
        if self.core.state.request is not None:
            self.void()

    def compact(self, *, archived: int) -> None:
        self.void_if_open()
        self.core.compact(archived_messages=archived)
        if archived:
            self.naive.compact()

    # The run.

    def begin(self) -> None:
        self.core.commit([Started()])
        self.naive.begin()

    def cancel(self, *, hold: bool) -> None:
        self.void_if_open()
        self.core.commit([Cancelled(hold_queue=hold)])
        self.naive.cancel(hold=hold)

    def permission(self, *, answered: bool) -> None:
        self.core.commit([PermissionReplied(request_id="q") if answered else PermissionAsked(request_id="q")])
        self.naive.asking = not answered

    def close(self, reason: DropReason = DropReason.SESSION_CLOSED) -> None:
        self.void_if_open()
        self.core.close(reason)
        self.naive.close(reason.value)

    # The session.

    def begin_session(self, text: str, **records: object) -> None:
        """Begin the session; this changes nothing if it exists."""
        existed = self.core.state.exists
        assert (
            self.core.begin([{"role": "user", "content": [{"type": "text", "text": text}]}], **records) is not existed
        )
        if not existed:
            self.naive.begin_session(records, [f"user {text}"])

    def record(self, name: str, value: object) -> None:
        both(lambda: bool(self.core.record(**{name: value})), lambda: self._naive_record(name, value))

    def _naive_record(self, name: str, value: object) -> bool:
        before = self.naive.records
        self.naive.record(name, value)
        return before != self.naive.records

    def delete(self) -> None:
        """Nothing is left of a deleted session, and all its items have ended."""
        existed = self.core.state.exists
        self.core.delete()
        if not existed:
            return
        if self.naive.ended is None:
            self.naive.close()
        self.check_each_ended_once()
        self.check_the_journal_tells_it_all()
        self.core.journal.clear()
        self._read = 0
        self.naive = NaiveSession(LIMITS)
        self.naive.deleted = True

    # What must hold.

    def check_both_are_alike(self) -> None:
        assert core_view(self.core.state) == naive_view(self.naive)
        fired = [(event.turn, event.reminder_id) for event in self.core.journal if isinstance(event, Fired)]
        assert fired == self.naive.fired

    def check_each_ended_once(self) -> None:
        assert ends(self.core.journal) == {item: [fate] for item, fate in self.naive.fates.items()}

    def check_each_key_is_live_once(self) -> None:
        taken = [
            (item.provenance.namespace, item.reminder.dedupe_key)
            for item in self.core.state.live
            if item.reminder.dedupe_key is not None
        ]
        assert len(set(taken)) == len(taken)

    def check_the_journal_tells_it_all(self) -> None:
        """Folding the journal from its beginning gives this session."""
        news = self.core.journal[self._read :]
        read_back = [from_json(event) for event in news]
        assert read_back == news
        fold(read_back, self._replayed)
        self._read += len(news)
        assert equal_states(self._replayed, self.core.state)
        check_indexes(self.core.state)
