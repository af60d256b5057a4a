"""Updates as JSON: the names of the API, nothing that has its default, and no long tool output."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from sideband.core.events import Boundary, DropReason, QueuedMessage, Usage
from sideband.core.reminder import RoleHint
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.trust import Provenance, Trust
from sideband.core.updates import (
    CheckpointUpdate,
    CompactionUpdate,
    MessageUpdate,
    PermissionUpdate,
    Phase,
    ProviderUpdate,
    ReminderUpdate,
    ResultUpdate,
    RunUpdate,
    SessionUpdate,
    TurnUpdate,
    Update,
    UpdateKind,
)
from sideband.inspect.update_json import update_json
from tests.builders import a_reminder, a_text
from tests.unit.inspect.test_timeline import Told, long_histories
from tests.viewed_histories import Happening

PEER = Provenance(
    trust=Trust.PEER,
    principal="ann",
    via="a2a",
    requested={"ttl_turns": None, "role_hint": RoleHint.SYSTEM},
    claims={"source": "boss"},
    meta={"trace": 1},
)
ITEM = QueuedMessage(message_id="m1", content=tuple(a_text("Go.")), mode=InjectMode.STEER, provenance=PEER)
RECORD = {
    "id": "r1",
    "body": "The build is red.",
    "tags": ["ci"],
    "preserveOnCompact": False,
    "propagate": "session",
    "roleHint": "system",
    "source": "in_pipeline",
    "firedAtTurn": 0,
}
SENDER = {
    "trust": "peer",
    "principal": "ann",
    "via": "a2a",
    "requested": {"ttlTurns": None, "roleHint": "system"},
    "claims": {"source": "boss"},
    "meta": {"trace": 1},
}


def of(shape: type[Update], kind: UpdateKind, **fields: object) -> Update:
    return shape(cursor=7, time=1_000, kind=kind, **fields)


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        pytest.param(
            of(
                ReminderUpdate,
                UpdateKind.REMINDER_QUEUED,
                reminder_id="r1",
                reminder=a_reminder(body="The build is red.", tags=("ci",)),
                provenance=PEER,
                mode=Mode.FINISH_STEP,
            ),
            {"reminderId": "r1", "reminder": RECORD, "sender": SENDER, "mode": "finish_step"},
            id="a-reminder-with-its-record-and-sender",
        ),
        pytest.param(
            of(
                ReminderUpdate,
                UpdateKind.REMINDER_INHERITED,
                reminder_id="r1",
                reminder=a_reminder(
                    body="The build is red.",
                    tags=("ci",),
                    dedupe_key="ci",
                    ttl_turns=2,
                    originating_agent_id="boss",
                ),
                sub_agent_id="child",
                dedupe_key="ci",
            ),
            {
                "reminderId": "r1",
                "reminder": {**RECORD, "dedupeKey": "ci", "ttlTurns": 2, "originatingAgentId": "boss"},
                "subAgentId": "child",
                "dedupeKey": "ci",
            },
            id="the-optional-fields-of-a-record",
        ),
        pytest.param(
            of(
                ReminderUpdate,
                UpdateKind.REMINDER_EMITTED,
                reminder_id="r1",
                turn=3,
                rendered_role="user",
                via="proxy",
                seam=Seam.ITERATION_START,
            ),
            {"reminderId": "r1", "turn": 3, "renderedRole": "user", "via": "proxy", "seam": "iteration_start"},
            id="a-showing",
        ),
        pytest.param(
            of(ReminderUpdate, UpdateKind.REMINDER_DEDUPED, reminder_id="r2", dropped_ids=("r0", "r1")),
            {"reminderId": "r2", "droppedIds": ["r0", "r1"]},
            id="several-that-one-replaces",
        ),
        pytest.param(
            of(
                ReminderUpdate,
                UpdateKind.REMINDER_EXPIRED,
                reminder_id="r1",
                turn=3,
                phase=Phase.COMPACTED_OUT,
                boundary=Boundary.PRE_COMPACT,
            ),
            {"reminderId": "r1", "turn": 3, "phase": "compacted_out", "boundary": "pre_compact"},
            id="an-end",
        ),
        pytest.param(
            of(
                ReminderUpdate,
                UpdateKind.REMINDER_DROPPED,
                reminder_id="r1",
                reason=DropReason.RATE_LIMITED,
                at_the_door=True,
                count=3,
            ),
            {"reminderId": "r1", "reason": "rate_limited", "atTheDoor": True, "count": 3},
            id="refusals",
        ),
        pytest.param(
            of(
                ProviderUpdate,
                UpdateKind.PROVIDER_EVALUATED,
                provider_id="p",
                event_name="post_turn",
                fired=False,
                error="no",
                skipped="budget",
            ),
            {"providerId": "p", "eventName": "post_turn", "fired": False, "error": "no", "skipped": "budget"},
            id="a-provider",
        ),
        pytest.param(
            of(
                MessageUpdate,
                UpdateKind.MESSAGE_ACCEPTED,
                message_id="m1",
                item=ITEM,
                content=({"type": "text", "text": "Go."}, {"type": "image", "url": "https://e.org/a.png"}),
                revision=1,
                provenance=Provenance(provider_id="hook"),
            ),
            {
                "messageId": "m1",
                "mode": "steer",
                "text": "Go.",
                "otherBlocks": 1,
                "revision": 1,
                "sender": {"trust": "operator", "providerId": "hook"},
            },
            id="a-message",
        ),
        pytest.param(
            of(MessageUpdate, UpdateKind.MESSAGE_REVOKED, message_id="m1", reason=DropReason.SESSION_CLOSED),
            {"messageId": "m1", "reason": "session_closed"},
            id="the-end-of-a-message",
        ),
        pytest.param(
            of(MessageUpdate, UpdateKind.MESSAGE_DELIVERED, message_id="m1", content=(), audit_only=True),
            {"messageId": "m1", "text": "", "auditOnly": True},
            id="a-message-on-record",
        ),
        pytest.param(
            of(TurnUpdate, UpdateKind.TURN_OPENED, turn=2, attempt=1, reply_id="m2"),
            {"turn": 2, "attempt": 1, "replyId": "m2"},
            id="a-request",
        ),
        pytest.param(
            of(
                TurnUpdate,
                UpdateKind.TURN_COMMITTED,
                turn=2,
                reply={
                    "role": "assistant",
                    "content": "I look.",
                    "tool_calls": [{"id": "c1", "name": "read", "args": {"path": "x" * 5_000, "deep": [{"a": 1}]}}],
                },
                usage=Usage(prompt_tokens=10, output_tokens=2, cached_tokens=8, written_tokens=1),
            ),
            {
                "turn": 2,
                "text": "I look.",
                "calls": [{"id": "c1", "name": "read", "args": {"path": "x" * 4_096 + "…", "deep": [{"a": 1}]}}],
                "usage": {"promptTokens": 10, "outputTokens": 2, "cacheReadTokens": 8, "cacheWriteTokens": 1},
            },
            id="a-reply",
        ),
        pytest.param(
            of(
                ResultUpdate,
                UpdateKind.RESULT_RECORDED,
                call_id="c1",
                status="ok",
                message={"role": "tool", "name": "read", "content": "ä" * 5_000},
            ),
            {"callId": "c1", "name": "read", "status": "ok", "text": "ä" * 4_096, "bytes": 10_000},
            id="a-result",
        ),
        pytest.param(
            of(CompactionUpdate, UpdateKind.COMPACTED, turn=3, archived_messages=9, messages=()),
            {"turn": 3, "archivedMessages": 9},
            id="a-compaction-without-its-messages",
        ),
        pytest.param(
            of(CheckpointUpdate, UpdateKind.CHECKPOINT, turn=3, seam=Seam.LOOP_EXIT, ids=("r1",)),
            {"turn": 3, "seam": "loop_exit", "ids": ["r1"]},
            id="a-drain",
        ),
        pytest.param(
            of(
                CheckpointUpdate,
                UpdateKind.CHECKPOINT,
                turn=3,
                seam=Seam.PRE_TOOL_DISPATCH,
                ids=(),
                dispatch_skipped=True,
            ),
            {"turn": 3, "seam": "pre_tool_dispatch", "ids": [], "dispatchSkipped": True},
            id="a-skipped-batch",
        ),
        pytest.param(of(RunUpdate, UpdateKind.RUN_STARTED, message_id="m1"), {"messageId": "m1"}, id="a-run"),
        pytest.param(of(RunUpdate, UpdateKind.RUN_IDLED, status="completed"), {"status": "completed"}, id="its-end"),
        pytest.param(
            of(PermissionUpdate, UpdateKind.PERMISSION_ASKED, request_id="c1"), {"requestId": "c1"}, id="a-question"
        ),
        pytest.param(
            of(
                SessionUpdate,
                UpdateKind.SESSION_BEGUN,
                records={"title": "A"},
                messages=(
                    {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "audio", "data": ""}]},
                    {"role": "assistant", "id": "m9", "content": "Ho"},
                ),
            ),
            {
                "records": {"title": "A"},
                "messages": [
                    {"id": "7.0", "role": "user", "text": "Hi", "otherBlocks": 1},
                    {"id": "m9", "role": "assistant", "text": "Ho"},
                ],
            },
            id="a-session-with-messages",
        ),
        pytest.param(
            of(SessionUpdate, UpdateKind.SESSION_CLOSED, reason=DropReason.TASK_FINISHED),
            {"reason": "task_finished"},
            id="a-closed-session",
        ),
    ],
)
def test_an_update_has_its_fields_and_no_others(update: Update, expected: dict[str, Any]) -> None:
    found = msgspec.json.decode(msgspec.json.encode(update_json(update)))
    assert found == {"cursor": 7, "time": 1_000, "kind": update.kind.value, **expected}


def test_a_time_that_was_not_recorded_is_left_out() -> None:
    update = RunUpdate(cursor=1, time=None, kind=UpdateKind.RUN_CANCELLED)
    assert update_json(update) == {"cursor": 1, "kind": "run.cancelled"}


@given(long_histories)
def test_every_update_can_be_written(history: list[Happening]) -> None:
    for update in Told(history).updates:
        found = msgspec.json.decode(msgspec.json.encode(update_json(update)))
        assert (found["cursor"], found["kind"]) == (update.cursor, update.kind)
        assert None not in found.values()
