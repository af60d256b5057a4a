"""Laws of turns: what requests contain, what tools did, how long reminders are shown."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sideband.core.events import (
    Checkpoint,
    Compacted,
    RequestCommitted,
    ResultRecorded,
    Started,
    TurnCommitted,
    TurnVoided,
)
from sideband.core.messages import ToolStatus
from sideband.core.seams import MAX_SKIPPED_BATCHES
from tests.faults.schedules.history import History


def a_call_has_one_result(history: History) -> Iterator[str]:
    """Directly after the reply that asked for it, before anything else."""
    recorded = Counter(event.call_id for _, event in history.of(ResultRecorded))
    asked = {call_id for _, event in history.of(TurnCommitted) for call_id in _call_ids(event.reply)}
    if any(count != 1 for count in recorded.values()) or recorded.keys() != asked:
        yield f"asked for {sorted(asked)}, recorded {dict(recorded)}"
    for messages in (*(sent.request.messages for sent in history.world.model.sent), _talk(history)):
        for place, message in enumerate(messages):
            calls = _call_ids(message)
            found = [result.get("tool_call_id", "") for result in messages[place + 1 : place + 1 + len(calls)]]
            if sorted(calls) != sorted(found):
                yield f"the calls {calls} are followed by the results of {found}"


def _call_ids(message: dict[str, Any] | None) -> list[str]:
    return [call["id"] for call in (message or {}).get("tool_calls", ())]


def _talk(history: History) -> Sequence[dict[str, Any]]:
    return history.world.store.state(history.world.session.id).messages


def a_tool_runs_at_most_once(history: History) -> Iterator[str]:
    """After the reply is committed, never for a skipped batch; and what is told as done was done."""
    moments = history.world.tool.moments
    began = Counter(moment.call_id for moment in moments if moment.what == "began")
    ended = {moment.call_id for moment in moments if moment.what == "ended"}
    committed = {call_id: at for at, event in history.of(TurnCommitted) for call_id in _call_ids(event.reply)}
    for moment in moments:
        if moment.at <= committed.get(moment.call_id, len(history.events)):
            yield f"{moment.call_id} ran before its turn was committed"
    for _, event in history.of(ResultRecorded):
        if began[event.call_id] > (event.status != ToolStatus.INTERRUPTED):
            yield f"{event.call_id} ran {began[event.call_id]} times and is told as {event.status}"
        if event.status == "ok" and event.call_id not in ended:
            yield f"{event.call_id} is told as done and was not"


def a_request_shows_what_is_live(history: History) -> Iterator[str]:
    """No more and no less, in the order in which it went live."""
    for opening in history.openings:
        living = sorted(
            (item for item in history.items.values() if item.lives(opening.at)), key=lambda item: item.exits[0].at
        )
        if opening.fired != [item.id for item in living]:
            yield f"turn {opening.turn} fired {opening.fired}, live were {[item.id for item in living]}"


def a_request_is_what_was_committed(history: History) -> Iterator[str]:
    """The model gets the conversation as of the commit and the reminders that fired in it, once per attempt."""
    attempts = [at for at, _ in history.of(RequestCommitted)]
    used: set[int] = set()
    for sent in history.world.model.sent:
        attempt = max((at for at in attempts if at < sent.at), default=-1)
        if attempt < 0 or attempt in used:
            yield f"a request of turn {sent.request.turn} left without a commit of its own"
            continue
        used.add(attempt)
        opening = next(opening for opening in reversed(history.openings) if opening.at <= attempt)
        if sent.request.messages != opening.messages or sent.request.turn != opening.turn:
            yield f"the request of turn {sent.request.turn} has other messages than those of its commit"
        fired = [history.items[reminder_id].versions[-1] for reminder_id in opening.fired]
        if fired != [text.split("\n")[1] for text in sent.request.reminders]:
            yield f"the request of turn {sent.request.turn} shows {sent.request.reminders}, fired are {fired}"


def what_waits_is_in_the_next_request(history: History) -> Iterator[str]:
    """What was accepted for a running turn before a reply is taken before the next request."""
    gate = 0
    for at, event in history.of(RequestCommitted, TurnCommitted, TurnVoided, Started):
        if not isinstance(event, RequestCommitted):
            gate = at
        elif event.attempt == 1:
            late = [i.id for i in history.items.values() if i.steers and i.waits(at) and (i.accepted or 0) < gate]
            if late:
                yield f"{late} were accepted before turn {event.turn} began and missed its request"


def an_interrupt_skips_the_batch(history: History) -> Iterator[str]:
    """One that waits when a reply asks for tools, but never more than three batches in a row."""
    skipped, calls, waiting = 0, list[str](), list[str]()
    for at, event in history.of(TurnCommitted, ResultRecorded, Checkpoint):
        match event:
            case TurnCommitted():
                calls = _call_ids(event.reply)
                waiting = [item.id for item in history.items.values() if item.interrupts and item.waits(at)]
            case ResultRecorded(status="interrupted"):
                if skipped == MAX_SKIPPED_BATCHES:
                    yield f"{event.call_id} was skipped after {skipped} batches in a row"
            case ResultRecorded(status="ok", call_id=call_id) if call_id in calls:
                # An interrupt that was revoked in time did not interrupt.
                kept = [
                    item_id for item_id in waiting if history.items[item_id].exits[0].how in ("drained", "delivered")
                ]
                if kept and skipped < MAX_SKIPPED_BATCHES:
                    yield f"{call_id} ran though {kept} waited"
                skipped = 0
            case ResultRecorded():
                skipped = 0
            case Checkpoint(dispatch_skipped=True):
                skipped += 1
            case Checkpoint():
                pass


def a_ttl_is_a_number_of_turns(history: History) -> Iterator[str]:
    """A finite reminder is shown in so many committed turns, less one per compaction, unless it ends in another way."""
    for item in history.items.values():
        if item.ttl is None or not item.ends:
            continue
        lived_on = item.ends[0].at >= history.closed_at
        spent = item.shown + item.lowered
        if spent > item.ttl or (lived_on and spent == item.ttl) or (item.ends[0].how == "ttl" and spent != item.ttl):
            yield f"{item.id} of TTL {item.ttl} was shown in {item.shown} turns and lowered by {item.lowered}: {item.ends}"


def only_the_preserved_survive_a_compaction(history: History) -> Iterator[str]:
    """And the inbox is not touched by it."""
    for start, commit in history.commits():
        if not any(isinstance(event, Compacted) for event in commit):
            continue
        end = start + len(commit)
        for item in history.items.values():
            if item.lives(end) and not item.preserved:
                yield f"{item.id} is not preserved and survived a compaction"
            if item.waits(start) and not item.waits(end):
                yield f"{item.id} left the inbox in a compaction"
