"""The events: what an observer sees of each on the lifecycle topic, and what the journal keeps."""

import re
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.accept import Selector
from sideband.core.events import (
    AuditRecorded,
    Begun,
    Boundary,
    Cancelled,
    Checkpoint,
    Closed,
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
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.propagation import propagate, seed_child
from sideband.core.reminder import Propagate, Reminder, RoleHint, Source
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.topic import KINDS, TOPIC, Correlation, publish
from sideband.core.trust import Grant, GrantField, Provenance, Trust
from tests.builders import a_draft, a_reminder
from tests.sessions import Session

REMINDER = a_reminder(
    "r1",
    body="Zanzibar moonlight.",
    tags=("ci",),
    dedupe_key="ci:status",
    ttl_turns=3,
    preserve_on_compact=True,
    propagate=Propagate.ALL,
    role_hint=RoleHint.DEVELOPER,
    source=Source.BRIDGE,
    fired_at_turn=4,
    originating_agent_id="root",
)
LIFECYCLE: dict[str, object] = {
    "reminder_id": "r1",
    "tags": ["ci"],
    "dedupe_key": "ci:status",
    "source": "bridge",
    "role_hint": "developer",
    "ttl_turns": 3,
    "preserve_on_compact": True,
    "propagate": "all",
}
PEER = Provenance(
    trust=Trust.PEER,
    principal="coordinator",
    provider_id="ci",
    via="a2a",
    claims={"source": "boss", "fired_at_turn": 9},
    requested={"role_hint": RoleHint.SYSTEM, "ttl_turns": 9},
    hops=2,
)
ORIGIN: dict[str, object] = {
    "trust": "peer",
    "principal": "coordinator",
    "provider_id": "ci",
    "requested": {"role_hint": "system", "ttl_turns": 9},
}
CONTENT: tuple[dict[str, Any], ...] = ({"type": "text", "text": "Zanzibar moonlight."},)
MESSAGE = QueuedMessage(message_id="m1", content=CONTENT, mode=InjectMode.STEER, provenance=PEER, revision=2)
QUEUED = QueuedReminder(
    reminder=REMINDER, mode=Mode.FINISH_STEP, provenance=PEER, caller_id="r1", fingerprint="f", deduped_count=1
)

PUBLISHED: tuple[Event, ...] = (
    Queued(item=QUEUED),
    Replaced(item=QUEUED),
    Injected(reminder=REMINDER, provenance=PEER, seam=Seam.ITERATION_START),
    Inherited(reminder=REMINDER, provenance=PEER, sub_agent_id="child"),
    Fired(reminder_id="r1", turn=4, rendered_role="user", carried=True),
    Deferred(reminder_id="r1", turn=4, provenance=PEER),
    Deduped(replaced_id="r1", replacing_id="r2", dedupe_key="ci:status", boundary=Boundary.PRE_COMPACT),
    Expired(reminder_id="r1", reason=ExpiryReason.COMPACTION, turn=4, boundary=Boundary.PRE_COMPACT),
    Revoked(reminder_id="r1"),
    Dropped(reminder_id="r1", reason=DropReason.CAPABILITY_MISMATCH, at_the_door=True),
    AuditRecorded(reminder=REMINDER, provenance=PEER, turn=4),
    ProviderEvaluated(
        provider_id="idle_nudge", event_name="session_idle", fired=False, error="HARN-RMD-006", skipped="budget"
    ),
    InjectAccepted(item=MESSAGE),
    InjectDelivered(message_id="m1", content=CONTENT, audit_only=True),
    InjectRevoked(message_id="m1", reason=DropReason.SESSION_CLOSED),
    InjectReplaced(message_id="m1", content=CONTENT, revision=3),
)
PRIVATE: tuple[Event, ...] = (
    RequestCommitted(turn=4, attempt=2),
    TurnCommitted(turn=4, reply={"role": "assistant", "content": "On it."}),
    TurnVoided(turn=4),
    Compacted(turn=4, archived_messages=12, messages=({"role": "system", "content": "In short."},)),
    ResultRecorded(call_id="c1", status="ok", message={"role": "tool", "content": "done"}),
    Checkpoint(turn=4, seam=Seam.PRE_TOOL_DISPATCH, ids=("r1", "m1"), dispatch_skipped=True),
    Begun(attributes={"cwd": "/srv"}, messages=({"role": "user", "content": "Go on."},)),
    Recorded(name="title", value="A title"),
    Started(),
    Idled(status="completed"),
    Cancelled(hold_queue=False),
    PermissionAsked(request_id="p1"),
    PermissionReplied(request_id="p1"),
    Granted(grant=Grant(trust=Trust.SERVER, principal="ci", field=GrantField.TTL_TURNS, value=5, until=60)),
    Equipped(ids=("provider mine",)),
    Closed(reason=DropReason.TASK_FINISHED),
    Deleted(),
)


def payload(event: Event) -> dict[str, Any]:
    """What an observer sees of `event` beside which run it belongs to."""
    published = publish(event, Correlation())
    assert published is not None
    return {name: value for name, value in published.payload.items() if name not in Correlation.__struct_fields__}


def name_of(event: Event) -> str:
    return type(event).__name__


@pytest.mark.requirement("events:journal:full-values")
def test_the_tables_have_every_event() -> None:
    assert {type(event) for event in (*PUBLISHED, *PRIVATE)} == set(get_args(Event))
    assert {type(event) for event in PUBLISHED} == KINDS.keys()


@pytest.mark.requirement("events:topic:name")
def test_the_topic_has_its_name() -> None:
    assert TOPIC == "transcript.reminder.lifecycle"


@pytest.mark.requirement("events:payload:session-task-agent")
@pytest.mark.parametrize("event", PUBLISHED, ids=name_of)
def test_every_payload_says_which_run_it_belongs_to(event: Event) -> None:
    known = publish(event, Correlation(session_id="s", task_id="t", agent_id="a"))
    unknown = publish(event, Correlation())
    assert known is not None
    assert unknown is not None
    run = ("session_id", "task_id", "agent_id")
    assert [known.payload[name] for name in run] == ["s", "t", "a"]
    assert [unknown.payload[name] for name in run] == [None, None, None]


@pytest.mark.requirement("events:record:fields")
def test_a_record_has_its_number_its_time_its_kind_its_session_and_its_payload() -> None:
    record = publish(Revoked(reminder_id="r1"), Correlation(session_id="s"), seq=7, time="2024-07-11T12:09:25.716Z")
    assert msgspec.to_builtins(record) == {
        "seq": 7,
        "time": "2024-07-11T12:09:25.716Z",
        "kind": "transcript.reminder.revoked",
        "session_id": "s",
        "payload": {"session_id": "s", "task_id": None, "agent_id": None, "reminder_id": "r1"},
    }


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        pytest.param(
            Injected(reminder=REMINDER, provenance=PEER, seam=Seam.ITERATION_START),
            {**LIFECYCLE, "seam": "iteration_start", **ORIGIN},
            id="injected-by-a-drain",
            marks=pytest.mark.requirement("events:injected:payload"),
        ),
        pytest.param(
            Injected(reminder=a_reminder("r1"), provenance=Provenance()),
            {
                "reminder_id": "r1",
                "tags": [],
                "dedupe_key": None,
                "source": "in_pipeline",
                "role_hint": "system",
                "ttl_turns": None,
                "preserve_on_compact": False,
                "propagate": "session",
                "trust": "operator",
            },
            id="injected-in-process",
            marks=pytest.mark.requirement("events:injected:payload"),
        ),
        pytest.param(
            Fired(reminder_id="r1", turn=4, rendered_role="user"),
            {"reminder_id": "r1", "turn_number": 4, "rendered_role": "user"},
            id="fired",
            marks=pytest.mark.requirement("events:fired:payload"),
        ),
        pytest.param(
            Fired(reminder_id="r1", turn=4, rendered_role="user", carried=True),
            {"reminder_id": "r1", "turn_number": 4, "rendered_role": "user", "carried": True},
            id="fired-without-new-bytes",
            marks=pytest.mark.requirement("events:fired:payload"),
        ),
        pytest.param(
            Deduped(replaced_id="r1", replacing_id="r2", dedupe_key="k"),
            {"replaced_id": "r1", "replacing_id": "r2", "dedupe_key": "k"},
            id="deduped",
            marks=pytest.mark.requirement("events:deduped:payload"),
        ),
        pytest.param(
            Deduped(replaced_id="r1", replacing_id="r2", dedupe_key="k", boundary=Boundary.PRE_COMPACT),
            {"replaced_id": "r1", "replacing_id": "r2", "dedupe_key": "k", "boundary": "pre_compact"},
            id="deduped-by-a-compaction",
            marks=pytest.mark.requirement("events:deduped:payload"),
        ),
        pytest.param(
            Expired(reminder_id="r1", reason=ExpiryReason.TTL, turn=4),
            {"reminder_id": "r1", "reason": "ttl", "expired_at_turn": 4},
            id="expired",
            marks=pytest.mark.requirement("events:expired:payload"),
        ),
        pytest.param(
            Expired(reminder_id="r1", reason=ExpiryReason.COMPACTION, turn=4, boundary=Boundary.PRE_COMPACT),
            {"reminder_id": "r1", "reason": "compaction", "expired_at_turn": 4, "boundary": "pre_compact"},
            id="expired-by-a-compaction",
            marks=pytest.mark.requirement("events:expired:payload"),
        ),
        pytest.param(
            Dropped(reminder_id="r1", reason=DropReason.INVALID),
            {"reminder_id": "r1", "reason": "invalid"},
            id="dropped",
            marks=pytest.mark.requirement("events:dropped:payload"),
        ),
        pytest.param(
            Dropped(reminder_id="r1", reason=DropReason.INVALID, at_the_door=True),
            {"reminder_id": "r1", "reason": "invalid", "at_the_door": True},
            id="refused",
            marks=pytest.mark.requirement("events:dropped:payload", "events:key:session-and-reminder"),
        ),
        pytest.param(
            Inherited(reminder=REMINDER, provenance=PEER, sub_agent_id="child"),
            {"reminder_id": "r1", "originating_agent_id": "root", "sub_agent_id": "child", "propagate": "all"},
            id="inherited",
            marks=pytest.mark.requirement("events:inherited:payload"),
        ),
        pytest.param(
            ProviderEvaluated(provider_id="idle_nudge", event_name="session_idle", fired=True),
            {"provider_id": "idle_nudge", "event": "session_idle", "fired": True},
            id="provider-evaluated",
            marks=pytest.mark.requirement("events:provider_evaluated:payload"),
        ),
        pytest.param(
            ProviderEvaluated(provider_id="mine", event_name="post_turn", fired=False, error="HARN-RMD-006"),
            {"provider_id": "mine", "event": "post_turn", "fired": False, "error": "HARN-RMD-006"},
            id="provider-failed",
            marks=pytest.mark.requirement("events:provider_evaluated:payload"),
        ),
        pytest.param(
            Queued(item=QUEUED),
            {**LIFECYCLE, "mode": "finish_step", **ORIGIN},
            id="queued",
            marks=pytest.mark.requirement("events:queued:payload"),
        ),
        pytest.param(
            Replaced(item=QUEUED),
            {**LIFECYCLE, "mode": "finish_step", **ORIGIN},
            id="replaced",
            marks=pytest.mark.requirement("events:replaced:payload"),
        ),
        pytest.param(
            Revoked(reminder_id="r1"),
            {"reminder_id": "r1"},
            id="revoked",
            marks=pytest.mark.requirement("events:revoked:payload"),
        ),
        pytest.param(
            AuditRecorded(reminder=REMINDER, provenance=PEER, turn=4),
            {**LIFECYCLE, "turn_number": 4, **ORIGIN},
            id="audit-recorded",
            marks=pytest.mark.requirement("events:audit_recorded:payload"),
        ),
        pytest.param(
            Deferred(reminder_id="r1", turn=4),
            {"reminder_id": "r1", "turn_number": 4},
            id="deferred",
            marks=pytest.mark.requirement("events:deferred:payload"),
        ),
        pytest.param(
            InjectAccepted(item=MESSAGE),
            {"message_id": "m1", "mode": "steer"},
            id="message-accepted",
            marks=pytest.mark.requirement("events:inject:kinds"),
        ),
        pytest.param(
            InjectDelivered(message_id="m1", content=CONTENT),
            {"message_id": "m1"},
            id="message-delivered",
            marks=pytest.mark.requirement("events:inject:kinds"),
        ),
        pytest.param(
            InjectRevoked(message_id="m1"),
            {"message_id": "m1"},
            id="message-revoked",
            marks=pytest.mark.requirement("events:inject:kinds"),
        ),
        pytest.param(
            InjectRevoked(message_id="m1", reason=DropReason.SESSION_CLOSED),
            {"message_id": "m1", "reason": "session_closed"},
            id="message-revoked-by-the-end",
            marks=pytest.mark.requirement("events:inject:kinds"),
        ),
        pytest.param(
            InjectReplaced(message_id="m1", content=CONTENT, revision=3),
            {"message_id": "m1", "revision": 3},
            id="message-replaced",
            marks=pytest.mark.requirement("events:inject:kinds"),
        ),
    ],
)
def test_a_payload_has_exactly_its_fields(event: Event, expected: dict[str, object]) -> None:
    assert payload(event) == expected


def kinds(session: Session) -> list[str]:
    """What a subscriber saw of a session, without the common prefix."""
    seen = [publish(event, Correlation()) for event in session.journal]
    return [record.kind.removeprefix("transcript.reminder.") for record in seen if record is not None]


@pytest.mark.requirement(
    "events:queued:payload", "events:injected:payload", "events:deduped:payload", "events:fired:payload"
)
def test_a_reminder_is_seen_from_its_acceptance_to_its_showing() -> None:
    session = Session()
    session.inject(a_reminder("old", dedupe_key="k"))
    session.accept(a_draft(dedupe_key="k"))
    session.drain()
    session.turn()
    assert kinds(session) == ["injected", "queued", "deduped", "injected", "fired"]


@pytest.mark.requirement("events:expired:payload", "events:dropped:payload")
def test_each_way_to_end_is_seen_with_its_reason() -> None:
    session = Session()
    for name, ttl in (("by ttl", 1), ("by compaction", None), ("by clearing", None), ("by dropping", None)):
        session.inject(a_reminder(name, ttl_turns=ttl))
    session.turn()
    session.clear(Selector(id="by clearing"))
    session.drop("by dropping", DropReason.INVALID)
    session.compact()
    ends = [payload(event) for event in session.journal if isinstance(event, Expired | Dropped)]
    assert [(end["reminder_id"], end["reason"]) for end in ends] == [
        ("by ttl", "ttl"),
        ("by clearing", "cleared"),
        ("by dropping", "invalid"),
        ("by compaction", "compaction"),
    ]


@pytest.mark.requirement("events:revoked:payload", "events:audit_recorded:payload", "events:deferred:payload")
def test_withdrawing_recording_and_leaving_out_are_seen() -> None:
    session = Session()
    session.revoke(session.accept(a_draft()).reminder_id)
    session.accept(a_draft(mode=Mode.AUDIT_ONLY))
    session.drain(Seam.LOOP_EXIT)
    session.inject(a_reminder("a"))
    session.turn(left_out=["a"])
    assert kinds(session) == ["queued", "revoked", "queued", "audit_recorded", "injected", "deferred"]


@pytest.mark.requirement("events:kind:prefix", "events:inject:kinds")
@pytest.mark.parametrize("event", PUBLISHED, ids=name_of)
def test_a_kind_is_its_prefix_and_the_name_of_the_event(event: Event) -> None:
    published = publish(event, Correlation())
    assert published is not None
    words = re.findall("[A-Z][a-z]+", name_of(event))
    prefix = "transcript.inject." if words[0] == "Inject" else "transcript.reminder."
    assert published.kind == prefix + "_".join(word.lower() for word in words if word != "Inject")


@pytest.mark.requirement("events:kind:prefix")
@pytest.mark.parametrize("event", PRIVATE, ids=name_of)
def test_what_only_recovery_needs_is_not_published(event: Event) -> None:
    assert publish(event, Correlation(session_id="s")) is None


@pytest.mark.requirement("events:key:session-and-reminder")
def test_a_reminder_and_its_copy_are_told_apart_by_their_sessions() -> None:
    parent, child = Session(), Session()
    parent.inject(a_reminder("a"))
    handoff = propagate(parent.state, agent_id="parent", limits=DEFAULT_LIMITS)
    child.decide(seed_child(child.state, handoff.reminder_propagation, sub_agent_id="child", hop=Trust.OPERATOR))
    parent.turn()
    child.turn()
    seen = [
        (record.payload["session_id"], record.payload["reminder_id"], record.kind)
        for name, session in (("parent", parent), ("child", child))
        for event in session.journal
        if (record := publish(event, Correlation(session_id=name))) is not None
    ]
    assert seen == [
        ("parent", "a", "transcript.reminder.injected"),
        ("parent", "a", "transcript.reminder.fired"),
        ("child", "a", "transcript.reminder.inherited"),
        ("child", "a", "transcript.reminder.fired"),
    ]


@pytest.mark.requirement("events:projection:no-bodies")
@pytest.mark.parametrize("event", PUBLISHED, ids=name_of)
def test_no_word_of_a_body_or_message_is_published(event: Event) -> None:
    published = publish(event, Correlation(session_id="s"))
    text = msgspec.json.encode(published).decode()
    assert "Zanzibar" not in text
    assert "moonlight" not in text


# The journal.


@pytest.mark.requirement("events:journal:full-values")
@pytest.mark.parametrize("event", [*PUBLISHED, *PRIVATE], ids=name_of)
def test_an_event_is_read_back_from_the_journal_as_it_was(event: Event) -> None:
    decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
    assert decoder.decode(msgspec.json.encode(event)) == event


TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
REMINDERS = st.builds(
    Reminder,
    id=TEXT,
    body=TEXT,
    tags=st.lists(TEXT, max_size=3).map(tuple),
    dedupe_key=st.none() | TEXT,
    ttl_turns=st.none() | st.integers(1, 1_000_000),
    preserve_on_compact=st.booleans(),
    propagate=st.sampled_from(Propagate),
    role_hint=st.sampled_from(RoleHint),
    source=st.sampled_from(Source),
    fired_at_turn=st.integers(-(2**63), 2**63 - 1),
    originating_agent_id=st.none() | TEXT,
)


@pytest.mark.requirement("events:journal:full-values")
@given(reminder=REMINDERS)
def test_every_record_is_read_back_from_the_journal_as_it_was(reminder: Reminder) -> None:
    event = Injected(reminder=reminder, provenance=PEER)
    decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
    assert decoder.decode(msgspec.json.encode(event)) == event
