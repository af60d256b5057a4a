"""The reminder record: its fields and words, its ids, and the transcript event that carries it."""

import uuid
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.effects import read_effects
from sideband.core.errors import ReminderError
from sideband.core.parse import parse
from sideband.core.reminder import Propagate, Reminder, ReminderId, RoleHint, Source, mint
from sideband.core.seams import Mode, Seam
from sideband.core.surfaces import Surface
from sideband.core.transcript import Transcript, end_turn, inject_reminder, reminder_event
from sideband.core.trust import Provenance, Trust
from sideband.runtime.system import Uuid7
from tests.builders import a_draft, a_reminder, counting_ids
from tests.sessions import Session

FIELDS = {
    "id",
    "body",
    "tags",
    "dedupe_key",
    "ttl_turns",
    "preserve_on_compact",
    "propagate",
    "role_hint",
    "source",
    "fired_at_turn",
    "originating_agent_id",
}


def injected(**options: object) -> Reminder:
    """What the pure transform makes of these options."""
    (reminder,) = inject_reminder(Transcript(), options, new_id=counting_ids()).value.transcript.reminders
    return reminder


@pytest.mark.requirement("core:record:eleven-fields")
def test_a_reminder_has_the_eleven_fields_and_no_others() -> None:
    everything = a_reminder(dedupe_key="k", ttl_turns=1, originating_agent_id="parent")
    assert set(Reminder.__struct_fields__) == FIELDS
    assert everything.as_dict().keys() == FIELDS


@pytest.mark.requirement("core:record:body-is-required")
@pytest.mark.parametrize("surface", Surface)
def test_no_strict_surface_takes_a_reminder_without_a_body(surface: Surface) -> None:
    with pytest.raises(ReminderError, match="body is required") as refused:
        parse({"id": "a"} if surface is Surface.MCP else {}, surface)
    assert refused.value.field == "body"


@pytest.mark.parametrize(
    ("field", "default"),
    [
        pytest.param("tags", (), marks=pytest.mark.requirement("core:record:tags-default-to-none")),
        pytest.param("dedupe_key", None, marks=pytest.mark.requirement("core:record:dedupe-key-defaults-to-none")),
        pytest.param("ttl_turns", None, marks=pytest.mark.requirement("core:record:ttl-defaults-to-none")),
        pytest.param(
            "preserve_on_compact", False, marks=pytest.mark.requirement("core:record:preserve-defaults-to-false")
        ),
        pytest.param(
            "propagate", "session", marks=pytest.mark.requirement("core:record:propagate-defaults-to-session")
        ),
        pytest.param("role_hint", "system", marks=pytest.mark.requirement("core:record:role-hint-defaults-to-system")),
        pytest.param(
            "originating_agent_id", None, marks=pytest.mark.requirement("core:record:origin-defaults-to-none")
        ),
        pytest.param("fired_at_turn", 0, marks=pytest.mark.requirement("core:record:pure-transform-stamps-turn-zero")),
    ],
)
def test_a_field_that_is_not_given_has_its_default(field: str, default: object) -> None:
    assert getattr(injected(body="x"), field) == default


@pytest.mark.parametrize(
    ("vocabulary", "words"),
    [
        pytest.param(
            Propagate, ["all", "session", "none"], marks=pytest.mark.requirement("core:record:propagate-words")
        ),
        pytest.param(
            RoleHint,
            ["system", "developer", "user_block", "ephemeral_cache"],
            marks=pytest.mark.requirement("core:record:role-hint-words"),
        ),
        pytest.param(
            Source,
            ["stdlib_provider", "hook", "bridge", "in_pipeline", "inherited"],
            marks=pytest.mark.requirement("core:record:source-words"),
        ),
    ],
)
def test_a_vocabulary_has_exactly_its_words(vocabulary: type[Propagate | RoleHint | Source], words: list[str]) -> None:
    assert [member.value for member in vocabulary] == words


@pytest.mark.requirement("core:record:source-names-the-producer")
def test_the_pipeline_is_named_as_the_source_of_what_it_injects() -> None:
    assert injected(body="x").source is Source.IN_PIPELINE


@pytest.mark.requirement("core:record:source-names-the-producer")
def test_a_bridge_is_named_as_the_source_of_what_it_accepts() -> None:
    session = Session()
    accepted = session.accept(parse({"body": "x"}, Surface.ACP))
    assert session.queued_ids == [accepted.reminder_id]
    session.drain()
    assert [item.reminder.source for item in session.state.live] == [Source.BRIDGE]


@pytest.mark.requirement("core:record:source-names-the-producer")
@pytest.mark.parametrize(
    ("surface", "source"), [(Surface.HOOK, Source.HOOK), (Surface.PROVIDER, Source.STDLIB_PROVIDER)]
)
def test_a_hook_and_a_provider_are_named_as_the_source_of_what_they_return(surface: Surface, source: Source) -> None:
    (draft,) = read_effects({"reminder": {"body": "x"}}, surface).reminders
    assert mint(draft, reminder_id=ReminderId("r1"), source=source).source is source


@pytest.mark.requirement("core:record:fired-at-turn-is-the-first-possible-request")
def test_what_is_drained_before_the_first_request_is_stamped_with_turn_one() -> None:
    session = Session()
    session.accept(a_draft())
    session.drain(Seam.ITERATION_START)
    assert [item.reminder.fired_at_turn for item in session.state.live] == [1]


@pytest.mark.requirement("core:record:fired-at-turn-is-the-first-possible-request")
def test_what_is_drained_between_two_requests_is_stamped_with_the_later_one() -> None:
    session = Session()
    session.turn()
    session.accept(a_draft())
    session.drain(Seam.POST_TOOL_DISPATCH)
    assert [item.reminder.fired_at_turn for item in session.state.live] == [2]


@pytest.mark.requirement("core:record:fired-at-turn-is-the-first-possible-request")
def test_what_is_drained_while_a_request_is_open_is_stamped_with_the_next_one() -> None:
    session = Session()
    session.turn()
    session.send_request()
    session.accept(a_draft(mode=Mode.INTERRUPT_IMMEDIATE))
    session.drain(Seam.DAEMON_IDLE_PRE)
    assert [item.reminder.fired_at_turn for item in session.state.live] == [3]


@pytest.mark.requirement("core:record:companions-stand-beside-it")
def test_what_a_session_knows_of_a_reminder_stands_beside_the_record() -> None:
    session = Session()
    peer = Provenance(trust=Trust.PEER, principal="coordinator", provider_id="ci", via="a2a")
    draft = parse({"body": "x", "ttlTurns": 9, "source": "boss", "firedAtTurn": 7}, Surface.A2A)
    reminder_id = session.accept(draft, peer).reminder_id
    session.drain()
    session.turn()
    (item,) = session.state.live
    assert (item.provenance.trust, item.provenance.principal) == (Trust.PEER, "coordinator")
    assert item.provenance.provider_id == "ci"
    assert item.provenance.claims == {"source": "boss", "fired_at_turn": 7}
    assert item.provenance.requested == {"role_hint": "system", "propagate": "session", "ttl_turns": 9}
    assert (item.first_turn, item.last_turn) == (1, 3)
    assert item.reminder.as_dict() == {
        "id": reminder_id,
        "body": "x",
        "tags": [],
        "ttl_turns": 3,
        "preserve_on_compact": False,
        "propagate": "none",
        "role_hint": "user_block",
        "source": "bridge",
        "fired_at_turn": 1,
    }


# Ids.


def minted(times: list[int], bits: int) -> list[str]:
    """One id for each reading of a clock, where every random number is `bits`."""
    clock = iter(times)
    new_id = Uuid7(clock_ms=lambda: next(clock), random_bits=lambda width: bits & ((1 << width) - 1))
    return [new_id() for _ in times]


@pytest.mark.requirement("core:id:uuid7")
@given(ms=st.integers(0, 2**48 - 1), bits=st.integers(0, 2**74 - 1))
def test_an_id_is_a_version_7_uuid_of_its_millisecond(ms: int, bits: int) -> None:
    (text,) = minted([ms], bits)
    parsed = uuid.UUID(text)
    assert str(parsed) == text
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == ms


@pytest.mark.requirement("core:id:monotonic-in-a-process")
@given(times=st.lists(st.integers(0, 50), min_size=2, max_size=40), bits=st.integers(0, 2**74 - 1))
def test_every_id_sorts_after_the_one_before_whatever_the_clock_does(times: list[int], bits: int) -> None:
    assert all(earlier < later for earlier, later in pairwise(minted(times, bits)))


# The transcript event.


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("kind", "system_reminder", marks=pytest.mark.requirement("core:event:kind")),
        pytest.param("role", "developer", marks=pytest.mark.requirement("core:event:role-is-the-hint")),
        pytest.param("visibility", "public", marks=pytest.mark.requirement("core:event:public")),
        pytest.param("text", "Rebase first.", marks=pytest.mark.requirement("core:event:text-is-the-body")),
        pytest.param(
            "blocks",
            [{"type": "text", "text": "Rebase first.", "visibility": "public"}],
            marks=pytest.mark.requirement("core:event:one-text-block", "core:event:public"),
        ),
    ],
)
def test_an_event_shows_its_reminder_to_generic_readers(key: str, value: object) -> None:
    reminder = a_reminder(body="Rebase first.", role_hint=RoleHint.DEVELOPER)
    assert reminder_event(reminder, event_id="e1").as_dict()[key] == value


@pytest.mark.requirement("core:event:metadata-mirrors-the-reminder")
def test_an_event_has_the_record_twice() -> None:
    reminder = a_reminder(tags=("ci",), dedupe_key="ci:status", ttl_turns=3)
    event = reminder_event(reminder, event_id="e1").as_dict()
    assert event["metadata"] == event["reminder"]
    assert event["reminder"] == {
        "id": "r1",
        "body": "The build is red.",
        "tags": ["ci"],
        "dedupe_key": "ci:status",
        "ttl_turns": 3,
        "preserve_on_compact": False,
        "propagate": "session",
        "role_hint": "system",
        "source": "in_pipeline",
        "fired_at_turn": 0,
    }


@pytest.mark.requirement("core:event:own-id")
def test_an_event_has_an_id_of_its_own() -> None:
    result = inject_reminder(Transcript(), {"body": "x"}, new_id=counting_ids())
    (event,) = (event.as_dict() for event in result.value.transcript.events)
    assert event["reminder"]["id"] == result.value.reminder_id
    assert event["id"] != result.value.reminder_id


@pytest.mark.requirement("core:event:shows-the-remaining-ttl")
def test_an_event_shows_what_is_left_of_the_ttl() -> None:
    before = inject_reminder(Transcript(), {"body": "x", "ttl_turns": 3}, new_id=counting_ids()).value.transcript
    after = end_turn(end_turn(before, 1).value.transcript, 2).value.transcript
    (event,) = (event.as_dict() for event in after.events)
    assert (event["reminder"]["ttl_turns"], event["metadata"]["ttl_turns"]) == (1, 1)
    assert event["id"] == before.events[0].id
