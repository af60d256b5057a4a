"""Concurrent calls of several processes, and the search for an equivalent sequential order."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

HELD_BY_NOBODY: Final = ""


class Call(msgspec.Struct, frozen=True):
    """Something that was asked of a store between two moments, and the answer."""

    began: int
    ended: int
    who: str
    verb: str
    about: str
    answer: Any


class Ground(msgspec.Struct, frozen=True):
    """A session as far as these calls can observe it; immutable."""

    queued: tuple[tuple[str, str], ...] = ()
    """The id and the key of what waits, in its order."""
    ended: tuple[tuple[str, str], ...] = ()
    """How each of the others has ended."""
    holder: str = HELD_BY_NOBODY
    token: int = 0


Outcome: TypeAlias = tuple[Ground, Any]


# Each of these says what the answer would be, and what would be so afterwards. The key follows a dot in the id.


def _send(ground: Ground, call: Call) -> Outcome:
    key = call.about.partition(".")[2]
    displaced = tuple(item for item in ground.queued if item[1] == key)
    queued = (*(item for item in ground.queued if item[1] != key), (call.about, key))
    ended = (*ground.ended, *((item_id, "displaced") for item_id, _ in displaced))
    return msgspec.structs.replace(ground, queued=queued, ended=ended), len(displaced)


def _revoke(ground: Ground, call: Call) -> Outcome:
    if any(item_id == call.about for item_id, _ in ground.queued):
        queued = tuple(item for item in ground.queued if item[0] != call.about)
        ended = (*ground.ended, (call.about, "revoked"))
        return msgspec.structs.replace(ground, queued=queued, ended=ended), "revoked"
    fate = dict(ground.ended).get(call.about)
    answers = {None: "unknown_reminder_id", "taken": "already_delivered"}
    return ground, answers.get(fate, "already_revoked")


def _drain(ground: Ground, _call: Call) -> Outcome:
    taken = [item_id for item_id, _ in ground.queued]
    ended = (*ground.ended, *((item_id, "taken") for item_id in taken))
    return msgspec.structs.replace(ground, queued=(), ended=ended), taken


def _acquire(ground: Ground, call: Call) -> Outcome:
    if ground.holder not in (HELD_BY_NOBODY, call.who):
        return ground, "session_busy"
    token = ground.token + 1
    return msgspec.structs.replace(ground, holder=call.who, token=token), token


def _release(ground: Ground, call: Call) -> Outcome:
    if ground.holder == HELD_BY_NOBODY or str(ground.token) != call.about:
        return ground, "released"
    return msgspec.structs.replace(ground, holder=HELD_BY_NOBODY, token=ground.token + 1), "released"


def _run(ground: Ground, call: Call) -> Outcome:
    """A commit under a lease."""
    return ground, "committed" if str(ground.token) == call.about else "lease_lost"


_RULES: Final = {
    "send": _send,
    "revoke": _revoke,
    "drain": _drain,
    "acquire": _acquire,
    "release": _release,
    "run": _run,
}


def is_linearisable(calls: Sequence[Call], ground: Ground = Ground()) -> bool:  # noqa: B008 - it never changes
    """Whether there is an order in which each call would have had its answer, and none comes before one it followed.

    The search of Wing and Gong: what may come next is every call that began before all others had ended.
    """
    tried: set[tuple[frozenset[int], Ground]] = set()
    waiting = [(frozenset(range(len(calls))), ground)]
    while waiting:
        left, ground = waiting.pop()
        if not left:
            return True
        first_end = min(calls[place].ended for place in left)
        for place in left:
            call = calls[place]
            if call.began > first_end:
                continue
            after, answer = _RULES[call.verb](ground, call)
            state = (left - {place}, after)
            if answer == call.answer and state not in tried:
                tried.add(state)
                waiting.append(state)
    return False
