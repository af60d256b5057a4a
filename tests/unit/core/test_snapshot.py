"""Snapshots: a state that was encoded and decoded continues like the original."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import pytest
from hypothesis import settings

from sideband.core.apply import apply, fold
from sideband.core.events import (
    AuditRecorded,
    Begun,
    Cancelled,
    Checkpoint,
    Closed,
    Closing,
    Compacted,
    DropReason,
    Equipped,
    Event,
    Fired,
    Granted,
    Idled,
    InjectAccepted,
    InjectDelivered,
    Injected,
    InjectReplaced,
    PermissionAsked,
    PermissionReplied,
    Queued,
    QueuedMessage,
    QueuedReminder,
    Recorded,
    RequestCommitted,
    ResultRecorded,
    Started,
    TurnCommitted,
    TurnVoided,
    Usage,
)
from sideband.core.ledger import Form, Fragment, Lifetime, RequestHead
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.snapshot import UnknownSnapshot, decode, encode
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS, Grant, GrantField, Trust
from tests.builders import a_reminder
from tests.sessions import CLIENT, PEER
from tests.unit.core.session_machine import SessionMachine
from tests.unit.core.state_checks import check_indexes, from_json

PROFILE: Final = settings()


def facts(state: SessionState) -> dict[str, Any]:
    """All that a state knows, each list in its order."""
    known = {name: value for name, value in vars(state).items() if name not in ("inbox", "live", "receipts")}
    inbox, live = state.inbox, state.live
    known |= {"queued": list(inbox.items()), "tombstones": inbox._tombstones}
    return known | {"live": list(live), "turn": live.turn, "next_place": live.next_place}


def check_snapshots(journal: Iterable[Event]) -> None:
    """Fold a journal twice, once with a snapshot after every event; both states are equal."""
    straight, snapped = SessionState(), SessionState()
    for event in map(from_json, journal):
        apply(straight, event)
        apply(snapped, event)
        snapped = decode(encode(snapped))
        assert facts(snapped) == facts(straight)
        check_indexes(snapped)


class SnapshotMachine(SessionMachine):
    """Everything that may happen to a session; its journal is looked at when it is over."""

    def teardown(self) -> None:
        super().teardown()
        check_snapshots(self.session.core.journal)


TestEverySession = SnapshotMachine.TestCase
TestEverySession.settings = settings(max_examples=max(10, PROFILE.max_examples // 5))


def a_message(message_id: str, mode: InjectMode = InjectMode.QUEUE) -> QueuedMessage:
    return QueuedMessage(message_id=message_id, content=({"type": "text", "text": "hi"},), mode=mode, provenance=CLIENT)


def a_fragment(text: str, **fields: object) -> Fragment:
    kept = Fragment(anchor=1, form=Form.TEXT, role="user", scope=Lifetime.KEPT, text=text)
    return msgspec.structs.replace(kept, **fields)


CALL: Final = {"id": "c1", "name": "work", "args": {"path": "src/ä.py", "deep": [1, None, 2.5, True]}}
HEAD: Final = RequestHead(
    route="b", model="x:y", rendering={"placement": "tail"}, system="Be brief.", tools=({"name": "work"},)
)
HISTORY: Final[tuple[Event, ...]] = (
    Begun(attributes={"cwd": "/src", "task": {"id": "t1"}}, messages=({"role": "user", "content": "copied"},)),
    Recorded(name="title", value="Fix it"),
    Granted(grant=Grant(trust=Trust.PEER, principal="planner", field=GrantField.TTL_TURNS, value=9)),
    Equipped(ids=("provider mine", "hook tell"), closing={"completed": Closing(records={"done": True}, ends=True)}),
    InjectAccepted(item=a_message("m1")),
    InjectAccepted(item=a_message("m2")),
    InjectReplaced(message_id="m1", content=({"type": "text", "text": "ho"},), revision=2),
    Started(),
    InjectDelivered(message_id="m1", content=({"type": "text", "text": "ho"},)),
    Injected(reminder=a_reminder("r1", dedupe_key="k", tags=("a", "b"), ttl_turns=2), provenance=IN_PROCESS),
    Injected(reminder=a_reminder("r2"), provenance=PEER),
    Queued(item=QueuedReminder(reminder=a_reminder("r3"), mode=Mode.AUDIT_ONLY, provenance=CLIENT)),
    RequestCommitted(turn=1, route="a", fragments=(a_fragment("lost", reminders=("r1",), handle=1),)),
    Fired(reminder_id="r1", turn=1, rendered_role="user"),
    RequestCommitted(turn=1, attempt=2),
    TurnVoided(turn=1),
    RequestCommitted(turn=1, route="a", fragments=(a_fragment("kept", reminders=("r2",), handle=4),)),
    Fired(reminder_id="r1", turn=1, rendered_role="user"),
    Fired(reminder_id="r2", turn=1, rendered_role="user"),
    TurnCommitted(turn=1, reply={"role": "assistant", "tool_calls": [CALL, {**CALL, "id": "c2"}]}, usage=Usage()),
    PermissionAsked(request_id="p1"),
    PermissionAsked(request_id="p2"),
    PermissionReplied(request_id="p1"),
    ResultRecorded(call_id="c1", status="interrupted", message={"role": "tool", "content": "no"}),
    Checkpoint(turn=1, seam=Seam.PRE_TOOL_DISPATCH, ids=("r1",), dispatch_skipped=True),
    AuditRecorded(reminder=a_reminder("r3"), provenance=CLIENT, turn=1),
    Cancelled(hold_queue=True),
    Compacted(turn=1, archived_messages=2, messages=({"role": "user", "content": "so far"},)),
    RequestCommitted(turn=2, route="b", fragments=(a_fragment("gone", withdraws=(4,)),), head=HEAD),
    TurnCommitted(turn=2),
    Idled(),
    Closed(reason=DropReason.TASK_FINISHED),
)


def test_a_snapshot_may_be_taken_after_any_event_of_a_run() -> None:
    check_snapshots(HISTORY)
    state = fold(HISTORY[:24])
    assert state.permissions == {"p2": None}
    assert state.open_calls.keys() == {"c2"}
    assert state.ledger.next_handle == 5
    assert (state.head, fold(HISTORY).head) == (None, HEAD)


@pytest.mark.parametrize(("field", "value"), [("head", None), ("equipped", ())])
def test_a_snapshot_written_before_a_field_existed_can_be_read(field: str, value: object) -> None:
    older = msgspec.json.decode(encode(fold(HISTORY)))
    del older[field]
    assert getattr(decode(msgspec.json.encode(older)), field) == value


def test_a_snapshot_has_every_field_of_a_state_but_the_two_that_a_store_sets() -> None:
    state = SessionState()
    state.attended, state.receipts = True, {"mine": None}
    assert {*vars(state)} - {*msgspec.json.decode(encode(state))} == {"attended", "receipts"}
    read = decode(encode(state))
    assert (read.attended, read.receipts) == (False, {})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "not a snapshot", id="empty"),
        pytest.param(b"\xff\xfe", "not a snapshot", id="not-utf-8"),
        pytest.param(b"[]", "not a snapshot", id="something-else"),
        pytest.param(b'{"version":1}', "not a snapshot", id="fields-missing"),
        pytest.param(encode(SessionState())[:-1], "not a snapshot", id="truncated"),
        pytest.param(b'{"version":2,"inbox":{}}', "has version 2; this program reads version 1", id="a-later-version"),
    ],
)
def test_a_damaged_or_newer_snapshot_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(UnknownSnapshot, match=message):
        decode(data)
