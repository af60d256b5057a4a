"""Laws of items: what becomes of everything that was accepted, and what its sender was told of it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from sideband.core.apply import fold
from sideband.core.events import Deduped, InjectReplaced, Queued
from sideband.core.inbox import slot_of
from sideband.loop.run import LoopStatus
from tests.faults.schedules.actions import text_of
from tests.faults.schedules.history import Exit, History, Item

DELIVERED: Final = ("drained", "delivered", "recorded")

# How an item may have left the inbox when a revoke is answered so.
EXITS_TOLD_AS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "revoked": ("revoked",),
        "already_revoked": ("revoked", "displaced", "dropped", "cleared"),
        "already_delivered": DELIVERED,
    }
)
# A steer without a running turn, and an item for a closed session.
REFUSALS: Final = ("no_running_turn", "unknown_session")


def an_item_ends_exactly_once(history: History) -> Iterator[str]:
    """Once the session is closed, everything that was accepted has left the inbox once and ended once."""
    for item in history.items.values():
        if len(item.exits) != 1 or len(item.ends) != 1:
            yield f"{item.id} left as {item.exits} and ended as {item.ends}"


def what_has_not_ended_is_pending(history: History) -> Iterator[str]:
    """Until the session is closed; nothing is pending that has ended."""
    before = fold(history.events[: history.closed_at])
    pending = {item.id for item in (*before.inbox.items(), *before.live)}
    not_ended = {item.id for item in history.items.values() if not item.ends or item.ends[0].at >= history.closed_at}
    if pending != not_ended:
        yield f"pending were {sorted(pending)}, not yet ended {sorted(not_ended)}"


def delivery_is_in_order(history: History) -> Iterator[str]:
    """Within a class, what was accepted first is delivered first; what waits is not overtaken."""
    lines: dict[object, list[Item]] = {}
    for item in history.items.values():
        if item.accepted is not None:
            lines.setdefault((item.is_message, item.waits_in), []).append(item)
    for line in lines.values():
        last = -1
        for item in line:
            left = item.exits[0] if item.exits else Exit(len(history.events), "not at all")
            if left.how in DELIVERED and left.at < last:
                yield f"{item.id} was delivered at {left.at} while one that was accepted before it still waited"
            last = max(last, left.at)


def a_sender_is_told_the_truth(history: History) -> Iterator[str]:
    """An accepted item is in the journal before the answer; of a refused one there is no trace."""
    for told in history.world.told:
        if told.verb not in ("remind", "say"):
            continue
        item = history.labels.get(told.label)
        if told.answer in ("accepted", "displaced"):
            if item is None or item.id != told.item_id or item.accepted is None or item.accepted >= told.at:
                yield f"{told.label} was answered {told.answer} and is not in the journal"
        elif told.answer not in REFUSALS or item is not None:
            yield f"{told.label} was refused as {told.answer}"


def an_item_is_revoked_or_delivered(history: History) -> Iterator[str]:
    """Of a revoke and a drain exactly one has the item, the answer says which, and the requests agree."""
    revoked = Counter[str]()
    for told in history.world.told:
        if told.verb != "revoke":
            continue
        item = history.items[told.item_id]
        revoked[item.id] += told.answer == "revoked"
        exits = [left.how for left in item.exits if left.at < told.at]
        if not exits or exits[0] not in EXITS_TOLD_AS.get(told.answer, ()):
            yield f"a revoke of {item.id} was answered {told.answer}; it had left as {exits}"
    for item in history.items.values():
        was_revoked = any(left.how == "revoked" for left in item.exits)
        if revoked[item.id] != was_revoked:
            yield f"{revoked[item.id]} answers say that {item.id} is revoked; it left as {item.exits}"
        if was_revoked and history.is_shown(item):
            yield f"{item.id} was revoked, and a request contains it"


def a_message_has_its_last_version(history: History) -> Iterator[str]:
    """What is delivered is what was accepted last, whole; a refused version is never seen."""
    for told in history.world.told:
        if told.verb == "replace":
            kept = tuple(text_of(told.label, told.version)) in history.items[told.item_id].versions
            if kept != (told.answer == "replaced"):
                yield f"version {told.version} of {told.item_id} was answered {told.answer}"
    for item in history.items.values():
        if item.delivered is not None and item.delivered != item.versions[-1]:
            yield f"{item.id} was delivered as {item.delivered}, last accepted as {item.versions[-1]}"
    for at, event in history.of(InjectReplaced):
        if not history.items[event.message_id].waits(at):
            yield f"{event.message_id} was replaced when it no longer waited"


def a_message_reaches_a_request(history: History) -> Iterator[str]:
    """It is in a request, or taken back, or reported as undelivered and in a request of a later run."""
    closed_early = any(told.answer == "closed" for told in history.world.told)
    for item in history.items.values():
        if item.is_message and _is_for_the_model(item) and item.exits:
            if item.exits[0].how == "delivered" and not history.is_shown(item):
                yield f"{item.id} was delivered, and no request contains it"
            if item.exits[0].how == "dropped" and not closed_early:
                yield f"{item.id} waited until the session was closed"
    for run in history.world.runs:
        if run.result is None:
            continue
        waiting = {item.id for item in history.items.values() if item.waits(run.ended)}
        if waiting != (reported := {item.id for item in run.result.undelivered}):
            yield f"{sorted(waiting)} waited when the run ended, reported were {sorted(reported)}"
        if run.result.status is LoopStatus.COMPLETED:
            # The next run may begin while this one still says goodbye.
            ended = min((other.began for other in history.world.runs if other.began > run.began), default=run.ended)
            yield from _lost(history, began=run.began, ended=min(ended, run.ended))


def _is_for_the_model(item: Item) -> bool:
    return item.steers or item.waits_in is None


def _lost(history: History, *, began: int, ended: int) -> Iterator[str]:
    for item in history.items.values():
        taken = bool(item.exits) and item.exits[0].how == "delivered" and began <= item.exits[0].at < ended
        if taken and _is_for_the_model(item) and not history.is_shown(item, by=ended):
            yield f"{item.id} was delivered in a run that ended well, and none of its requests contains it"


def a_key_is_waited_for_once(history: History) -> Iterator[str]:
    """Of one key and kind at most one reminder waits: the newer displaces the older in its commit, and counts it."""
    latest: dict[object, Item] = {}
    for start, commit in history.commits():
        gone = {event.replaced_id for event in commit if isinstance(event, Deduped)}
        for event in commit:
            if not isinstance(event, Queued) or (slot := slot_of(event.item)) is None:
                continue
            before = latest.get(slot)
            displaced = before is not None and before.waits(start)
            if event.item.deduped_count != displaced or (before is not None and displaced != (before.id in gone)):
                yield f"{event.item.id} displaced {event.item.deduped_count}; {before and before.id} waited"
            latest[slot] = history.items[event.item.id]
