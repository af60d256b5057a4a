"""Laws of the journal of a session, whichever processes were killed and whatever failed while it was written."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple, TypeAlias

from sideband.core import snapshot
from sideband.core.apply import fold
from sideband.core.events import (
    AuditRecorded,
    Boundary,
    Checkpoint,
    Closed,
    Compacted,
    Deduped,
    Dropped,
    Event,
    Expired,
    ExpiryReason,
    InjectAccepted,
    InjectDelivered,
    Injected,
    InjectReplaced,
    InjectRevoked,
    Queued,
    Revoked,
    Started,
)
from sideband.ports import Journal
from tests.decisions import saying
from tests.faults import turn_laws
from tests.faults.turn_laws import text_of
from tests.faults.witness import Witness

Law: TypeAlias = Callable[[Sequence[Event], Witness], Iterator[str]]


# Items.


def nothing_acknowledged_is_lost(events: Sequence[Event], witness: Witness) -> Iterator[str]:
    """Every acknowledged item is in the journal, with its text."""
    accepted = {item_id: text for event in events for item_id, text in _accepted(event)}
    revoked = {item_id for event in events for item_id in _revoked(event)}
    for item_id, text in witness.accepted.items():
        if accepted.get(item_id) != text:
            yield f"{item_id} was accepted as {text!r}, and the journal has {accepted.get(item_id)!r}"
    if lost := witness.revoked - revoked:
        yield f"{sorted(lost)} were revoked, and the journal does not know"
    if lied := witness.delivered & revoked:
        yield f"{sorted(lied)} were called delivered, and were revoked"
    texts = {(event.message_id, text_of(event.content)) for event in events if isinstance(event, InjectReplaced)}
    if missing := witness.replaced.items() - texts:
        yield f"{sorted(missing)} were replaced, and the journal does not know"
    cleared = sum(isinstance(event, Expired) and event.reason is ExpiryReason.CLEARED for event in events)
    if cleared < witness.cleared:
        yield f"{witness.cleared} were cleared, the journal has {cleared}"


def _accepted(event: Event) -> Iterator[tuple[str, str]]:
    if isinstance(event, Queued):
        yield event.item.id, event.item.reminder.body
    elif isinstance(event, InjectAccepted):
        yield event.item.id, text_of(event.item.content)


def _revoked(event: Event) -> Iterator[str]:
    if isinstance(event, Revoked):
        yield event.reminder_id
    elif isinstance(event, InjectRevoked) and event.reason is None:
        yield event.message_id


class _Step(NamedTuple):
    """A step of an item: it begins, becomes live, or ends; each happens at most once."""

    item_id: str
    what: str


def _steps(event: Event) -> Iterator[_Step]:
    match event:
        case Queued() | InjectAccepted():
            yield _Step(event.item.id, "begins")
        case Injected():
            yield _Step(event.reminder.id, "goes live")
        case InjectDelivered() | InjectRevoked():
            yield _Step(event.message_id, "ends")
        case Deduped():
            yield _Step(event.replaced_id, "ends")
        case AuditRecorded():
            yield _Step(event.reminder.id, "ends")
        case Expired() | Revoked():
            yield _Step(event.reminder_id, "ends")
        case Dropped() if not event.at_the_door:
            yield _Step(event.reminder_id, "ends")


def nothing_is_doubled(events: Sequence[Event], witness: Witness) -> Iterator[str]:
    """An item begins, goes live and ends at most once, in this order; once the session is closed it has ended."""
    steps = [step for event in events for step in _steps(event)]
    for step, times in Counter(steps).items():
        if times > 1:
            yield f"{step.item_id} {step.what} {times} times"
    begun: set[str] = set()
    ended: set[str] = set()
    for item_id, what in steps:
        if what == "begins":
            begun.add(item_id)
        elif item_id not in begun or item_id in ended:
            yield f"{item_id} {what} before it begins, or after it has ended"
        if what == "ends":
            ended.add(item_id)
    closed = any(isinstance(event, Closed) for event in events)
    if witness.closed and not closed:
        yield "the session was closed, and the journal does not know"
    if closed and begun != ended:
        yield f"{sorted(begun - ended)} have no end, and the session is closed"


def a_drain_is_whole(events: Sequence[Event], _witness: Witness) -> Iterator[str]:
    """Every item that a drain took precedes its checkpoint, and no other does; a message may also start a run."""
    taken: set[str] = set()
    starting: set[str] = set()
    before: Event | None = None
    for event in events:
        match event:
            case Injected(seam=seam) if seam is not None:
                taken.add(event.reminder.id)
            case InjectDelivered():
                (starting if isinstance(before, Started) else taken).add(event.message_id)
            case AuditRecorded():
                taken.add(event.reminder.id)
            case Checkpoint():
                if not taken <= set(event.ids) <= taken | starting:
                    yield f"a drain took {sorted(taken)}, its checkpoint has {event.ids}"
                taken, starting = set(), set()
        before = event
    if taken:
        yield f"{sorted(taken)} were taken, and there is no checkpoint"


def a_compaction_is_whole(events: Sequence[Event], _witness: Witness) -> Iterator[str]:
    """Reminders end for a compaction only in the commit of one."""
    ending = False
    for event in events:
        if isinstance(event, Expired | Deduped) and event.boundary is Boundary.PRE_COMPACT:
            ending = True
        elif ending and not isinstance(event, Compacted):
            yield f"reminders ended for a compaction, and there follows {event}"
            ending = False
        else:
            ending = False
    if ending:
        yield "reminders ended for a compaction, and there is none"


LAWS: Final[tuple[Law, ...]] = (
    nothing_acknowledged_is_lost,
    nothing_is_doubled,
    a_drain_is_whole,
    a_compaction_is_whole,
    turn_laws.turns_count_from_one,
    turn_laws.requests_leave_one_at_a_time,
    turn_laws.a_request_is_void_only_where_it_cannot_be_repeated,
    turn_laws.a_request_leaves_as_it_was_committed,
    turn_laws.a_tool_runs_at_most_once,
    turn_laws.a_call_ends_once,
    turn_laws.a_reminder_is_fired_once_in_a_turn,
    turn_laws.a_ttl_is_a_number_of_turns,
)


def broken(events: Sequence[Event], witness: Witness) -> list[str]:
    """Every law that this journal breaks, and how."""
    return [f"{law.__name__}: {found}" for law in LAWS for found in law(events, witness)]


async def journal_of(store: Journal, session_id: str) -> list[Event]:
    """All events of a session; the store as a whole has no gap, and shows what folding them gives."""
    async with aclosing(store.history()) as past:
        entries = [entry async for entry in past]
    assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1)), "the sequence has a gap"
    events = [entry.event for entry in entries if entry.session_id == session_id]
    await store.open(session_id)
    # Events of other processes may not be applied yet; after a commit they are.
    await store.commit(session_id, saying())
    assert snapshot.encode(store.state(session_id)) == snapshot.encode(fold(events)), "the state is not the journal's"
    return events
