"""Histories of a session for tests of what its observers are told: decisions of every kind, in any order."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from sideband.core import accept, drain, lifecycle, turn
from sideband.core.accept import Selector
from sideband.core.errors import ReminderError
from sideband.core.events import (
    DropReason,
    Equipped,
    Event,
    InboxItem,
    PermissionAsked,
    ProviderEvaluated,
    QueuedMessage,
    QueuedReminder,
    Usage,
)
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.messages import ToolStatus, read_call, result_message
from sideband.core.reminder import Propagate
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS, Grant, GrantField, Provenance, Trust
from sideband.core.turn import PlannedRequest, Shown, Unusable
from sideband.core.updates import Viewer
from tests.builders import a_draft, a_reminder, a_text

EDITOR: Final = Provenance(trust=Trust.CONTROLLER, principal="editor")
# A peer and a server share a name, and are two principals all the same.
ANN: Final = Provenance(trust=Trust.PEER, principal="ann")
BOB: Final = Provenance(trust=Trust.PEER, principal="bob")
SERVER: Final = Provenance(trust=Trust.SERVER, principal="ann")
EVERYBODY: Final = (IN_PROCESS, EDITOR, ANN, BOB, SERVER)
VIEWERS: Final = {
    "operator": Viewer(),
    "controller": Viewer(provenance=EDITOR),
    "peer": Viewer(provenance=ANN),
    "other peer": Viewer(provenance=BOB),
    "server": Viewer(provenance=SERVER),
    "peer that sees all": Viewer(provenance=ANN, sees_all=True),
}

# What happens next; the string is an id that was not used before.
Happening: TypeAlias = Callable[[SessionState, str], Sequence[Event]]


def committed(state: SessionState, happens: Happening, new_id: str) -> tuple[Event, ...]:
    """The events of what happens; none if the session refuses it."""
    try:
        return tuple(happens(state, new_id))
    except ReminderError:
        return ()


# Reminders.


def tell(state: SessionState, new_id: str, *, who: Provenance, **fields: object) -> Sequence[Event]:
    draft = a_draft(body=f"body of {new_id}", **fields)
    return accept.accept(state, draft, who, new_id=new_id, limits=DEFAULT_LIMITS).events


def add(state: SessionState, new_id: str, *, key: str | None, ttl: int | None) -> Sequence[Event]:
    """A hook makes a reminder live."""
    if state.closed or state.deleted:
        return ()
    return lifecycle.go_live(state, a_reminder(new_id, dedupe_key=key, ttl_turns=ttl), IN_PROCESS)


def inherit(state: SessionState, new_id: str, *, who: Provenance) -> Sequence[Event]:
    if state.closed or state.deleted:
        return ()
    reminder = a_reminder(new_id, propagate=Propagate.ALL, originating_agent_id="parent")
    return lifecycle.inherit(state, reminder, who, sub_agent_id="child")


def revoke(state: SessionState, _new_id: str, *, place: int) -> Sequence[Event]:
    item = _nth(state, InboxItem, place)
    return () if item is None else accept.revoke(state, item.id, IN_PROCESS).events


def replace(state: SessionState, new_id: str, *, place: int) -> Sequence[Event]:
    item = _nth(state, InboxItem, place)
    match item:
        case QueuedReminder():
            return accept.replace_reminder(state, item.id, f"body of {new_id}", IN_PROCESS).events
        case QueuedMessage():
            return accept.replace_message(state, item.id, tuple(a_text(new_id)), IN_PROCESS).events
        case _:
            return ()


def _nth(state: SessionState, kind: Any, place: int) -> InboxItem | None:  # noqa: ANN401 - a class or a union
    found = [item for item in state.inbox.items() if isinstance(item, kind)]
    return found[place % len(found)] if found else None


def clear(state: SessionState, _new_id: str, *, who: Provenance, **selector: str) -> Sequence[Event]:
    return accept.clear(state, Selector(**selector), who).events


def evaluate(_state: SessionState, _new_id: str) -> Sequence[Event]:
    return (ProviderEvaluated(provider_id="mine", event_name="post_turn", fired=True),)


# Messages, turns and tools.


def say(state: SessionState, new_id: str, *, mode: InjectMode) -> Sequence[Event]:
    content = tuple(a_text(new_id))
    return accept.accept_message(state, content, mode, EDITOR, new_id=new_id, limits=DEFAULT_LIMITS).events


def start(state: SessionState, _new_id: str) -> Sequence[Event]:
    return () if state.closed else drain.start_queued(state).events or drain.wake(state).events


def take(state: SessionState, _new_id: str, *, seam: Seam, closing: bool = False) -> Sequence[Event]:
    return () if state.closed else drain.drain(state, seam, closing=closing and state.running).events


def request(state: SessionState, new_id: str, *, left_out: int, unusable: int, repeats: bool) -> Sequence[Event]:
    """A request that leaves out some of the live reminders, and for which some are unusable."""
    live = [item.id for item in state.live]
    out, bad = live[:left_out], live[left_out : left_out + unusable]
    planned = PlannedRequest(
        shown=tuple(Shown(reminder_id, "user") for reminder_id in live[left_out + unusable :]),
        left_out=tuple(out),
        unusable=tuple(Unusable(reminder_id, DropReason.TOO_LARGE) for reminder_id in bad),
    )
    return turn.open_request(state, state.basis, planned, repeats=repeats, reply_id=new_id).events


def reply(state: SessionState, new_id: str, *, calls: int) -> Sequence[Event]:
    message = {
        "role": "assistant",
        "content": new_id,
        "tool_calls": [{"id": f"{new_id}/{place}", "name": "work", "args": {}} for place in range(calls)],
    }
    return turn.close_turn(state, reply=message, usage=Usage(prompt_tokens=1)).events


def finish_a_call(state: SessionState, _new_id: str) -> Sequence[Event]:
    call = next(map(read_call, state.open_calls.values()), None)
    if call is None:
        return ()
    return turn.record_result(state, call, result_message(call, ToolStatus.OK, "done")).events


def void(state: SessionState, _new_id: str) -> Sequence[Event]:
    return turn.void_turn(state).events


def compact(state: SessionState, new_id: str) -> Sequence[Event]:
    if state.closed:
        return ()
    short = [{"role": "user", "id": new_id, "content": a_text("In short.")}]
    return lifecycle.compact(state, [*state.messages], short, begun_at=state.live.next_place).events


# The run and the session.


def ask(state: SessionState, new_id: str) -> Sequence[Event]:
    return (PermissionAsked(request_id=new_id),) if state.running else ()


def answer(state: SessionState, _new_id: str) -> Sequence[Event]:
    asked = next(iter(state.permissions), None)
    return () if asked is None else turn.answer_permission(state, asked).events


def cancel(state: SessionState, _new_id: str, *, hold_queue: bool) -> Sequence[Event]:
    return turn.cancel(state, hold_queue=hold_queue).events


def idle(state: SessionState, _new_id: str) -> Sequence[Event]:
    return turn.idle(state, status="completed").events


def begin(state: SessionState, new_id: str) -> Sequence[Event]:
    messages = ({"role": "user", "id": new_id, "content": a_text()},)
    return turn.begin(state, attributes={"cwd": "/tmp"}, messages=messages).events  # noqa: S108 - only a name here


def record(state: SessionState, _new_id: str, *, name: str, value: object) -> Sequence[Event]:
    return turn.record(state, {name: value}).events


def grant(state: SessionState, _new_id: str) -> Sequence[Event]:
    granted = Grant(trust=Trust.PEER, principal="ann", field=GrantField.TTL_TURNS, value=9)
    return accept.issue_grant(state, granted, IN_PROCESS).events


def equip(state: SessionState, new_id: str) -> Sequence[Event]:
    return turn.equip(state, Equipped(ids=(new_id,)), records={"agent": new_id}).events


def close(state: SessionState, _new_id: str) -> Sequence[Event]:
    return turn.close(state).events


def delete(state: SessionState, _new_id: str) -> Sequence[Event]:
    return turn.delete(state).events


whos = st.sampled_from(EVERYBODY)
places = st.integers(0, 3)
keys = st.sampled_from([None, "k1", "k2"])


def _each(happens: Callable[..., Sequence[Event]], **drawn: st.SearchStrategy[Any]) -> st.SearchStrategy[Happening]:
    return st.builds(partial, st.just(happens), **drawn)


happenings: Final[st.SearchStrategy[Happening]] = st.one_of(
    _each(
        tell,
        who=whos,
        dedupe_key=keys,
        ttl_turns=st.sampled_from([None, 1, 2]),
        mode=st.sampled_from(Mode),
        preserve_on_compact=st.booleans(),
        claims=st.sampled_from([{}, {"source": "boss"}]),
        meta=st.sampled_from([{}, {"correlation": "c1"}]),
    ),
    _each(tell, who=whos, dedupe_key=keys),
    _each(add, key=keys, ttl=st.sampled_from([None, 1])),
    _each(inherit, who=whos),
    _each(revoke, place=places),
    _each(replace, place=places),
    _each(clear, who=whos, dedupe_key=st.sampled_from(["k1", "k2"])),
    _each(evaluate),
    _each(say, mode=st.sampled_from(InjectMode)),
    _each(say, mode=st.just(InjectMode.QUEUE)),
    _each(start),
    _each(take, seam=st.sampled_from(Seam), closing=st.booleans()),
    _each(take, seam=st.sampled_from([Seam.ITERATION_START, Seam.LOOP_EXIT])),
    _each(request, left_out=st.integers(0, 1), unusable=st.integers(0, 1), repeats=st.booleans()),
    _each(reply, calls=st.integers(0, 2)),
    _each(finish_a_call),
    _each(void),
    _each(compact),
    _each(ask),
    _each(answer),
    _each(cancel, hold_queue=st.booleans()),
    _each(idle),
    _each(begin),
    _each(record, name=st.sampled_from(["title", "agent"]), value=st.sampled_from(["a", "b", None])),
    _each(grant),
    _each(equip),
    st.sampled_from([evaluate] * 8 + [close, delete]),
)
# A run from its message to its reply, which single steps in any order seldom add up to.
_A_TURN: Final[tuple[Happening, ...]] = (
    partial(tell, who=ANN, dedupe_key="k1", ttl_turns=1),
    partial(say, mode=InjectMode.QUEUE),
    start,
    partial(take, seam=Seam.ITERATION_START),
    partial(request, left_out=0, unusable=0, repeats=False),
    partial(reply, calls=1),
)
_segments = st.sampled_from([True] + [False] * 9).flatmap(
    lambda whole: st.just(_A_TURN) if whole else st.tuples(happenings)
)
histories: Final = st.lists(_segments, min_size=10, max_size=30).map(lambda parts: [*chain.from_iterable(parts)])

# Visits every event that changes what a viewer sees, and each leaves a trace at the end of its commit.
TOUR: Final[tuple[Happening, ...]] = (
    begin,
    partial(record, name="title", value="A tour"),
    partial(tell, who=ANN, dedupe_key="k1"),
    partial(tell, who=ANN, dedupe_key="k1"),
    partial(replace, place=0),
    partial(tell, who=BOB),
    partial(revoke, place=1),
    partial(tell, who=EDITOR, mode=Mode.AUDIT_ONLY),
    partial(take, seam=Seam.LOOP_EXIT),
    partial(say, mode=InjectMode.QUEUE),
    partial(replace, place=1),
    start,
    partial(take, seam=Seam.ITERATION_START),
    partial(inherit, who=SERVER),
    partial(add, key="k2", ttl=1),
    partial(add, key=None, ttl=None),
    partial(request, left_out=0, unusable=1, repeats=False),
    void,
    partial(request, left_out=0, unusable=0, repeats=False),
    partial(request, left_out=0, unusable=0, repeats=True),
    partial(reply, calls=1),
    finish_a_call,
    ask,
    answer,
    ask,
    partial(cancel, hold_queue=True),
    compact,
    partial(say, mode=InjectMode.QUEUE),
    start,
    idle,
    partial(say, mode=InjectMode.QUEUE),
    partial(revoke, place=0),
    partial(tell, who=ANN),
    partial(say, mode=InjectMode.QUEUE),
    close,
    delete,
    begin,
)
