"""The core and the naive session side by side: what is done to one is done to the other, and both must agree."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import msgspec

from sideband.core.errors import ReminderError
from sideband.core.events import (
    Cancelled,
    DropReason,
    Fired,
    PermissionAsked,
    PermissionReplied,
    ResultRecorded,
    Started,
)
from sideband.core.inbox import (
    accept,
    accept_message,
    replace_message,
    revoke_message,
    revoke_reminder,
    turn_away,
)
from sideband.core.items import InboxItem, QueuedReminder
from sideband.core.lifecycle import Selector, Shown, compact, open_request, plan_compaction, repeat_request
from sideband.core.limits import Limits
from sideband.core.propagation import propagate, seed_child
from sideband.core.reminder import Reminder, Source
from sideband.core.seams import InjectMode, Seam
from sideband.core.state import SessionState, fold
from sideband.core.trust import Provenance, Trust
from tests.builders import a_draft, a_reminder
from tests.sessions import Session
from tests.unit.core.naive import NaiveSession, Note, Refused, Who
from tests.unit.core.replay import check_indexes, ends, equal_states, from_json

# Small enough to be reached; a body of 30 bytes is too long for whoever is not the session's own.
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
    """What came of it: an answer, or the word for why there was none."""
    try:
        return call()
    except (ReminderError, Refused) as refused:
        return f"refused: {refused.reason}"


def both(core: Callable[[], object], naive: Callable[[], object]) -> None:
    """The core does it, the naive session does it, and the answer is the same."""
    answer = outcome(core)
    assert answer == outcome(naive)


class Pair:
    """One session twice."""

    def __init__(self, agent_id: str) -> None:
        self.agent_id = agent_id
        self.core = Session()
        self.naive = NaiveSession(
            most=LIMITS.pending_per_session,
            for_interrupts=LIMITS.reserved_for_interrupts,
            most_from={level.value: most for level, most in LIMITS.pending_per_source.items()},
            longest_body={level.value: longest for level, longest in LIMITS.body_bytes.items()},
        )
        self._numbers = count(1)
        self._replayed, self._read = SessionState(), 0

    def new_id(self, kind: str) -> str:
        return f"{kind}{next(self._numbers)}"

    # The inbox.

    def accept(self, ask: Note, who: Who, caller_id: str | None = None) -> str:
        new_id, state = self.new_id("r"), self.core.state

        def accepted() -> tuple[str, int, dict[str, Any]]:
            draft = a_draft(**ask, caller_id=caller_id)
            answer = accept(
                state.inbox,
                draft,
                provenance_of(who),
                new_id=new_id,
                closed=state.closed,
                live=len(state.live),
                limits=LIMITS,
            )
            self.core.commit(answer.events)
            return answer.reminder_id, answer.deduped_count, answer.requested

        both(accepted, lambda: self.naive.accept(ask, who, new_id=new_id, caller_id=caller_id))
        return caller_id or new_id

    def accept_message(self, text: str, mode: InjectMode, who: Who) -> str:
        new_id, state = self.new_id("m"), self.core.state

        def accepted() -> None:
            events = accept_message(
                state.inbox,
                [{"type": "text", "text": text}],
                mode,
                provenance_of(who),
                new_id=new_id,
                running=state.running,
                closed=state.closed,
                limits=LIMITS,
            )
            self.core.commit(events)

        both(accepted, lambda: self.naive.accept_message(text, mode.value, who, new_id=new_id))
        return new_id

    def revoke(self, item: str, who: Who) -> None:
        """As a reminder and as a message: whatever it is, one of the two knows nothing of it."""

        def revoked(revoke: Callable[..., Any]) -> str:
            revocation = revoke(self.core.state.inbox, item, provenance_of(who))
            self.core.commit(revocation.events)
            return str(revocation.status)

        both(lambda: revoked(revoke_reminder), lambda: self.naive.revoke(item, "reminder", who))
        both(lambda: revoked(revoke_message), lambda: self.naive.revoke(item, "user", who))

    def replace(self, item: str, text: str, who: Who) -> None:
        def replaced() -> None:
            content = [{"type": "text", "text": text}]
            self.core.commit(replace_message(self.core.state.inbox, item, content, provenance_of(who)))

        both(replaced, lambda: self.naive.replace(item, text, who))

    def drain(self, seam: Seam, *, closing: bool = False) -> bool:
        """Tells whether a batch was skipped."""
        drained = self.core.drain(seam, closing=closing)
        assert [item.id for item in drained.taken] == self.naive.drain(seam.value, closing=closing)
        return drained.dispatch_skipped

    def dispatch_a_batch(self) -> None:
        """A skipped one has results too, which say so."""
        skipped = self.drain(Seam.PRE_TOOL_DISPATCH)
        message = {"role": "tool", "content": ""}
        self.core.commit([ResultRecorded(call_id="call", status="interrupted" if skipped else "ok", message=message)])
        if not skipped:
            self.naive.skipped = 0

    def start(self) -> None:
        self.core.start()
        self.naive.start()

    def turn_away(self, item: str) -> None:
        """What is refused at the door says nothing about what was accepted under the same id."""
        self.core.commit(turn_away(item, DropReason.RATE_LIMITED))

    # What is live.

    def inject(self, ask: Note, who: Who = THIS_PROCESS, *, travelled: int = 0) -> str:
        """By this process; what has `travelled` came from its own parent."""
        new_id = self.new_id(f"{self.agent_id}-")
        origin = {"source": Source.INHERITED, "originating_agent_id": "elder"} if travelled else {}
        fields = {name: value for name, value in ask.items() if name != "mode"}
        reminder = a_reminder(new_id, **fields, **origin, fired_at_turn=self.core.state.next_turn)
        provenance = msgspec.structs.replace(provenance_of(who), hops=travelled)
        self.core.inject(reminder, provenance)
        self.naive.go_live({**ask, **noted(reminder, provenance)})
        return new_id

    def inherit_from(self, parent: "Pair", *, hop: Trust) -> None:
        state = self.core.state
        handed, _ = propagate(parent.core.state.live, agent_id=parent.agent_id)
        events = seed_child(
            state.live,
            handed,
            sub_agent_id=self.agent_id,
            next_turn=state.next_turn,
            hop=hop,
            inbox=state.inbox,
        )
        self.core.commit(events)
        self.naive.inherit(parent.naive.handoff(parent.agent_id), hop=hop.value)

    def clear(self, selector: Mapping[str, str], who: Who) -> None:
        cleared = self.core.clear(Selector(**selector), provenance_of(who))
        assert len(cleared) == self.naive.clear(selector, who)

    def drop(self, item: str) -> None:
        self.core.drop(item, DropReason.CAPABILITY_MISMATCH)
        self.naive.drop(item, "capability_mismatch")

    # Turns and compactions.

    def send_request(self, *, too_much: set[int]) -> None:
        """The budget leaves out the live reminders at these places."""
        ids = self.core.live_ids
        shown = [item for place, item in enumerate(ids) if place not in too_much]
        left_out = [item for place, item in enumerate(ids) if place in too_much]
        turn = self.core.state.live.turn + 1
        self.core.commit(open_request(turn, [Shown(item, "system") for item in shown], left_out))
        self.naive.open_request(shown, left_out)

    def retry(self) -> None:
        request = self.core.state.request
        assert request is not None
        self.core.commit(repeat_request(request.turn, attempt=request.attempt + 1))

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

    def compact(self, *, archived: int, cleared_meanwhile: int | None = None) -> None:
        """While the compactor works, somebody may clear the live reminder at this place."""
        self.void_if_open()
        live = self.core.state.live
        plan = plan_compaction(live)
        if cleared_meanwhile is not None and live:
            self.clear({"id": self.core.live_ids[cleared_meanwhile % len(live)]}, THIS_PROCESS)
        self.core.commit(compact(live, plan, archived_messages=archived))
        if archived:
            self.naive.compact()

    # The run.

    def begin(self) -> None:
        self.core.commit([Started()])
        self.naive.running, self.naive.held = True, False

    def cancel(self, *, hold: bool) -> None:
        self.void_if_open()
        self.core.commit([Cancelled(hold_queue=hold)])
        self.naive.cancel(hold=hold)

    def permission(self, *, answered: bool) -> None:
        self.core.commit([PermissionReplied(request_id="q") if answered else PermissionAsked(request_id="q")])
        self.naive.asking = not answered

    def close(self) -> None:
        self.void_if_open()
        self.core.close()
        self.naive.close()

    # What must hold.

    def check_both_are_alike(self) -> None:
        core, naive = self.core.state, self.naive
        assert [noted_queued(item) for item in core.inbox.items()] == naive.queued
        live = [
            {
                **noted(core.live.current(item), item.provenance),
                "seen": item.first_turn is not None,
                "missed": item.left_out,
            }
            for item in core.live
        ]
        assert live == [without(note, "mode") for note in naive.live]
        audit = [noted(entry.reminder, entry.provenance) for entry in core.audit]
        assert audit == [without(note, "mode") for note in naive.audit]
        said = [message["content"][0]["text"] for message in core.messages if message["role"] == "user"]
        assert said == naive.said
        assert (core.live.turn, core.window, core.skipped_batches) == (naive.turn, naive.windows, naive.skipped)
        assert (core.running, core.queue_held, core.closed) == (naive.running, naive.held, naive.closed)
        assert core.permission_open == naive.asking
        assert (core.request is None) == (naive.request is None)
        fired = [(event.turn, event.reminder_id) for event in self.core.journal if isinstance(event, Fired)]
        assert fired == naive.fired

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
        """Whoever reads it from its beginning, as far as it goes, has this very session."""
        news = self.core.journal[self._read :]
        read_back = [from_json(event) for event in news]
        assert read_back == news
        fold(read_back, self._replayed)
        self._read += len(news)
        assert equal_states(self._replayed, self.core.state)
        check_indexes(self.core.state)


def noted(reminder: Reminder, provenance: Provenance) -> Note:
    """A record of the core, in the words of the naive session."""
    fields = msgspec.structs.asdict(reminder)
    fields["origin"] = fields.pop("originating_agent_id")
    who = Who(provenance.trust.value, provenance.principal)
    return {**fields, "kind": "reminder", "who": who, "hops": provenance.hops}


def noted_queued(item: InboxItem) -> Note:
    if isinstance(item, QueuedReminder):
        return {**noted(item.reminder, item.provenance), "mode": item.mode}
    return {
        "kind": "user",
        "id": item.id,
        "who": Who(item.provenance.trust.value, item.provenance.principal),
        "text": item.content[0]["text"],
        "mode": item.mode,
        "revision": item.revision,
    }


def without(note: Note, *names: str) -> Note:
    return {name: value for name, value in note.items() if name not in names}
