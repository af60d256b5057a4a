"""The record in the words of the wires."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.reminder import MAX_TTL_TURNS, Propagate, Reminder, ReminderId, RoleHint, Source
from sideband.core.surfaces import Case, spelled
from sideband.protocols.wire import (
    OUTWARD,
    Outbound,
    ReminderRecord,
    ReminderSpec,
    SourceWord,
    Via,
    encode_camel,
    outward,
    to_camel,
    to_snake,
)


def a_reminder(**fields: object) -> Reminder:
    return msgspec.structs.replace(Reminder(id=ReminderId("r-1"), body="The build is red."), **fields)


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
reminders = st.builds(
    Reminder,
    id=texts.map(ReminderId),
    body=texts,
    tags=st.lists(texts).map(tuple),
    dedupe_key=st.none() | texts,
    ttl_turns=st.none() | st.integers(1, MAX_TTL_TURNS),
    preserve_on_compact=st.booleans(),
    propagate=st.sampled_from(Propagate),
    role_hint=st.sampled_from(RoleHint),
    source=st.sampled_from(Source),
    fired_at_turn=st.integers(0, 10**6),
    originating_agent_id=st.none() | texts,
)


@pytest.mark.parametrize(
    ("source", "via", "word"),
    [
        pytest.param(Source.STDLIB_PROVIDER, None, SourceWord.PROVIDER, id="a-provider-is-a-provider"),
        pytest.param(Source.HOOK, None, SourceWord.HOOK, id="a-hook-is-a-hook"),
        pytest.param(Source.BRIDGE, Via.ACP, SourceWord.HOST, id="over-acp-it-is-the-host"),
        pytest.param(Source.BRIDGE, Via.HTTP, SourceWord.HOST, id="over-http-it-is-the-host"),
        pytest.param(Source.BRIDGE, Via.A2A, SourceWord.BRIDGE, id="over-a2a-it-is-another-party"),
        pytest.param(Source.BRIDGE, Via.MCP, SourceWord.BRIDGE, id="over-mcp-it-is-another-party"),
        pytest.param(Source.BRIDGE, None, SourceWord.BRIDGE, id="over-an-unknown-bridge-it-is-another-party"),
        pytest.param(Source.BRIDGE, "carrier-pigeon", SourceWord.BRIDGE, id="over-a-new-bridge-neither"),
        pytest.param(Source.IN_PIPELINE, None, SourceWord.HOST, id="our-own-code-is-the-host"),
        pytest.param(Source.INHERITED, None, SourceWord.INHERITED, id="a-copy-is-inherited"),
        pytest.param(Source.INHERITED, Via.ACP, SourceWord.INHERITED, id="a-copy-stays-one-whatever-bridge-it-crossed"),
    ],
)
def test_peers_are_told_the_source_in_their_words(source: Source, via: str | None, word: SourceWord) -> None:
    assert outward(source, via) is word


def test_a_bridge_stored_as_text_is_known_too() -> None:
    assert outward(Source.BRIDGE, "acp") is SourceWord.HOST


def test_every_source_has_a_word() -> None:
    assert OUTWARD.keys() == set(Source)


def test_a_full_record_is_written_in_camel_case() -> None:
    reminder = a_reminder(
        tags=("build", "ci"),
        dedupe_key="build:status",
        ttl_turns=2,
        preserve_on_compact=True,
        propagate=Propagate.ALL,
        role_hint=RoleHint.DEVELOPER,
        source=Source.INHERITED,
        fired_at_turn=4,
        originating_agent_id="parent",
    )
    assert json.loads(encode_camel(reminder)) == {
        "id": "r-1",
        "body": "The build is red.",
        "tags": ["build", "ci"],
        "dedupeKey": "build:status",
        "ttlTurns": 2,
        "preserveOnCompact": True,
        "propagate": "all",
        "roleHint": "developer",
        "source": "inherited",
        "firedAtTurn": 4,
        "originatingAgentId": "parent",
    }


def test_what_a_record_does_not_have_is_left_out_and_all_else_is_sent() -> None:
    assert json.loads(encode_camel(a_reminder())) == {
        "id": "r-1",
        "body": "The build is red.",
        "tags": [],
        "preserveOnCompact": False,
        "propagate": "session",
        "roleHint": "system",
        "source": "host",
        "firedAtTurn": 0,
    }


def test_a_record_tells_its_bridge_in_the_words_of_peers() -> None:
    reminder = a_reminder(source=Source.BRIDGE)
    assert to_camel(reminder, via=Via.ACP)["source"] == "host"
    assert json.loads(encode_camel(reminder, via=Via.MCP))["source"] == "bridge"


def test_under_its_own_names_a_record_keeps_its_own_words() -> None:
    assert to_snake(a_reminder(source=Source.BRIDGE, ttl_turns=3)) == {
        "id": "r-1",
        "body": "The build is red.",
        "tags": [],
        "ttl_turns": 3,
        "preserve_on_compact": False,
        "propagate": "session",
        "role_hint": "system",
        "source": "bridge",
        "fired_at_turn": 0,
    }


def test_both_spellings_have_every_field_of_the_record() -> None:
    fields = Reminder.__struct_fields__
    assert ReminderRecord.__struct_encode_fields__ == fields
    assert ReminderSpec.__struct_encode_fields__ == tuple(spelled(field, Case.CAMEL) for field in fields)


@given(reminders)
def test_the_object_for_a_peer_is_what_its_json_says(reminder: Reminder) -> None:
    assert to_camel(reminder) == json.loads(encode_camel(reminder))


@given(reminders)
def test_a_record_can_be_read_back_from_its_own_names(reminder: Reminder) -> None:
    assert msgspec.convert(to_snake(reminder), Reminder) == reminder


@given(reminders)
def test_both_spellings_differ_in_names_and_in_the_word_for_the_source_only(reminder: Reminder) -> None:
    renamed = {spelled(name, Case.CAMEL): value for name, value in to_snake(reminder).items()}
    assert to_camel(reminder) == renamed | {"source": outward(reminder.source)}


def test_messages_are_made_of_plain_values() -> None:
    values = [*to_snake(a_reminder()).values(), *to_camel(a_reminder()).values()]
    assert {type(value) for value in values} == {str, list, bool, int}


def test_an_outbound_field_without_a_value_is_not_sent() -> None:
    class Sent(Outbound, frozen=True, kw_only=True):
        always_sent: int
        sometimes_sent: int | None = None

    assert msgspec.json.encode(Sent(always_sent=0)) == b'{"alwaysSent":0}'
    assert msgspec.json.encode(Sent(always_sent=0, sometimes_sent=0)) == b'{"alwaysSent":0,"sometimesSent":0}'
