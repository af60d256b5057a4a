"""The core agrees with the naive session, and the comparison finds planted bugs."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from sideband.core import accept, drain, lifecycle
from sideband.core.accept import Accepted, Selector
from sideband.core.events import Deduped, Event, InboxItem, QueuedReminder
from sideband.core.inbox import Inbox, Receipt
from sideband.core.live import LiveIndex, LiveItem
from sideband.core.reminder import Propagate, Reminder, ReminderId, RoleHint
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.trust import Provenance, Trust
from tests.naive_session import Note, Who
from tests.unit.core.core_and_naive import Pair
from tests.unit.core.session_machine import EDITOR, SessionMachine

PROFILE = settings()
TestSession = SessionMachine.TestCase
TestSession.settings = settings(stateful_step_count=2 * PROFILE.stateful_step_count)


def dedupe_across_namespaces(
    live: LiveIndex, reminder: Reminder, _provenance: Provenance, _versions_of: str | None = None
) -> Iterable[Event]:
    key = str(reminder.dedupe_key)
    return [Deduped(replaced_id=item.id, replacing_id=reminder.id, dedupe_key=key) for item in live.with_key(key)]


def age_what_was_left_out(_live: LiveIndex, item: LiveItem) -> None:
    item.left_out += 1


def every_sender_may(_actor: Provenance, _owner: str) -> bool:
    return True


def newest_first(self: Inbox, mode: Mode | None) -> list[InboxItem]:
    return [item for item in reversed([*self.items()]) if item.waits_in is mode]


def forget_earlier_versions(_item: QueuedReminder) -> None:
    return None


def clear_what_is_live(_inbox: Inbox, _selector: Selector) -> list[QueuedReminder]:
    return []


def every_repeat_is_new(receipt: Receipt) -> Accepted:
    return Accepted(ReminderId(receipt.reminder_id), receipt.deduped_count, receipt.requested, receipt.effective)


@pytest.mark.parametrize(
    ("owner", "decision", "wrong"),
    [
        pytest.param(lifecycle, "_replaced_by", dedupe_across_namespaces, id="dedupe-crosses-namespaces"),
        pytest.param(LiveIndex, "leave_out", age_what_was_left_out, id="a-turn-that-left-it-out-counts"),
        pytest.param(accept, "may_touch", every_sender_may, id="every-sender-may-revoke-everything"),
        pytest.param(Inbox, "waiting", newest_first, id="a-drain-takes-the-newest-first"),
        pytest.param(drain, "versioned_id", forget_earlier_versions, id="a-newer-version-leaves-the-live-one"),
        pytest.param(accept, "_queued", clear_what_is_live, id="a-clear-leaves-the-inbox-alone"),
        pytest.param(accept, "_repeated", every_repeat_is_new, id="a-repeat-gets-a-reply-without-its-time"),
    ],
)
def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, owner: object, decision: str, wrong: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, decision, wrong)
    search = settings(
        max_examples=40 * PROFILE.max_examples,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(SessionMachine, settings=search)


# Histories that once failed.

PLAIN: Note = {
    "body": "red",
    "tags": (),
    "dedupe_key": None,
    "ttl_turns": None,
    "preserve_on_compact": False,
    "propagate": Propagate.ALL,
    "role_hint": RoleHint.SYSTEM,
    "mode": Mode.FINISH_STEP,
}
ANN = Who(2, "ann")


def a_refused_repeat_of_what_waits(pair: Pair) -> None:
    pair.turn_away(pair.accept(PLAIN, EDITOR, "c1"))


def a_refused_repeat_of_what_is_live(pair: Pair) -> None:
    accepted = pair.accept(PLAIN, EDITOR, "c1")
    pair.drain(Seam.ITERATION_START)
    pair.turn_away(accepted)


def a_caller_that_takes_the_id_of_a_live_reminder(pair: Pair) -> None:
    pair.accept(PLAIN, ANN, pair.inject(PLAIN))
    pair.drain(Seam.ITERATION_START)


def a_handoff_repeated_after_its_copies_have_ended(pair: Pair) -> None:
    parent = Pair("parent")
    parent.inject(PLAIN)
    pair.inherit_from(parent, hop=Trust.OPERATOR)
    pair.compact(archived=1)
    pair.inherit_from(parent, hop=Trust.OPERATOR)


def a_handoff_of_what_already_waits(pair: Pair) -> None:
    parent = Pair("parent")
    pair.accept(PLAIN, EDITOR, parent.inject(PLAIN))
    pair.inherit_from(parent, hop=Trust.OPERATOR)


def two_keys_that_a_hop_makes_one(pair: Pair) -> None:
    parent = Pair("parent")
    for who in (ANN, Who(3, "ann")):
        parent.inject({**PLAIN, "dedupe_key": "k1"}, who)
    pair.inherit_from(parent, hop=Trust.SERVER)


def a_newer_version_that_is_an_audit_record(pair: Pair) -> None:
    """It displaces what waits, and the capacity for audit records is counted without that."""
    server = Who(3, "ann")
    pair.accept({**PLAIN, "mode": Mode.AUDIT_ONLY}, server)
    pair.accept(PLAIN, server, "v1", versioned=True)
    pair.accept({**PLAIN, "mode": Mode.AUDIT_ONLY}, server, "v1", versioned=True)


def one_drain_of_two_that_replace_the_same_live_reminder(pair: Pair) -> None:
    pair.accept({**PLAIN, "dedupe_key": "k1"}, ANN, "v1", versioned=True)
    pair.drain(Seam.ITERATION_START)
    pair.accept({**PLAIN, "dedupe_key": "k2"}, ANN, "v1", versioned=True)
    pair.accept({**PLAIN, "dedupe_key": "k1"}, ANN)
    pair.drain(Seam.ITERATION_START)


def a_newer_version_after_a_queued_one_was_revoked(pair: Pair) -> None:
    """The live reminder is then two versions older."""
    pair.accept({**PLAIN, "dedupe_key": "k1"}, ANN, "v1", versioned=True)
    pair.drain(Seam.ITERATION_START)
    pair.revoke(pair.accept({**PLAIN, "dedupe_key": "k2"}, ANN, "v1", versioned=True), ANN)
    pair.accept({**PLAIN, "dedupe_key": None}, ANN, "v1", versioned=True)
    pair.drain(Seam.ITERATION_START)
    assert pair.core.live_ids == ["v1~3"]


def an_audit_message_at_the_end_of_a_run_that_asks(pair: Pair) -> None:
    pair.begin()
    pair.accept_message("hi", InjectMode.AUDIT_ONLY, EDITOR)
    pair.permission(answered=False)
    pair.drain(Seam.LOOP_EXIT)


@pytest.mark.parametrize(
    "history",
    [
        a_refused_repeat_of_what_waits,
        a_refused_repeat_of_what_is_live,
        a_caller_that_takes_the_id_of_a_live_reminder,
        a_handoff_repeated_after_its_copies_have_ended,
        a_handoff_of_what_already_waits,
        two_keys_that_a_hop_makes_one,
        a_newer_version_that_is_an_audit_record,
        one_drain_of_two_that_replace_the_same_live_reminder,
        a_newer_version_after_a_queued_one_was_revoked,
        an_audit_message_at_the_end_of_a_run_that_asks,
    ],
    ids=lambda history: history.__name__.replace("_", "-"),
)
def test_a_history_that_once_failed_passes(history: Callable[[Pair], None]) -> None:
    pair = Pair("child")
    history(pair)
    pair.check_both_are_alike()
    pair.check_each_ended_once()
    pair.check_each_key_is_live_once()
    pair.check_the_journal_tells_it_all()
