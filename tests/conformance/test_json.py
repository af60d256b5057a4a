"""Records as JSON: what is written is read again, and what is not such a record is refused."""

import json
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.accept import Accepted
from sideband.core.apply import apply
from sideband.core.errors import InvalidOption, ReminderError, UnknownOption, UnknownPropagate
from sideband.core.events import Event, InjectAccepted
from sideband.core.reminder import MAX_TTL_TURNS, Propagate, Reminder, ReminderId, RoleHint, Source
from sideband.core.serialize import JsonRecord
from sideband.core.state import SessionState
from sideband.core.topic import Correlation, TopicRecord, publish
from sideband.core.transcript import Transcript, TranscriptEvent, Visibility, reminder_event
from sideband.core.trust import Provenance, Trust
from sideband.core.updates import OPERATOR, ReminderUpdate, TurnUpdate, Update, UpdateKind, update_of
from sideband.loop.receipts import Audit, ReminderReceipt, ToolCallReceipt
from tests.viewed_histories import TOUR, Happening, committed, histories

texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-(2**63), 2**63 - 1)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, values, max_size=3)
reminders = st.builds(
    Reminder,
    id=texts.map(ReminderId),
    body=texts,
    tags=st.lists(texts, max_size=3).map(tuple),
    dedupe_key=st.none() | texts,
    ttl_turns=st.none() | st.integers(1, MAX_TTL_TURNS),
    preserve_on_compact=st.booleans(),
    propagate=st.sampled_from(Propagate),
    role_hint=st.sampled_from(RoleHint),
    source=st.sampled_from(Source),
    fired_at_turn=numbers,
    originating_agent_id=st.none() | texts,
)
# A reminder by itself is read as a producer may send it; in a transcript it may have any text.
plain = st.text("abcXYZ.äß日", min_size=1)
plain_reminders = st.builds(
    Reminder,
    id=plain.map(ReminderId),
    body=plain,
    tags=st.lists(plain, max_size=3, unique=True).map(tuple),
    dedupe_key=st.none() | plain,
    ttl_turns=st.none() | st.integers(1, MAX_TTL_TURNS),
    source=st.sampled_from(Source),
    fired_at_turn=st.integers(0, 2**63 - 1),
    originating_agent_id=st.none() | plain,
)
provenances = st.none() | st.builds(
    Provenance, trust=st.sampled_from(Trust), principal=st.none() | texts, hops=st.integers(0, 8), claims=objects
)
events = st.builds(
    TranscriptEvent,
    id=texts,
    kind=texts,
    role=texts,
    visibility=st.sampled_from(Visibility),
    text=texts,
    reminder=st.none() | reminders,
    provenance=provenances,
)
transcripts = st.builds(
    Transcript, messages=st.lists(objects, max_size=3).map(tuple), events=st.lists(events, max_size=3).map(tuple)
)
accepts = st.builds(
    Accepted,
    reminder_id=texts.map(ReminderId),
    deduped_count=numbers,
    requested=objects,
    effective=objects,
    accepted_at=numbers,
    version=numbers,
    is_free=st.booleans(),
)
receipts = st.builds(
    ToolCallReceipt,
    session_id=texts,
    tool_call_id=texts,
    tool_name=texts,
    args=objects,
    status=st.none() | texts,
    audit=st.builds(
        Audit,
        reminders=st.lists(
            st.builds(
                ReminderReceipt,
                hook_event=texts,
                session_id=texts,
                tool_call_id=texts,
                reminder_id=texts,
                tags=st.lists(texts, max_size=2).map(tuple),
                dedupe_key=st.none() | texts,
                source=texts,
                role_hint=texts,
                ttl_turns=st.none() | numbers,
                deduped_count=numbers,
            ),
            max_size=2,
        ),
    ),
)


def again(record: JsonRecord) -> JsonRecord:
    written = record.to_json()
    # Every reader of JSON can read it.
    json.loads(written)
    return type(record).from_json(written)


@pytest.mark.requirement("library:json:round-trip")
@given(plain_reminders | events | transcripts | accepts | receipts)
def test_a_record_is_the_same_after_json(record: JsonRecord) -> None:
    assert again(record) == record


def told(history: list[Happening] | tuple[Happening, ...]) -> list[Event]:
    state, ids, journal = SessionState(), count(1), []
    for happens in history:
        for event in committed(state, happens, f"id{next(ids)}"):
            apply(state, event)
            journal.append(event)
    return journal


@pytest.mark.requirement("library:json:round-trip")
@given(st.just(list(TOUR)) | histories)
def test_what_observers_get_is_the_same_after_json(history: list[Happening]) -> None:
    for event in told(history):
        update = update_of(event, OPERATOR, cursor=1, time=2)
        if update is not None:
            assert again(update) == update
            assert Update.from_json(update.to_json().encode()) == update
        record = publish(event, Correlation(session_id="s1"), seq=1, time="2026-11-16T00:00:00.000Z")
        if record is not None:
            assert again(record) == record


# The shape.


REMINDER = Reminder(id=ReminderId("r1"), body="The build is red.", ttl_turns=2)


@pytest.mark.requirement("library:json:shape")
def test_an_event_is_written_as_observers_read_it() -> None:
    event = reminder_event(REMINDER, event_id="e1")
    written = json.loads(event.to_json())
    assert written == event.as_dict()
    assert written["metadata"] == written["reminder"] == REMINDER.as_dict()
    sent = reminder_event(REMINDER, event_id="e1", provenance=Provenance(trust=Trust.SERVER, principal="ci"))
    assert json.loads(sent.to_json())["provenance"] == {"trust": 3, "principal": "ci"}
    assert json.loads(Transcript(events=(event,)).to_json())["events"] == [written]


@pytest.mark.requirement("library:json:shape")
@pytest.mark.parametrize(
    ("field", "value", "repeats"),
    [
        ("blocks", [{"type": "text", "text": "Green.", "visibility": "public"}], "text"),
        ("metadata", {"id": "r1", "body": "Green."}, "reminder"),
    ],
)
def test_a_part_that_repeats_another_must_agree_with_it(field: str, value: object, repeats: str) -> None:
    shape = reminder_event(REMINDER, event_id="e1").as_dict() | {field: value}
    with pytest.raises(
        InvalidOption, match=rf"events\[0\]\.{field} must repeat {repeats}, not .*; it may be left out"
    ) as caught:
        Transcript.from_json(json.dumps({"events": [shape]}))
    assert (caught.value.field, caught.value.value) == (f"events[0].{field}", value)


@pytest.mark.requirement("library:json:refusal")
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"text": 5}, "text"),
        ({"visibility": "secret"}, "visibility"),
        ({"reminder": {"id": "r1", "body": 5}}, "reminder.body"),
        ({"reminder": None, "remnder": REMINDER.as_dict()}, "remnder"),
    ],
)
def test_the_wrong_part_is_named_and_not_the_one_that_repeats_it(change: dict[str, object], field: str) -> None:
    shape = reminder_event(REMINDER, event_id="e1").as_dict() | change
    with pytest.raises(ReminderError) as caught:
        Transcript.from_json(json.dumps({"events": [shape]}))
    assert caught.value.field == f"events[0].{field}"


@pytest.mark.requirement("library:json:shape")
def test_the_parts_that_repeat_others_may_be_left_out() -> None:
    event = reminder_event(REMINDER, event_id="e1")
    shape = {name: value for name, value in event.as_dict().items() if name not in ("blocks", "metadata")}
    assert TranscriptEvent.from_json(json.dumps(shape)) == event


# Refusals.


def a_shape(**fields: object) -> str:
    return json.dumps({"id": "r1", "body": "The build is red."} | fields)


@pytest.mark.requirement("library:json:refusal")
@pytest.mark.parametrize(
    ("kind", "text", "error", "field", "why"),
    [
        pytest.param(
            Reminder, "", InvalidOption, "text", "the JSON of a Reminder cannot be read: Expecting value", id="empty"
        ),
        pytest.param(Accepted, "{", InvalidOption, "text", "the JSON of an Accepted cannot be read", id="cut"),
        pytest.param(Reminder, b"\xff", InvalidOption, "text", "cannot be read: 'utf-8' codec", id="not-utf8"),
        pytest.param(Reminder, 5, InvalidOption, "text", "the JSON of a Reminder must be text, not 5", id="not-text"),
        pytest.param(Reminder, "[]", InvalidOption, "text", "a Reminder must be a JSON object, not []", id="list"),
        pytest.param(
            Reminder, '{"id": "a", "id": "b"}', InvalidOption, "text", "the key 'id' occurs twice", id="repeated"
        ),
        pytest.param(Reminder, a_shape(fired_at_turn=float("nan")), InvalidOption, "text", "NaN is not JSON", id="nan"),
        pytest.param(Reminder, a_shape(body="\ud800"), InvalidOption, "text", "surrogates not allowed", id="surrogate"),
        pytest.param(Transcript, '{"messages": [{"a": 1e999}]}', InvalidOption, "text", "inf is not JSON", id="large"),
        pytest.param(Transcript, "[" * 100_000, InvalidOption, "text", "recursion", id="deep"),
        pytest.param(Reminder, '{"id": "r1"}', InvalidOption, "body", "body of a Reminder is missing", id="missing"),
        pytest.param(
            Reminder, a_shape(body=5), InvalidOption, "body", "body of a Reminder: expected str, got int 5", id="type"
        ),
        pytest.param(
            Reminder, a_shape(tags=["a", 1]), InvalidOption, "tags[1]", "expected str, got int 1", id="in-a-list"
        ),
        pytest.param(
            Reminder,
            a_shape(role_hint="assistant"),
            InvalidOption,
            "role_hint",
            "invalid enum value 'assistant'; allowed: 'developer', 'ephemeral_cache', 'system', 'user_block'",
            id="word",
        ),
        pytest.param(
            Reminder,
            a_shape(propagate="child"),
            UnknownPropagate,
            "propagate",
            "'all', 'session' or 'none'",
            id="propagate",
        ),
        pytest.param(
            Reminder, a_shape(ttl_turns=0), InvalidOption, "ttl_turns", "from 1 to 1,000,000, not 0", id="ttl"
        ),
        pytest.param(
            Reminder, a_shape(ttl_turns=True), InvalidOption, "ttl_turns", "got bool True", id="ttl-is-no-number"
        ),
        pytest.param(Reminder, a_shape(id=""), InvalidOption, "id", "without line breaks", id="no-id"),
        pytest.param(Reminder, a_shape(id="a b\n"), InvalidOption, "id", "not 'a b\\n'", id="broken-id"),
        pytest.param(Reminder, a_shape(id="a" * 2_000), InvalidOption, "id", "at most 1024", id="long-id"),
        pytest.param(Reminder, a_shape(body=" \n"), InvalidOption, "body", "must not be blank", id="blank-body"),
        pytest.param(Reminder, a_shape(body="a\0"), InvalidOption, "body", "U+0000", id="control-character"),
        pytest.param(Reminder, a_shape(tags=["a", " "]), InvalidOption, "tags[1]", "blank, got ' '", id="blank-tag"),
        pytest.param(
            Reminder, a_shape(fired_at_turn=-1), InvalidOption, "fired_at_turn", "of at least 0, not -1", id="turn"
        ),
        pytest.param(
            Reminder,
            a_shape(originating_agent_id="a\0"),
            InvalidOption,
            "originating_agent_id",
            "U+0000",
            id="agent-id",
        ),
        pytest.param(
            Reminder,
            a_shape(ttl=1),
            UnknownOption,
            "ttl",
            "a Reminder has no field 'ttl'; the fields are id, body,",
            id="unknown",
        ),
        pytest.param(Reminder, a_shape(bdy="a"), UnknownOption, "bdy", "did you mean 'body'?", id="misspelt"),
        pytest.param(Transcript, '{"events": 5}', InvalidOption, "events", "expected array, got int 5", id="events"),
        pytest.param(
            Transcript, '{"events": [5]}', InvalidOption, "events[0]", "expected object, got int 5", id="event"
        ),
        pytest.param(
            Transcript,
            '{"events": [{"id": "a", "kind": "b"}]}',
            InvalidOption,
            "events[0].role",
            "is missing",
            id="in-an-event",
        ),
        pytest.param(
            Transcript,
            '{"events": [{"id": "a", "kind": "b", "role": "c", "visibility": "d"}]}',
            InvalidOption,
            "events[0].visibility",
            "invalid enum value 'd'; allowed: 'internal', 'public'",
            id="word-in-an-event",
        ),
        pytest.param(
            Transcript,
            json.dumps(
                {"events": [{"id": "a", "kind": "b", "role": "c", "reminder": json.loads(a_shape(ttl_turns=0))}]}
            ),
            InvalidOption,
            "events[0].reminder.ttl_turns",
            "events[0].reminder.ttl_turns must be a whole number",
            id="ttl-in-an-event",
        ),
        pytest.param(
            Transcript,
            json.dumps({"events": [{"id": "a", "kind": "b", "role": "c", "reminder": json.loads(a_shape(x=0))}]}),
            UnknownOption,
            "events[0].reminder.x",
            "a Reminder has no field 'events[0].reminder.x'",
            id="unknown-in-an-event",
        ),
        pytest.param(
            Transcript,
            '{"events": [{"id": "a", "kind": "b", "role": "c", "provenance": {"requested": {"a": 1}, "trust": 9}}]}',
            InvalidOption,
            "events[0].provenance.trust",
            "invalid enum value 9; allowed: 0, 1, 2, 3, 4",
            id="word-after-a-reference",
        ),
        pytest.param(
            Update,
            '{"kind": "turn"}',
            InvalidOption,
            "kind",
            "for Update, not 'turn'; the words are reminder.queued, ",
            id="kind",
        ),
        pytest.param(Update, "{}", InvalidOption, "kind", "for Update, not None", id="no-kind"),
        pytest.param(
            TurnUpdate,
            '{"kind": "reminder.queued"}',
            InvalidOption,
            "kind",
            "for TurnUpdate, not 'reminder.queued'; the words are turn.opened, ",
            id="other-kind",
        ),
    ],
)
def test_what_is_not_such_a_record_is_refused(
    kind: type[JsonRecord], text: str, error: type[ReminderError], field: str, why: str
) -> None:
    with pytest.raises(error) as caught:
        kind.from_json(text)
    assert why in str(caught.value)
    assert caught.value.field == field
    assert str(caught.value).startswith(("HARN-RMD-001: ", "HARN-RMD-005: "))


@pytest.mark.requirement("library:json:refusal")
def test_a_field_that_a_nested_record_does_not_have_is_refused() -> None:
    (accepted,) = [event for event in told(TOUR) if isinstance(event, InjectAccepted)][:1]
    update = update_of(accepted, OPERATOR, cursor=1, time=2)
    assert update is not None
    shape = update.as_dict()
    assert shape["item"]["kind"] == "user"
    shape["item"]["position"] = 1
    with pytest.raises(UnknownOption, match=r"has no field 'item\.position'"):
        Update.from_json(json.dumps(shape))


@pytest.mark.requirement("library:json:null-is-absent")
def test_null_reads_as_absent() -> None:
    nulls = dict.fromkeys(["tags", "dedupe_key", "ttl_turns", "propagate", "originating_agent_id"])
    assert Reminder.from_json(a_shape(**nulls)) == Reminder(id=ReminderId("r1"), body="The build is red.")


@pytest.mark.requirement("library:json:not-json")
@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("inf"), "a Transcript cannot be written as JSON, which has no inf"),
        ("\ud800", "cannot be written as JSON: 'utf-8' codec"),
        (object(), "cannot be written as JSON: Encoding objects of type object is unsupported"),
    ],
    ids=["infinity", "surrogate", "object"],
)
def test_what_json_does_not_have_is_refused(value: object, why: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        Transcript(messages=({"role": "user", "content": [value]},)).to_json()
    assert why in str(caught.value)


@pytest.mark.requirement("library:json:shape")
def test_a_copy_can_be_changed() -> None:
    record = TopicRecord(seq=1, time=None, kind="k", session_id=None, payload={"tags": ["a"]})
    record.as_dict()["payload"]["tags"].append("b")
    assert record.payload == {"tags": ["a"]}
    update = ReminderUpdate(cursor=1, time=None, kind=UpdateKind.REMINDER_QUEUED, reminder_id="r1")
    assert json.loads(update.to_json()) == {"cursor": 1, "time": None, "kind": "reminder.queued", "reminder_id": "r1"}
