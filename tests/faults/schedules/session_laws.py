"""Laws of sessions: how runs begin and end, what a cancel leaves alone, what the journal is worth."""

from collections.abc import Iterator

from sideband.core.apply import fold
from sideband.core.events import (
    Cancelled,
    Closed,
    Event,
    Idled,
    InjectDelivered,
    Injected,
    PermissionAsked,
    PermissionReplied,
    ResultRecorded,
    Started,
    TurnCommitted,
    TurnVoided,
)
from sideband.core.seams import MAX_CLOSING_ITERATIONS, Seam
from sideband.core.topic import KINDS
from sideband.loop.run import LoopStatus
from tests.faults.schedules.history import History
from tests.faults.schedules.records import RunRecord
from tests.unit.core.state_checks import check_indexes, equal_states, from_json


def an_idle_session_has_nothing_left_to_take(history: History) -> Iterator[str]:
    """A run that is through goes idle in the commit that finds nothing: an accept comes before it or is refused."""
    cut_short = [run for run in history.world.runs if _was_cut_short(run)]
    for at, _ in history.of(Idled):
        if any(at == _last_idle(history, run) for run in cut_short) or _has_closed_often_enough(history, at):
            continue
        left = [item.id for item in history.items.values() if item.steers and item.waits(at)]
        if left:
            yield f"the session went idle at {at} while {left} waited for the running turn"


def _was_cut_short(run: RunRecord) -> bool:
    """What is left then stands in its result, if it has one."""
    result = run.result
    return result is None or result.status is not LoopStatus.COMPLETED or result.turns == run.max_turns


def _last_idle(history: History, run: RunRecord) -> int:
    return max((at for at, _ in history.of(Idled) if run.began <= at < run.ended), default=-1)


def _has_closed_often_enough(history: History, at: int) -> bool:
    """The closing drain or a hook on `pre_finish` has added an iteration as often as they may."""
    replies = [event.reply or {} for place, event in history.of(TurnCommitted) if place < at]
    last = replies[-MAX_CLOSING_ITERATIONS - 1 :]
    return len(last) > MAX_CLOSING_ITERATIONS and not any(reply.get("tool_calls") for reply in last)


def a_cancel_leaves_the_inbox_alone(history: History) -> Iterator[str]:
    """It ends the turn and nothing else; nothing starts or is delivered after it until a run begins.

    A prompt that is cancelled before its turn is started and delivered in the same commit.
    """
    begun = [run.began for run in history.world.runs]
    cancelled: int | None = None
    for start, commit in history.commits():
        if any(isinstance(event, Cancelled) for event in commit):
            other = [event for event in commit if not isinstance(event, Cancelled | ResultRecorded | TurnVoided)]
            match other:
                case [] | [Started(), InjectDelivered()]:
                    pass
                case _:
                    yield f"a cancel committed {other}"
            cancelled = start
        elif cancelled is not None and not any(cancelled < began <= start for began in begun):
            for event in commit:
                if isinstance(event, Started) or _is_delivery(event):
                    yield f"{event} came after the cancel at {cancelled}"


def _is_delivery(event: Event) -> bool:
    """Whether it is one to the model: what is only for the record is taken at every exit."""
    match event:
        case InjectDelivered(audit_only=False) | Injected(seam=Seam()):
            return True
        case _:
            return False


def a_steer_is_held_while_permission_is_asked(history: History) -> Iterator[str]:
    asked: set[str] = set()
    for _, event in history.of(PermissionAsked, PermissionReplied, Cancelled, InjectDelivered):
        match event:
            case PermissionAsked(request_id=request_id):
                asked.add(request_id)
            case PermissionReplied(request_id=request_id):
                asked.discard(request_id)
            case Cancelled():
                asked.clear()
            case InjectDelivered(message_id=item_id):
                if asked and history.items[item_id].steers:
                    yield f"{item_id} was delivered while {sorted(asked)} were open"


def a_run_leaves_nothing_open(history: History) -> Iterator[str]:
    for run in history.world.runs:
        if run.left_open:
            yield f"a run left {', '.join(run.left_open)}"


def turns_count_from_one(history: History) -> Iterator[str]:
    turns = [event.turn for _, event in history.of(TurnCommitted)]
    if turns != list(range(1, len(turns) + 1)):
        yield f"the turns {turns} were committed"


def a_closed_session_is_over(history: History) -> Iterator[str]:
    closed = [at for at, _ in history.of(Closed)]
    if closed != [len(history.events) - 1]:
        yield f"closed at {closed}, and then came {history.events[min(closed, default=0) + 1 :]}"


def the_journal_is_the_state(history: History) -> Iterator[str]:
    """Folding it gives the state; its sequence has no gap."""
    store = history.world.store
    sequence = [logged.sequence for logged in store.journal]
    if sequence != list(range(1, len(sequence) + 1)):
        yield f"the sequence is {sequence}"
    # Reading it from JSON, as recovery does, is slow: some schedules will do.
    thorough = len(sequence) % 16 == 0
    folded = fold(map(from_json, history.events) if thorough else history.events)
    state = store.state(history.world.session.id)
    # The store sets these for a decision; no event has them.
    folded.receipts = state.receipts
    if not equal_states(folded, state):
        yield "folding the journal gives another state"
    if thorough:
        check_indexes(folded)


def a_subscriber_sees_the_journal(history: History) -> Iterator[str]:
    """In its order, from its cursor on, without gap or repetition, also across a reconnect; in the end all of it."""
    journal = history.world.store.journal
    seen: dict[str, list[int]] = {}
    for watched in history.world.watched:
        mine = seen.setdefault(watched.kind_prefix, [])
        if watched.after != (mine[-1] if mine else 0):
            yield f"a subscriber resumed after {watched.after}"
        if any(journal[entry.sequence - 1] != entry for entry in watched.entries):
            yield f"after {watched.after} a subscriber saw what is not in the journal"
        mine.extend(entry.sequence for entry in watched.entries)
    for prefix, sequence in seen.items():
        wanted = [entry.sequence for entry in journal if KINDS.get(type(entry.event), "").startswith(prefix)]
        if sequence != wanted:
            yield f"of {wanted} a subscriber saw {sequence}"
