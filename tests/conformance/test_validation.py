"""Validation: what each surface does with each kind of fault, and what its errors say."""

import re

import pytest

from sideband.core.errors import BodyTooLarge, InvalidOption, InvalidReminder, MalformedProviderResult, ReminderError
from sideband.core.parse import parse, read_leniently
from sideband.core.surfaces import RULES, Surface, spelled
from sideband.core.transcript import Transcript, inject_reminder, transcript_reminder_event
from tests.builders import a_draft, a_reminder, counting_ids
from tests.payloads import BRIDGES, parsed, refusal
from tests.sessions import CLIENT, Session

# The lenient builder.


def leniently(**fields: object) -> dict[str, object]:
    """The reminder in the event that the lenient builder makes of `fields`."""
    event = transcript_reminder_event(fields, new_id=counting_ids()).as_dict()
    reminder: dict[str, object] = event["reminder"]
    return reminder


@pytest.mark.requirement("parse:lenient:unknown-key-is-ignored")
def test_the_lenient_builder_ignores_keys_it_does_not_know() -> None:
    assert leniently(body="x", typo=1) == leniently(body="x")


@pytest.mark.requirement("parse:lenient:bad-value-takes-the-default")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("body", 5),
        ("tags", "a"),
        ("tags", [1, None, "  "]),
        ("dedupe_key", 5),
        ("dedupe_key", "  "),
        ("ttl_turns", 0),
        ("ttl_turns", -1),
        ("ttl_turns", 1.5),
        ("ttl_turns", True),
        ("ttl_turns", "2"),
        ("ttl_turns", 1_000_001),
        ("preserve_on_compact", "yes"),
        ("preserve_on_compact", 1),
        ("role_hint", "root"),
        ("role_hint", 5),
        ("source", "nobody"),
        ("fired_at_turn", "3"),
        ("fired_at_turn", False),
        ("fired_at_turn", 2**63),
        ("originating_agent_id", 5),
        ("originating_agent_id", ""),
        ("id", 5),
        ("id", ""),
        pytest.param("id", "\ud800", id="id-with-half-a-character"),
        pytest.param("body", "\ud800", id="body-with-half-a-character"),
        pytest.param("tags", ["\ud800"], id="tag-with-half-a-character"),
    ],
)
def test_the_lenient_builder_puts_the_default_in_place_of_what_it_cannot_use(field: str, value: object) -> None:
    assert leniently(**{field: value}) == leniently()


@pytest.mark.requirement("parse:lenient:bad-value-takes-the-default")
def test_the_lenient_builder_keeps_what_it_can_use() -> None:
    usable = {
        "id": "r1",
        "body": "x",
        "tags": ["a", "b"],
        "dedupe_key": "k",
        "ttl_turns": 2,
        "preserve_on_compact": True,
        "propagate": "all",
        "role_hint": "developer",
        "source": "hook",
        "fired_at_turn": 4,
        "originating_agent_id": "parent",
    }
    assert leniently(**usable) == usable


@pytest.mark.requirement("parse:lenient:bad-value-takes-the-default")
def test_the_lenient_builder_can_make_nothing_of_what_is_no_object() -> None:
    with pytest.raises(InvalidOption, match="must be an object, not 'a body'"):
        read_leniently("a body", new_id=counting_ids())


@pytest.mark.requirement("parse:lenient:missing-body-is-empty")
def test_the_lenient_builder_gives_an_event_without_a_body_an_empty_one() -> None:
    event = transcript_reminder_event({"tags": ["a"]}, new_id=counting_ids())
    assert (event.text, event.reminder) == ("", a_reminder("id-1", body="", tags=("a",)))


@pytest.mark.requirement("parse:lenient:bad-propagate-is-session")
@pytest.mark.parametrize("word", ["workspace", "", 5, None])
def test_the_lenient_builder_reads_an_unknown_propagate_as_session(word: object) -> None:
    assert leniently(propagate=word)["propagate"] == "session"


@pytest.mark.requirement("parse:lenient:body-is-kept")
@pytest.mark.parametrize("body", ["  two spaces  ", "\n", "a\x07b"])
def test_the_lenient_builder_keeps_the_body_as_it_is(body: str) -> None:
    assert leniently(body=body)["body"] == body


# The strict surfaces.


@pytest.mark.parametrize(
    "surface",
    [
        pytest.param(Surface.PIPELINE, marks=pytest.mark.requirement("parse:pipeline:unknown-key-is-001")),
        pytest.param(Surface.SESSION, marks=pytest.mark.requirement("parse:pipeline:unknown-key-is-001")),
        pytest.param(Surface.HOOK, marks=pytest.mark.requirement("parse:hook:unknown-key-is-001")),
        pytest.param(Surface.PROVIDER, marks=pytest.mark.requirement("parse:provider:unknown-key-is-001")),
        pytest.param(Surface.ACP, marks=pytest.mark.requirement("parse:bridge:unknown-key-is-001")),
        pytest.param(Surface.ACP_LEGACY, marks=pytest.mark.requirement("parse:bridge:unknown-key-is-001")),
        pytest.param(Surface.A2A, marks=pytest.mark.requirement("parse:bridge:unknown-key-is-001")),
        pytest.param(Surface.A2A_METADATA, marks=pytest.mark.requirement("parse:bridge:unknown-key-is-001")),
        pytest.param(Surface.HTTP, marks=pytest.mark.requirement("parse:bridge:unknown-key-is-001")),
    ],
)
@pytest.mark.parametrize("key", ["typo", "", "bo\ud800dy", 5])
def test_an_unknown_key_is_refused(surface: Surface, key: object) -> None:
    with pytest.raises(ReminderError, match="has no option") as refused:
        parse({"body": "x", key: None}, surface)
    assert refused.value.code == "HARN-RMD-001"
    assert refused.value.value == key


@pytest.mark.parametrize(
    ("surface", "error"),
    [
        pytest.param(Surface.PIPELINE, InvalidOption, marks=pytest.mark.requirement("parse:pipeline:bad-value-is-001")),
        pytest.param(Surface.SESSION, InvalidOption, marks=pytest.mark.requirement("parse:pipeline:bad-value-is-001")),
        pytest.param(Surface.HOOK, InvalidOption, marks=pytest.mark.requirement("parse:hook:bad-value-is-001")),
        pytest.param(
            Surface.PROVIDER, MalformedProviderResult, marks=pytest.mark.requirement("parse:provider:bad-value-is-006")
        ),
        pytest.param(Surface.ACP, InvalidReminder, marks=pytest.mark.requirement("parse:bridge:bad-value-is-002")),
        pytest.param(
            Surface.ACP_LEGACY, InvalidReminder, marks=pytest.mark.requirement("parse:bridge:bad-value-is-002")
        ),
        pytest.param(Surface.A2A, InvalidReminder, marks=pytest.mark.requirement("parse:bridge:bad-value-is-002")),
        pytest.param(
            Surface.A2A_METADATA, InvalidReminder, marks=pytest.mark.requirement("parse:bridge:bad-value-is-002")
        ),
        pytest.param(Surface.HTTP, InvalidReminder, marks=pytest.mark.requirement("parse:bridge:bad-value-is-002")),
        pytest.param(Surface.MCP, InvalidReminder, marks=pytest.mark.requirement("parse:mcp:bad-value-is-002")),
    ],
)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("body", 1),
        ("body", None),
        ("body", ""),
        ("body", " \n\t"),
        ("tags", "a"),
        ("tags", {"a"}),
        ("tags", {"a": 1}),
        ("dedupe_key", 5),
        ("ttl_turns", 0),
        ("ttl_turns", -1),
        ("ttl_turns", []),
        ("preserve_on_compact", "yes"),
        ("preserve_on_compact", 1),
        ("role_hint", "root"),
        ("role_hint", "SYSTEM"),
        ("role_hint", 5),
    ],
)
def test_a_value_a_field_cannot_have_is_refused(
    surface: Surface, error: type[ReminderError], field: str, value: object
) -> None:
    refused = refusal(surface, **{field: value})
    assert type(refused) is error
    assert (refused.field, refused.value) == (spelled(field, RULES[surface].case), value)


@pytest.mark.parametrize(
    "surface",
    [
        pytest.param(Surface.PIPELINE, marks=pytest.mark.requirement("parse:pipeline:bad-propagate-is-005")),
        pytest.param(Surface.SESSION, marks=pytest.mark.requirement("parse:pipeline:bad-propagate-is-005")),
        pytest.param(Surface.HOOK, marks=pytest.mark.requirement("parse:hook:bad-propagate-is-005")),
        pytest.param(Surface.PROVIDER, marks=pytest.mark.requirement("parse:provider:bad-propagate-is-005")),
        pytest.param(Surface.ACP, marks=pytest.mark.requirement("parse:bridge:bad-propagate-is-005")),
        pytest.param(Surface.ACP_LEGACY, marks=pytest.mark.requirement("parse:bridge:bad-propagate-is-005")),
        pytest.param(Surface.A2A, marks=pytest.mark.requirement("parse:bridge:bad-propagate-is-005")),
        pytest.param(Surface.A2A_METADATA, marks=pytest.mark.requirement("parse:bridge:bad-propagate-is-005")),
        pytest.param(Surface.HTTP, marks=pytest.mark.requirement("parse:bridge:bad-propagate-is-005")),
        pytest.param(Surface.MCP, marks=pytest.mark.requirement("parse:mcp:bad-propagate-is-005")),
    ],
)
@pytest.mark.parametrize("word", ["workspace", "All", "", "\ud800", 5, ["all"]])
def test_an_unknown_propagate_has_a_code_of_its_own(surface: Surface, word: object) -> None:
    refused = refusal(surface, propagate=word)
    assert (refused.code, refused.field, refused.value) == ("HARN-RMD-005", "propagate", word)


@pytest.mark.parametrize(
    ("surface", "body"),
    [
        pytest.param(Surface.PIPELINE, "  x\n", marks=pytest.mark.requirement("parse:pipeline:body-is-verbatim")),
        pytest.param(Surface.SESSION, "  x\n", marks=pytest.mark.requirement("parse:pipeline:body-is-verbatim")),
        pytest.param(Surface.HOOK, "  x\n", marks=pytest.mark.requirement("parse:hook:body-is-verbatim")),
        pytest.param(Surface.PROVIDER, "  x\n", marks=pytest.mark.requirement("parse:provider:body-is-verbatim")),
        pytest.param(Surface.ACP, "x", marks=pytest.mark.requirement("parse:bridge:body-is-trimmed")),
        pytest.param(Surface.ACP_LEGACY, "x", marks=pytest.mark.requirement("parse:bridge:body-is-trimmed")),
        pytest.param(Surface.A2A, "x", marks=pytest.mark.requirement("parse:bridge:body-is-trimmed")),
        pytest.param(Surface.A2A_METADATA, "x", marks=pytest.mark.requirement("parse:bridge:body-is-trimmed")),
        pytest.param(Surface.HTTP, "x", marks=pytest.mark.requirement("parse:bridge:body-is-trimmed")),
        pytest.param(Surface.MCP, "x", marks=pytest.mark.requirement("parse:mcp:body-is-trimmed")),
    ],
)
def test_a_body_is_kept_in_process_and_trimmed_when_it_comes_over_a_bridge(surface: Surface, body: str) -> None:
    assert parsed(surface, body="  x\n").body == body


@pytest.mark.requirement("parse:bridge:content-is-002")
@pytest.mark.parametrize("surface", BRIDGES)
def test_a_reminder_with_content_is_told_that_it_has_a_body(surface: Surface) -> None:
    with pytest.raises(InvalidReminder, match="'body'") as refused:
        parse({"content": "x"}, surface)
    assert refused.value.field == "content"


@pytest.mark.requirement("parse:mcp:id-is-required")
def test_a_server_must_name_its_reminder() -> None:
    with pytest.raises(InvalidReminder, match="id is required"):
        parse({"body": "x"}, Surface.MCP)


@pytest.mark.requirement("parse:mcp:unknown-key-is-counted")
def test_what_a_server_says_beyond_the_fields_is_ignored_and_counted() -> None:
    draft = parse({"id": "r1", "body": "x", "content": 1, "mode": "audit_only", "dedupe_key": "k"}, Surface.MCP)
    assert draft.ignored == ("'content'", "'mode'", "'dedupe_key'")
    assert (draft.mode, draft.dedupe_key) == ("finish_step", None)


# Errors.


@pytest.mark.requirement("parse:errors:name-field-and-value")
@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("body", 17, "body must be a string, not 17"),
        ("body", " \n", r"body must not be blank, got ' \n'"),
        ("body", "a\x07b", "body contains the character U+0007 at 1"),
        ("tags", "ci", "tags must be a list of strings, not 'ci'"),
        ("tags", ["a", 17], "tags[1] must be a string, not 17"),
        ("tags", ["a", " "], "tags[1] must not be blank, got ' '"),
        ("tags", ["t" * 65], f"tags[0] has 65 bytes, at most 64 are accepted: '{'t' * 65}'"),
        ("dedupeKey", 17, "dedupeKey must be a string, not 17"),
        ("ttlTurns", "2", "ttlTurns must be a whole number, not '2'"),
        ("ttlTurns", 0, "ttlTurns must be between 1 and 1,000,000, not 0"),
        ("preserveOnCompact", "yes", "preserveOnCompact must be true or false, not 'yes'"),
        ("propagate", "workspace", "propagate must be 'all', 'session' or 'none', not 'workspace'"),
        (
            "roleHint",
            "root",
            "roleHint must be one of 'system', 'developer', 'user_block', 'ephemeral_cache', not 'root'",
        ),
        ("mode", "later", "mode must be one of 'interrupt_immediate', 'finish_step', 'audit_only', not 'later'"),
        ("id", "a b", "id must be 1 to 128 letters, digits or '._:-', not 'a b'"),
        ("typo", 1, "tasks/inject_reminder has no option 'typo'"),
        ("ttl_turns", 1, "tasks/inject_reminder has no option 'ttl_turns'; did you mean 'ttlTurns'?"),
        ("_meta", 17, "_meta must be an object, not 17"),
    ],
)
def test_a_message_names_the_field_and_the_value(field: str, value: object, told: str) -> None:
    with pytest.raises(ReminderError, match=re.escape(told)) as refused:
        parse({"body": "x", field: value}, Surface.A2A)
    assert str(refused.value.field).startswith(field)


@pytest.mark.requirement("parse:errors:name-field-and-value")
@pytest.mark.parametrize("surface", Surface)
def test_what_is_no_object_at_all_is_shown(surface: Surface) -> None:
    with pytest.raises(ReminderError, match="must be an object, not 'a body'") as refused:
        parse("a body", surface)
    assert refused.value.value == "a body"


@pytest.mark.requirement("parse:errors:carry-their-code")
@pytest.mark.parametrize(
    ("surface", "code"),
    [
        (Surface.PIPELINE, "HARN-RMD-001"),
        (Surface.SESSION, "HARN-RMD-001"),
        (Surface.HOOK, "HARN-RMD-001"),
        (Surface.PROVIDER, "HARN-RMD-006"),
        (Surface.ACP, "HARN-RMD-002"),
        (Surface.ACP_LEGACY, "HARN-RMD-002"),
        (Surface.A2A, "HARN-RMD-002"),
        (Surface.A2A_METADATA, "HARN-RMD-002"),
        (Surface.HTTP, "HARN-RMD-002"),
        (Surface.MCP, "HARN-RMD-002"),
    ],
)
def test_an_error_carries_the_code_of_its_surface(surface: Surface, code: str) -> None:
    refused = refusal(surface, ttl_turns=0)
    assert refused.code == code
    assert str(refused).startswith(f"{code}: ")


@pytest.mark.requirement("parse:errors:change-nothing")
def test_a_refused_injection_leaves_the_transcript_alone() -> None:
    before = inject_reminder(Transcript(), {"body": "x", "dedupe_key": "k"}, new_id=counting_ids()).value.transcript
    with pytest.raises(InvalidOption):
        inject_reminder(before, {"body": " ", "dedupe_key": "k"}, new_id=counting_ids("other-"))
    assert [reminder.body for reminder in before.reminders] == ["x"]


@pytest.mark.requirement("parse:errors:change-nothing")
def test_a_refused_accept_leaves_inbox_and_live_reminders_alone() -> None:
    session = Session()
    session.inject(a_reminder("live", dedupe_key="k"))
    session.accept(a_draft(dedupe_key="k"))
    queued, journal = session.queued_ids, list(session.journal)
    with pytest.raises(BodyTooLarge):
        session.accept(a_draft(body="x" * 9000, dedupe_key="k"), CLIENT)
    assert (session.live_ids, session.queued_ids, session.journal) == (["live"], queued, journal)
