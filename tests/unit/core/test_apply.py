"""Applying events: what each event changes, and that an event which arrives too late changes nothing."""

from typing import Final, get_args

import msgspec
import pytest

from sideband.core.apply import apply, fold
from sideband.core.events import (
    AuditRecorded,
    Begun,
    Cancelled,
    Checkpoint,
    Closed,
    Closing,
    Compacted,
    Deduped,
    Deferred,
    Deleted,
    Dropped,
    DropReason,
    Equipped,
    Event,
    Expired,
    ExpiryReason,
    Fired,
    Granted,
    Idled,
    Inherited,
    InjectAccepted,
    InjectDelivered,
    Injected,
    InjectReplaced,
    InjectRevoked,
    PermissionAsked,
    PermissionReplied,
    ProviderEvaluated,
    Queued,
    QueuedMessage,
    QueuedReminder,
    Recorded,
    Replaced,
    RequestCommitted,
    ResultRecorded,
    Revoked,
    Started,
    TurnCommitted,
    TurnVoided,
)
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS, Grant, GrantField, Trust
from tests.builders import a_reminder, a_text
from tests.sessions import CLIENT

RED: Final = a_reminder().body
QUEUED: Final = Queued(item=QueuedReminder(reminder=a_reminder("q"), mode=Mode.AUDIT_ONLY, provenance=CLIENT))
LIVE: Final = Injected(reminder=a_reminder("r", ttl_turns=3), provenance=IN_PROCESS)
SAID: Final = InjectAccepted(
    item=QueuedMessage(message_id="m", content=tuple(a_text("one")), mode=InjectMode.STEER, provenance=CLIENT)
)
SENT: Final = RequestCommitted(turn=1)
CALL: Final = {"id": "c1", "name": "read_file"}
ASKED: Final = PermissionAsked(request_id="p")
GRANT: Final = Grant(trust=Trust.PEER, principal="planner", field=GrantField.MODE, value="interrupt_immediate")
SKIPPED: Final = Checkpoint(turn=1, seam=Seam.PRE_TOOL_DISPATCH, ids=("q",), dispatch_skipped=True)


def summary(state: SessionState) -> dict[str, object]:
    """Every non-empty part of a state."""
    known: dict[str, object] = {
        "inbox": [item.id for item in state.inbox.items()],
        "bodies": [item.reminder.body for item in state.inbox.items() if isinstance(item, QueuedReminder)],
        "live": [(item.id, item.first_turn, item.last_turn, item.left_out) for item in state.live],
        "audit": [entry.reminder.id for entry in state.audit],
        "messages": state.messages,
        "open_calls": list(state.open_calls),
        "request": None if state.request is None else (state.request.turn, state.request.attempt),
        "settling": None if state.request is None else list(state.request.settling),
        "left_out": None if state.request is None else list(state.request.left_out),
        "turn": state.live.turn,
        "running": state.running,
        "closed": state.closed_reason,
        "queue_held": state.queue_held,
        "skipped_batches": state.skipped_batches,
        "window": state.window,
        "permissions": list(state.permissions),
        "grants": state.grants,
        "equipped": state.equipped,
        "closing": state.closing,
        "records": state.records,
        "deleted": state.deleted,
    }
    return {name: value for name, value in known.items() if value}


ONE = [("r", None, None, 0)]
SHOWN = [("r", 1, 3, 0)]

# The events before, the event, and what the state knows after it.
CHANGES: Final[dict[type, tuple[tuple[Event, ...], Event, dict[str, object]]]] = {
    Queued: ((), QUEUED, {"inbox": ["q"], "bodies": [RED]}),
    Replaced: (
        (QUEUED,),
        Replaced(item=msgspec.structs.replace(QUEUED.item, reminder=a_reminder("q", body="green"))),
        {"inbox": ["q"], "bodies": ["green"]},
    ),
    Injected: ((), LIVE, {"live": ONE}),
    Inherited: (
        (),
        Inherited(reminder=a_reminder("r"), provenance=IN_PROCESS, sub_agent_id="helper"),
        {"live": ONE},
    ),
    Fired: (
        (LIVE, SENT),
        Fired(reminder_id="r", turn=1, rendered_role="system"),
        {"live": ONE, "request": (1, 1), "settling": ["r"]},
    ),
    Deferred: ((LIVE, SENT), Deferred(reminder_id="r", turn=1), {"live": ONE, "request": (1, 1), "left_out": ["r"]}),
    Deduped: ((LIVE,), Deduped(replaced_id="r", replacing_id="s", dedupe_key="k"), {}),
    Expired: ((LIVE,), Expired(reminder_id="r", reason=ExpiryReason.TTL, turn=1), {}),
    Revoked: ((QUEUED,), Revoked(reminder_id="q"), {}),
    Dropped: ((QUEUED,), Dropped(reminder_id="q", reason=DropReason.SESSION_CLOSED), {}),
    AuditRecorded: (
        (QUEUED,),
        AuditRecorded(reminder=a_reminder("q"), provenance=CLIENT, turn=0),
        {"audit": ["q"]},
    ),
    ProviderEvaluated: ((), ProviderEvaluated(provider_id="p", event_name="session_idle", fired=False), {}),
    InjectAccepted: ((Cancelled(),), SAID, {"inbox": ["m"]}),
    InjectDelivered: (
        (SAID,),
        InjectDelivered(message_id="m", content=tuple(a_text("one"))),
        {"messages": [{"role": "user", "id": "m", "content": a_text("one")}]},
    ),
    InjectRevoked: ((SAID,), InjectRevoked(message_id="m"), {}),
    InjectReplaced: ((SAID,), InjectReplaced(message_id="m", content=(), revision=2), {"inbox": ["m"]}),
    RequestCommitted: ((SENT,), RequestCommitted(turn=1, attempt=2), {"request": (1, 2)}),
    TurnCommitted: (
        (LIVE, SENT, Fired(reminder_id="r", turn=1, rendered_role="system")),
        TurnCommitted(turn=1, reply={"role": "assistant", "tool_calls": [CALL]}),
        {
            "live": SHOWN,
            "turn": 1,
            "messages": [{"role": "assistant", "tool_calls": [CALL]}],
            "open_calls": ["c1"],
        },
    ),
    TurnVoided: (
        (LIVE, SENT, Fired(reminder_id="r", turn=1, rendered_role="system")),
        TurnVoided(turn=1),
        {"live": ONE},
    ),
    Compacted: (
        (LIVE, SENT, Fired(reminder_id="r", turn=1, rendered_role="system"), TurnCommitted(turn=1)),
        Compacted(turn=1, archived_messages=2, messages=({"role": "system", "content": "so far"},)),
        {
            "live": [("r", 1, 2, 0)],
            "turn": 1,
            "window": 1,
            "messages": [{"role": "system", "content": "so far"}],
        },
    ),
    ResultRecorded: (
        (TurnCommitted(turn=1, reply={"role": "assistant", "tool_calls": [CALL, {"id": "c2"}]}),),
        ResultRecorded(call_id="c1", status="ok", message={"role": "tool"}),
        {
            "turn": 1,
            "messages": [{"role": "assistant", "tool_calls": [CALL, {"id": "c2"}]}, {"role": "tool"}],
            "open_calls": ["c2"],
        },
    ),
    Checkpoint: ((SKIPPED,), SKIPPED, {"skipped_batches": 2}),
    Started: ((), Started(), {"running": True}),
    Idled: ((Started(),), Idled(), {}),
    Cancelled: ((Started(), ASKED), Cancelled(), {"queue_held": True}),
    PermissionAsked: ((), ASKED, {"permissions": ["p"]}),
    PermissionReplied: ((ASKED,), PermissionReplied(request_id="p"), {}),
    Granted: ((), Granted(grant=GRANT), {"grants": [GRANT]}),
    Begun: (
        (),
        Begun(attributes={"cwd": "/src"}, messages=({"role": "user", "content": "hi"},)),
        {"records": {"cwd": "/src"}, "messages": [{"role": "user", "content": "hi"}]},
    ),
    Recorded: (
        (Begun(attributes={"cwd": "/src"}),),
        Recorded(name="title", value="t"),
        {"records": {"cwd": "/src", "title": "t"}},
    ),
    Equipped: (
        (),
        Equipped(ids=("provider mine",), closing={"completed": Closing(ends=True)}),
        {"equipped": ("provider mine",), "closing": {"completed": Closing(ends=True)}},
    ),
    Closed: ((Started(),), Closed(), {"closed": DropReason.SESSION_CLOSED}),
    Deleted: ((Begun(attributes={"cwd": "/src"}), QUEUED, LIVE, SENT, ASKED, Closed()), Deleted(), {"deleted": True}),
}


def test_there_is_a_row_for_every_event() -> None:
    assert CHANGES.keys() == set(get_args(Event))


@pytest.mark.parametrize("kind", CHANGES)
def test_an_event_changes_the_state(kind: type) -> None:
    before, event, after = CHANGES[kind]
    assert isinstance(event, kind)
    state = fold(before)
    apply(state, event)
    assert summary(state) == after


def test_a_new_state_is_empty() -> None:
    state = SessionState()
    assert summary(state) == {}
    assert (state.next_turn, state.permission_open) == (1, False)


def test_folding_continues_from_a_given_state() -> None:
    state = fold([QUEUED])
    assert fold([LIVE], state) is state
    assert summary(state) == {"inbox": ["q"], "bodies": [RED], "live": ONE}


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(Fired(reminder_id="r", turn=1, rendered_role="system"), id="fired-without-an-open-request"),
        pytest.param(Deferred(reminder_id="r", turn=1), id="deferred-without-an-open-request"),
        pytest.param(InjectReplaced(message_id="gone", content=(), revision=2), id="replaced-after-its-end"),
        pytest.param(PermissionReplied(request_id="gone"), id="reply-to-an-unknown-request"),
        pytest.param(Checkpoint(turn=0, seam=Seam.LOOP_EXIT, ids=("q",)), id="checkpoint-without-a-skip"),
    ],
)
def test_an_event_that_arrives_too_late_changes_nothing(late: Event) -> None:
    before = (QUEUED, LIVE, SAID)
    assert summary(fold([*before, late])) == summary(fold(before))


def test_a_reminder_that_ended_while_its_request_was_open_is_not_settled() -> None:
    shown, left_out = (Injected(reminder=a_reminder(name), provenance=IN_PROCESS) for name in ("shown", "left-out"))
    state = fold(
        [
            shown,
            left_out,
            SENT,
            Fired(reminder_id="shown", turn=1, rendered_role="system"),
            Deferred(reminder_id="left-out", turn=1),
            Expired(reminder_id="shown", reason=ExpiryReason.CLEARED, turn=0),
            Expired(reminder_id="left-out", reason=ExpiryReason.CLEARED, turn=0),
            TurnCommitted(turn=1),
        ]
    )
    assert summary(state) == {"turn": 1}


def test_a_request_of_another_turn_replaces_the_open_one() -> None:
    shown = Fired(reminder_id="r", turn=1, rendered_role="system")
    state = fold([LIVE, SENT, shown, RequestCommitted(turn=2)])
    assert summary(state) == {"live": ONE, "request": (2, 1)}
    assert state.next_turn == 3


def test_a_retry_keeps_what_the_first_attempt_showed() -> None:
    shown = Fired(reminder_id="r", turn=1, rendered_role="system")
    state = fold([LIVE, SENT, shown, RequestCommitted(turn=1, attempt=2), TurnCommitted(turn=1)])
    assert summary(state) == {"live": SHOWN, "turn": 1}


def test_a_compaction_that_keeps_only_the_lifecycle_leaves_the_messages() -> None:
    said = (SAID, InjectDelivered(message_id="m", content=tuple(a_text("one"))))
    state = fold([*said, Compacted(turn=0, archived_messages=1)])
    assert state.messages == fold(said).messages


def test_a_record_that_is_set_to_none_is_removed() -> None:
    state = fold([Begun(attributes={"cwd": "/src"}), Recorded(name="cwd"), Recorded(name="title")])
    assert state.records == {}


def test_a_queued_reminder_that_expires_leaves_the_inbox() -> None:
    state = fold([QUEUED, Expired(reminder_id="q", reason=ExpiryReason.CLEARED, turn=0)])
    assert summary(state) == {}
    assert state.inbox.tombstone("q") is not None


def test_a_session_exists_from_its_first_event_until_it_is_deleted() -> None:
    state = SessionState()
    seen = [state.exists]
    for event in (Started(), Deleted(), Idled(), Begun(), Started()):
        apply(state, event)
        seen.append(state.exists)
    assert seen == [False, True, False, False, True, True], "a late event does not bring a deleted session back"


def test_deleting_keeps_what_the_store_has_set() -> None:
    state = fold([Started()])
    state.attended, state.receipts = True, {"mine": None}
    apply(state, Deleted())
    assert (state.attended, state.receipts) == (True, {"mine": None})
