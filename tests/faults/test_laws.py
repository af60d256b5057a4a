"""Each law rejects a journal that breaks it, and accepts all others."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from sideband.core.events import (
    Boundary,
    Cancelled,
    Checkpoint,
    Compacted,
    Event,
    Expired,
    ExpiryReason,
    Fired,
    Injected,
    Queued,
    QueuedReminder,
    RequestCommitted,
    ResultRecorded,
    Revoked,
    Started,
    TurnCommitted,
    TurnVoided,
)
from sideband.core.seams import Mode, Seam
from sideband.core.trust import IN_PROCESS
from tests.builders import a_reminder
from tests.faults.laws import LAWS, broken
from tests.faults.witness import Witness

BODY: Final = a_reminder().body


def queued(reminder_id: str = "r") -> Event:
    reminder = a_reminder(reminder_id)
    return Queued(item=QueuedReminder(reminder=reminder, mode=Mode.FINISH_STEP, provenance=IN_PROCESS))


def drained(reminder_id: str = "r", **fields: object) -> Sequence[Event]:
    seam = Seam.ITERATION_START
    injected = Injected(reminder=a_reminder(reminder_id, **fields), provenance=IN_PROCESS, seam=seam)
    return injected, Checkpoint(turn=0, seam=seam, ids=(reminder_id,))


def expired(reason: ExpiryReason = ExpiryReason.TTL, boundary: Boundary | None = None) -> Event:
    return Expired(reminder_id="r", reason=reason, turn=1, boundary=boundary)


def result(status: str = "ok") -> Event:
    return ResultRecorded(call_id="c", status=status, message={"role": "tool"})


FIRED: Final = Fired(reminder_id="r", turn=1, rendered_role="user")
ASKED: Final = RequestCommitted(turn=1)
ANSWERED: Final = TurnCommitted(turn=1)
CALLED: Final = TurnCommitted(turn=1, reply={"role": "assistant", "tool_calls": [{"id": "c"}]})
A_TURN: Final = (ASKED, ANSWERED)
COMPACTED: Final = Compacted(turn=1, archived_messages=1)
FOR_COMPACTION: Final = expired(ExpiryReason.COMPACTION, Boundary.PRE_COMPACT)


def a_witness(*heard: Sequence[Any]) -> Witness:
    witness = Witness()
    for word, *what in heard:
        witness.hear(word, *what)
    return witness


SOUND: Final = [
    pytest.param([queued()], [("accepted", "r", BODY)], id="accepted"),
    pytest.param([queued(), Revoked(reminder_id="r")], [("accepted", "r", BODY), ("revoked", "r")], id="revoked"),
    pytest.param([queued(), *drained(ttl_turns=1), ASKED, FIRED, ANSWERED, expired()], [], id="shown-in-its-turn"),
    pytest.param([queued(), *drained(), *A_TURN, FOR_COMPACTION, COMPACTED], [], id="compacted"),
    pytest.param([ASKED, RequestCommitted(turn=1, attempt=2), ANSWERED], [], id="repeated"),
    pytest.param([ASKED, TurnVoided(turn=1), Cancelled(), *A_TURN], [], id="void-since-its-run-was-ended"),
    pytest.param([ASKED, CALLED, result()], [("ran", "c")], id="a-tool-ran"),
    pytest.param([ASKED, CALLED, result("unknown")], [("ran", "c")], id="unknown-whether-a-tool-ran"),
    pytest.param([Started(), ASKED], [("asked", 1, 1, "f", 0, "b", True)] * 2, id="the-same-request-sent-twice"),
]


@pytest.mark.parametrize(("events", "heard"), SOUND)
def test_a_sound_journal_breaks_no_law(events: list[Event], heard: list[Sequence[Any]]) -> None:
    assert broken(events, a_witness(*heard)) == []


BROKEN: Final[Mapping[str, tuple[Sequence[Event], Sequence[Sequence[Any]]]]] = {
    "nothing_acknowledged_is_lost": ([], [("accepted", "r", BODY)]),
    "nothing_is_doubled": ([queued(), queued()], []),
    "a_drain_is_whole": ([queued(), drained()[0]], []),
    "a_compaction_is_whole": ([queued(), *drained(), *A_TURN, FOR_COMPACTION], []),
    "turns_count_from_one": ([RequestCommitted(turn=2), TurnCommitted(turn=2)], []),
    "requests_leave_one_at_a_time": ([ASKED, ASKED], []),
    "a_request_is_void_only_where_it_cannot_be_repeated": ([ASKED, TurnVoided(turn=1), *A_TURN], []),
    "a_request_leaves_as_it_was_committed": (
        [ASKED],
        [("asked", 1, 1, "f", 0, "one", True), ("asked", 1, 1, "f", 0, "another", True)],
    ),
    "a_tool_runs_at_most_once": ([ASKED, CALLED, result()], [("ran", "c"), ("ran", "c")]),
    "a_call_ends_once": ([ASKED, CALLED, result(), result()], [("ran", "c")]),
    "a_reminder_is_fired_once_in_a_turn": ([queued(), *drained(), ASKED, FIRED, FIRED], []),
    "a_ttl_is_a_number_of_turns": ([queued(), *drained(ttl_turns=2), ASKED, FIRED, ANSWERED, expired()], []),
}


@pytest.mark.parametrize("law", [law.__name__ for law in LAWS])
def test_a_law_is_broken_by_a_journal_that_breaks_it(law: str) -> None:
    events, heard = BROKEN[law]
    found = broken(events, a_witness(*heard))
    assert found
    assert all(sentence.startswith(f"{law}: ") for sentence in found)
