"""Laws of turns, requests, tools and TTLs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sideband.core.events import (
    Cancelled,
    Closed,
    Compacted,
    Event,
    Expired,
    ExpiryReason,
    Fired,
    Idled,
    InjectDelivered,
    Injected,
    RequestCommitted,
    ResultRecorded,
    TurnCommitted,
    TurnVoided,
)
from tests.faults.witness import Witness


def text_of(content: Sequence[dict[str, Any]]) -> str:
    return "".join(block["text"] for block in content)


def turns_count_from_one(events: Sequence[Event], _witness: Witness) -> Iterator[str]:
    numbers = [event.turn for event in events if isinstance(event, TurnCommitted)]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"turns were numbered {numbers}"


def requests_leave_one_at_a_time(events: Sequence[Event], _witness: Witness) -> Iterator[str]:
    """The open one is answered, repeated with the next attempt, or void; nothing else leaves meanwhile."""
    request: RequestCommitted | None = None
    for event in events:
        match event:
            case RequestCommitted(attempt=1):
                if request is not None:
                    yield f"{request} was still open when {event} left"
                request = event
            case RequestCommitted():
                if request is None or (event.turn, event.attempt) != (request.turn, request.attempt + 1):
                    yield f"{event} repeats {request}"
                request = event
            case TurnCommitted() | TurnVoided():
                if request is None or event.turn != request.turn:
                    yield f"{event} ends {request}"
                request = None


def a_request_is_void_only_where_it_cannot_be_repeated(events: Sequence[Event], _witness: Witness) -> Iterator[str]:
    """Something was said since it left, its run was ended, or the session; else the next one is the same again."""
    is_left_behind = False
    for place, event in enumerate(events):
        match event:
            case RequestCommitted(attempt=1):
                is_left_behind = False
            case RequestCommitted() if is_left_behind:
                yield f"{event} repeats what was said before something else was"
            case TurnVoided() if not (is_left_behind or _ends_a_run(events[place + 1 :])):
                yield f"{event} is void, and nothing was said since it left"
            case InjectDelivered(audit_only=False) | ResultRecorded():
                is_left_behind = True


def _ends_a_run(following: Sequence[Event]) -> bool:
    for event in following:
        # A run that a dead process left behind has no status.
        if isinstance(event, Cancelled | Closed) or (isinstance(event, Idled) and event.status):
            return True
        if isinstance(event, RequestCommitted):
            return False
    return False


def a_request_leaves_as_it_was_committed(events: Sequence[Event], witness: Witness) -> Iterator[str]:
    """It is on record before it leaves, and a repetition has the same bytes."""
    committed = {(event.turn, event.attempt) for event in events if isinstance(event, RequestCommitted)}
    bodies: dict[object, set[str]] = {}
    for sent in witness.sent:
        if (sent.turn, sent.attempt) not in committed:
            yield f"attempt {sent.attempt} of turn {sent.turn} left, and is not on record"
        if not sent.agrees:
            yield f"attempt {sent.attempt} of turn {sent.turn} carried what is not on record"
        bodies.setdefault((sent.turn, sent.committed, sent.messages), set()).add(sent.body)
    for (turn, *_), different in ((key, found) for key, found in bodies.items() if isinstance(key, tuple)):
        if len(different) > 1:
            yield f"the request of turn {turn} left in {len(different)} versions"


# Tools.


def _calls(events: Sequence[Event]) -> list[str]:
    replies = [event.reply for event in events if isinstance(event, TurnCommitted) and event.reply]
    return [call["id"] for reply in replies for call in reply.get("tool_calls", ())]


def a_tool_runs_at_most_once(events: Sequence[Event], witness: Witness) -> Iterator[str]:
    """And only for a turn that was committed."""
    asked = set(_calls(events))
    for call_id, times in Counter(witness.ran).items():
        if times > 1 or call_id not in asked:
            yield f"{call_id} ran {times} times" + ("" if call_id in asked else ", for no turn")


def a_call_ends_once(events: Sequence[Event], witness: Witness) -> Iterator[str]:
    """Before the next request leaves; a call that did not run has no result of its own."""
    waiting: set[str] = set()
    for event in events:
        if isinstance(event, TurnCommitted):
            waiting = set(_calls([event]))
        elif isinstance(event, ResultRecorded):
            if event.call_id not in waiting:
                yield f"{event.call_id} has a result too many, {event.status}"
            waiting.discard(event.call_id)
            if event.status == "ok" and event.call_id not in witness.ran:
                yield f"{event.call_id} never ran, and is ok"
        elif isinstance(event, RequestCommitted) and waiting:
            yield f"{sorted(waiting)} had no result when the next request left"


# Reminders.


def a_reminder_is_fired_once_in_a_turn(events: Sequence[Event], _witness: Witness) -> Iterator[str]:
    """However often its request leaves."""
    for turn, shown in _requests(events):
        for reminder_id, times in Counter(shown).items():
            if times > 1:
                yield f"{reminder_id} is fired {times} times in turn {turn}"


def _requests(events: Sequence[Event]) -> list[tuple[int, list[str]]]:
    """Each request that left for the first time, and what it shows."""
    requests: list[tuple[int, list[str]]] = []
    for event in events:
        if isinstance(event, RequestCommitted) and event.attempt == 1:
            requests.append((event.turn, []))
        elif isinstance(event, Fired):
            requests[-1][1].append(event.reminder_id)
    return requests


def a_ttl_is_a_number_of_turns(events: Sequence[Event], _witness: Witness) -> Iterator[str]:
    """A finite reminder is shown in so many committed turns, less one for each compaction it lived through then."""
    ttls: dict[str, int] = {}
    spent: Counter[str] = Counter()
    showing: list[str] = []
    for event in events:
        match event:
            case Injected(reminder=reminder) if reminder.ttl_turns is not None:
                ttls[reminder.id] = reminder.ttl_turns
            case RequestCommitted(attempt=1):
                showing = []
            case Fired():
                showing.append(event.reminder_id)
                if spent[event.reminder_id] >= ttls.get(event.reminder_id, len(events)):
                    yield f"{event.reminder_id} has had its turns, and is shown in turn {event.turn}"
            case TurnCommitted():
                spent.update(showing)
            case Compacted():
                spent.update(reminder_id for reminder_id in ttls if spent[reminder_id])
            case Expired(reason=ExpiryReason.TTL):
                used = spent[event.reminder_id] + (event.boundary is not None)
                if used != ttls[event.reminder_id]:
                    yield f"{event.reminder_id} had {used} turns of {ttls[event.reminder_id]} when it expired"
