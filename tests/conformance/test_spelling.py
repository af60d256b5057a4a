"""How the record is spelled: names outside and inside, absent fields, nulls and repeated keys."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.errors import InvalidReminder, UnknownOption
from sideband.core.events import Injected
from sideband.core.parse import parse, parse_json
from sideband.core.reminder import Propagate, Reminder, ReminderId, RoleHint, Source, mint
from sideband.core.surfaces import LIFECYCLE, RULES, Case, Surface, spelled
from sideband.core.transcript import reminder_event
from sideband.core.trust import IN_PROCESS
from sideband.protocols import wire
from sideband.protocols.a2a.messages import InjectReminderResult
from sideband.protocols.acp.messages import ReminderEmitted, SessionInjectReminderResponse
from tests.builders import a_reminder

FULL = a_reminder(
    "ci:build-7",
    tags=("ci",),
    dedupe_key="ci:status",
    ttl_turns=3,
    preserve_on_compact=True,
    propagate=Propagate.ALL,
    role_hint=RoleHint.DEVELOPER,
    source=Source.HOOK,
    fired_at_turn=4,
    originating_agent_id="root",
)
CAMEL = {
    "id": "ci:build-7",
    "body": "The build is red.",
    "tags": ["ci"],
    "dedupeKey": "ci:status",
    "ttlTurns": 3,
    "preserveOnCompact": True,
    "propagate": "all",
    "roleHint": "developer",
    "source": "hook",
    "firedAtTurn": 4,
    "originatingAgentId": "root",
}
SNAKE = {
    "id": "ci:build-7",
    "body": "The build is red.",
    "tags": ["ci"],
    "dedupe_key": "ci:status",
    "ttl_turns": 3,
    "preserve_on_compact": True,
    "propagate": "all",
    "role_hint": "developer",
    "source": "hook",
    "fired_at_turn": 4,
    "originating_agent_id": "root",
}
OUTSIDE = (Surface.ACP, Surface.A2A, Surface.A2A_METADATA, Surface.HTTP, Surface.MCP)
INSIDE = (Surface.PIPELINE, Surface.SESSION, Surface.HOOK, Surface.PROVIDER, Surface.ACP_LEGACY)


def asking(surface: Surface, spelling: dict[str, object]) -> dict[str, object]:
    """Those entries of a record that a caller of this surface may send."""
    names = {spelled(field, case) for field in RULES[surface].fields for case in Case}
    return {name: value for name, value in spelling.items() if name in names}


@pytest.mark.requirement("core:wire:camel-case-outside")
def test_the_record_is_written_in_camel_case() -> None:
    assert wire.to_camel(FULL) == CAMEL
    assert msgspec.json.decode(wire.encode_camel(FULL)) == CAMEL


@pytest.mark.requirement("core:wire:camel-case-outside")
@pytest.mark.parametrize("surface", OUTSIDE)
def test_what_comes_from_outside_is_read_in_camel_case(surface: Surface) -> None:
    draft = parse(asking(surface, CAMEL), surface)
    assert {field: getattr(draft, field) for field in LIFECYCLE} == {field: getattr(FULL, field) for field in LIFECYCLE}


@pytest.mark.requirement("core:wire:camel-case-outside")
@pytest.mark.parametrize("surface", [surface for surface in OUTSIDE if surface is not Surface.MCP])
@pytest.mark.parametrize("field", [field for field in LIFECYCLE if "_" in field])
def test_snake_case_from_outside_is_refused_with_the_right_name(surface: Surface, field: str) -> None:
    with pytest.raises(UnknownOption, match=f"did you mean '{spelled(field, Case.CAMEL)}'"):
        parse({"body": "x", field: SNAKE[field]}, surface)


@pytest.mark.requirement("core:wire:snake-case-inside")
def test_the_record_is_kept_in_snake_case() -> None:
    assert FULL.as_dict() == SNAKE
    assert wire.to_snake(FULL) == SNAKE
    assert reminder_event(FULL, event_id="e1").as_dict()["reminder"] == SNAKE
    written = msgspec.json.decode(msgspec.json.encode(Injected(reminder=FULL, provenance=IN_PROCESS)))
    assert written["reminder"] == SNAKE


@pytest.mark.requirement("core:wire:snake-case-inside")
@pytest.mark.parametrize("surface", INSIDE)
def test_what_comes_from_inside_is_read_in_snake_case(surface: Surface) -> None:
    draft = parse(asking(surface, SNAKE), surface)
    assert {field: getattr(draft, field) for field in LIFECYCLE} == {field: getattr(FULL, field) for field in LIFECYCLE}


@pytest.mark.requirement("core:wire:snake-case-inside")
@pytest.mark.parametrize("surface", INSIDE)
@pytest.mark.parametrize("field", [field for field in LIFECYCLE if "_" in field])
def test_camel_case_from_inside_is_refused_with_the_right_name(surface: Surface, field: str) -> None:
    name = spelled(field, Case.CAMEL)
    with pytest.raises(UnknownOption, match=f"did you mean '{field}'"):
        parse({"body": "x", name: CAMEL[name]}, surface)


WORDS = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=20)
RECORDS = st.builds(
    Reminder,
    id=st.from_regex(r"\A[A-Za-z0-9._:-]{1,128}\Z"),
    body=WORDS,
    tags=st.lists(WORDS.filter(lambda tag: len(tag.encode()) <= 64), unique=True, max_size=4).map(tuple),
    dedupe_key=st.none() | WORDS,
    ttl_turns=st.none() | st.integers(1, 1_000_000),
    preserve_on_compact=st.booleans(),
    propagate=st.sampled_from(Propagate),
    role_hint=st.sampled_from(RoleHint),
    source=st.sampled_from(Source),
    fired_at_turn=st.integers(0, 2**63 - 1),
    originating_agent_id=st.none() | WORDS,
)


@pytest.mark.requirement("core:wire:round-trip")
@given(record=RECORDS)
def test_a_record_written_in_camel_case_is_read_back_as_it_was(record: Reminder) -> None:
    draft = parse_json(wire.encode_camel(record), Surface.A2A)
    claimed = {**draft.claims, "source": record.source}
    assert draft.claims["source"] == wire.outward(record.source)
    read_back = mint(draft, reminder_id=ReminderId(draft.caller_id or ""), source=record.source)
    assert msgspec.structs.replace(read_back, **claimed) == record


@pytest.mark.requirement("core:wire:absent-fields-are-left-out")
def test_a_field_without_a_value_is_left_out() -> None:
    bare = a_reminder()
    optional = {"dedupe_key", "ttl_turns", "originating_agent_id"}
    assert SNAKE.keys() - bare.as_dict().keys() == optional
    assert SNAKE.keys() - wire.to_snake(bare).keys() == optional
    assert CAMEL.keys() - wire.to_camel(bare).keys() == {spelled(field, Case.CAMEL) for field in optional}
    assert reminder_event(bare, event_id="e1").as_dict()["metadata"] == bare.as_dict()


@pytest.mark.requirement("core:wire:null-reads-as-absent")
@pytest.mark.parametrize("surface", Surface)
def test_null_reads_as_absent(surface: Surface) -> None:
    rules = RULES[surface]
    required: dict[str, object] = {"body": "x", "id": "r1"} if rules.wants_id else {"body": "x"}
    nulls = {spelled(field, rules.case): None for field in rules.fields} | required
    assert parse(nulls, surface) == parse(required, surface)
    assert parse_json(msgspec.json.encode(nulls), surface) == parse(required, surface)
    for name in nulls.keys() - required.keys():
        assert parse({**required, name: None}, surface) == parse(required, surface)


@pytest.mark.requirement("core:wire:duplicate-keys-are-refused")
@pytest.mark.parametrize("surface", Surface)
@pytest.mark.parametrize(
    ("text", "key"),
    [
        pytest.param('{"body":"x","body":"y"}', "body", id="at-the-top"),
        pytest.param('{"body":"x","body":"x"}', "body", id="with-the-same-value"),
        pytest.param('{"body":"x","tags":["a"],"tags":null}', "tags", id="with-null"),
        pytest.param('{"body":"x","b\\u006fdy":"y"}', "body", id="with-an-escape-in-the-name"),
        pytest.param('{"body":"\\"}","body" : "y"}', "body", id="with-quotes-in-the-text"),
        pytest.param('{"body":"x","_meta":{"a":1,"a":2}}', "a", id="one-level-down"),
        pytest.param('{"body":"x","_meta":{"a":[{"b":{"c":1,"d":2,"c":3}}]}}', "c", id="deep-down"),
    ],
)
def test_a_key_that_comes_twice_is_refused(surface: Surface, text: str, key: str) -> None:
    with pytest.raises(InvalidReminder, match="occurs twice") as refused:
        parse_json(text, surface)
    assert refused.value.field == key


@pytest.mark.requirement("core:wire:deduped-count-is-always-sent")
@pytest.mark.parametrize("count", [0, 2])
def test_a_reply_always_counts_what_was_replaced(count: int) -> None:
    replies = (
        SessionInjectReminderResponse(reminder_id="r1", deduped_count=count),
        InjectReminderResult(reminder_id="r1", deduped_count=count, accepted_at="2026-04-30T12:34:56.789Z"),
    )
    assert [msgspec.to_builtins(reply)["dedupedCount"] for reply in replies] == [count, count]


@pytest.mark.requirement("core:wire:provider-id")
def test_the_name_of_the_provider_is_spelled_in_camel_case() -> None:
    update = ReminderEmitted(
        reminder_id="r1", body="x", source=wire.outward(Source.STDLIB_PROVIDER), provider_id="token_pressure"
    )
    assert msgspec.to_builtins(update)["providerId"] == "token_pressure"


@pytest.mark.requirement("core:id:bare-on-every-wire")
@given(record=RECORDS)
def test_an_id_is_written_as_it_is(record: Reminder) -> None:
    for via in (None, *wire.Via):
        assert wire.to_camel(record, via=via)["id"] == record.id
    assert wire.to_snake(record)["id"] == record.id
    assert SessionInjectReminderResponse(reminder_id=record.id, deduped_count=0).reminder_id == record.id
