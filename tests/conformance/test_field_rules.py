"""Validation of single fields: what is tidied, what is bounded, and what only the session may set."""

from collections.abc import Callable

import pytest

from sideband.core.errors import BodyTooLarge, InvalidReminder
from sideband.core.parse import parse_json
from sideband.core.reminder import Source, in_name_of
from sideband.core.surfaces import CLAIMS, RULES, Surface
from sideband.core.transcript import Transcript, inject_reminder
from sideband.core.trust import Provenance, Trust
from tests.builders import a_draft, counting_ids
from tests.payloads import BRIDGES, IN_PROCESS, parsed, refusal
from tests.sessions import Session

# Single fields.


@pytest.mark.requirement("parse:tags:trimmed")
@pytest.mark.parametrize("surface", Surface)
def test_tags_are_trimmed(surface: Surface) -> None:
    assert parsed(surface, tags=["  a", "b\n", "c d"]).tags == ("a", "b", "c d")


@pytest.mark.requirement("parse:tags:blank-is-an-error")
@pytest.mark.parametrize("surface", Surface)
@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_tag_is_refused(surface: Surface, blank: str) -> None:
    refused = refusal(surface, tags=["a", blank])
    assert (refused.field, refused.value) == ("tags[1]", blank)


@pytest.mark.requirement("parse:tags:duplicates-are-removed")
@pytest.mark.parametrize("surface", Surface)
def test_of_equal_tags_the_first_is_kept(surface: Surface) -> None:
    assert parsed(surface, tags=["b", "a", " b ", "c", "a"]).tags == ("b", "a", "c")


@pytest.mark.requirement("parse:dedupe-key:trimmed")
@pytest.mark.parametrize("surface", Surface)
def test_a_dedupe_key_is_trimmed(surface: Surface) -> None:
    assert parsed(surface, dedupe_key="  ci: status\n").dedupe_key == "ci: status"


@pytest.mark.requirement("parse:dedupe-key:blank-is-none")
@pytest.mark.parametrize("surface", Surface)
@pytest.mark.parametrize("blank", ["", " \t"])
def test_a_blank_dedupe_key_is_none(surface: Surface, blank: str) -> None:
    assert parsed(surface, dedupe_key=blank).dedupe_key is None


@pytest.mark.requirement("parse:ttl:bounds")
@pytest.mark.parametrize("surface", Surface)
def test_a_ttl_has_bounds(surface: Surface) -> None:
    assert parsed(surface, ttl_turns=1).ttl_turns == 1
    assert parsed(surface, ttl_turns=1_000_000).ttl_turns == 1_000_000
    for outside in (0, 1_000_001, 2**63, 10**5000):
        assert refusal(surface, ttl_turns=outside).value == outside


@pytest.mark.requirement("parse:ttl:only-integers")
@pytest.mark.parametrize("surface", [surface for surface in Surface if surface is not Surface.A2A_METADATA])
@pytest.mark.parametrize("value", [True, False, 1.0, 2.5, "2"])
def test_only_an_integer_is_a_ttl(surface: Surface, value: object) -> None:
    assert refusal(surface, ttl_turns=value).value is value


@pytest.mark.requirement("parse:ttl:whole-doubles-from-a-struct")
def test_a_whole_double_in_a_struct_is_a_ttl() -> None:
    assert parsed(Surface.A2A_METADATA, ttl_turns=2.0) == parsed(Surface.A2A_METADATA, ttl_turns=2)
    assert type(parsed(Surface.A2A_METADATA, ttl_turns=2.0).ttl_turns) is int


@pytest.mark.requirement("parse:ttl:whole-doubles-from-a-struct")
@pytest.mark.parametrize("value", [2.5, 0.0, -1.0, 1e300, float("inf"), float("nan"), True, "2"])
def test_any_other_double_in_a_struct_is_refused(value: object) -> None:
    assert refusal(Surface.A2A_METADATA, ttl_turns=value).field == "ttlTurns"


TEXT_FIELDS = {
    "body": lambda text: text,
    "tags": lambda text: ["a", text],
    "dedupe_key": lambda text: text,
    "id": lambda text: text,
    "source": lambda text: text,
    "originating_agent_id": lambda text: text,
}
CONTROL_CHARACTERS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\r\t"]


def text_fields(surface: Surface) -> dict[str, Callable[[str], object]]:
    return {field: made for field, made in TEXT_FIELDS.items() if field in RULES[surface].fields}


@pytest.mark.requirement("parse:text:control-characters-are-errors")
@pytest.mark.parametrize("surface", Surface)
def test_a_control_character_is_refused_in_every_text(surface: Surface) -> None:
    for field, made in text_fields(surface).items():
        for character in CONTROL_CHARACTERS:
            refused = refusal(surface, **{field: made(f"a{character}b")})
            assert f"U+{ord(character):04X} at 1" in str(refused)


@pytest.mark.requirement("parse:text:control-characters-are-errors")
@pytest.mark.parametrize("surface", Surface)
def test_line_ends_and_tabs_are_no_control_characters(surface: Surface) -> None:
    assert parsed(surface, body="a\r\n\tb").body == "a\r\n\tb"


@pytest.mark.requirement("parse:text:lone-surrogates-are-errors")
@pytest.mark.parametrize("surface", Surface)
@pytest.mark.parametrize("surrogate", [0xD800, 0xDBFF, 0xDC00, 0xDFFF], ids=hex)
def test_a_lone_surrogate_is_refused_in_every_text(surface: Surface, surrogate: int) -> None:
    for field, made in text_fields(surface).items():
        assert f"U+{surrogate:04X} at 1" in str(refusal(surface, **{field: made(f"a{chr(surrogate)}")}))


@pytest.mark.requirement("parse:text:lone-surrogates-are-errors")
@pytest.mark.parametrize("text", ['{"body":"\\ud800"}', '{"body":"\ud800"}', '{"\\udc00":1,"body":"x"}'])
def test_a_lone_surrogate_is_refused_in_json(text: str) -> None:
    with pytest.raises(InvalidReminder):
        parse_json(text, Surface.ACP)


# Sizes.


@pytest.mark.requirement("parse:limits:body")
@pytest.mark.parametrize("trust", [Trust.OPERATOR, Trust.CONTROLLER, Trust.PEER, Trust.SERVER])
def test_a_body_over_8_kib_is_refused_from_everybody(trust: Trust) -> None:
    draft = a_draft(body="é" * 4096 + "x")
    with pytest.raises(BodyTooLarge, match="8,193") as refused:
        Session().accept(draft, Provenance(trust=trust, principal="p"))
    assert refused.value.reason == "body_too_large"


@pytest.mark.requirement("parse:limits:body")
def test_a_body_of_8_kib_is_accepted_and_one_byte_more_is_not() -> None:
    assert inject_reminder(Transcript(), {"body": "é" * 4096}, new_id=counting_ids()).value.transcript.reminders
    assert Session().accept(a_draft(body="é" * 4096)).reminder_id
    with pytest.raises(BodyTooLarge):
        inject_reminder(Transcript(), {"body": "é" * 4096 + "x"}, new_id=counting_ids())


@pytest.mark.requirement("parse:limits:tags")
@pytest.mark.parametrize("surface", Surface)
def test_at_most_16_tags_are_accepted(surface: Surface) -> None:
    tags = [f"t{number}" for number in range(16)]
    assert parsed(surface, tags=tags).tags == tuple(tags)
    assert refusal(surface, tags=[*tags, "one more"]).field == "tags"


@pytest.mark.requirement("parse:limits:tag-length")
@pytest.mark.parametrize("surface", Surface)
@pytest.mark.parametrize("longest", ["t" * 64, "é" * 32], ids=["ascii", "two-byte"])
def test_a_tag_has_at_most_64_bytes(surface: Surface, longest: str) -> None:
    assert parsed(surface, tags=[longest, f" {longest[:-1]} "]).tags == (longest, longest[:-1])
    assert "65 bytes" in str(refusal(surface, tags=[f"{longest}x"]))


@pytest.mark.requirement("parse:limits:dedupe-key-length")
@pytest.mark.parametrize("surface", Surface)
@pytest.mark.parametrize("longest", ["k" * 256, "é" * 128], ids=["ascii", "two-byte"])
def test_a_dedupe_key_has_at_most_256_bytes(surface: Surface, longest: str) -> None:
    assert parsed(surface, dedupe_key=longest).dedupe_key == longest
    assert parsed(surface, dedupe_key=f" {longest} ").dedupe_key == longest
    assert "257 bytes" in str(refusal(surface, dedupe_key=f"{longest}x"))


@pytest.mark.requirement("parse:limits:meta-size")
@pytest.mark.parametrize("surface", BRIDGES)
def test_an_envelope_has_at_most_4_kib(surface: Surface) -> None:
    largest = {"k": "x" * (4096 - len('{"k":""}'))}
    assert parsed(surface, _meta=largest).meta == largest
    assert "4,097 bytes" in str(refusal(surface, _meta={"k": largest["k"] + "x"}))


@pytest.mark.requirement("parse:limits:meta-depth")
@pytest.mark.parametrize("surface", BRIDGES)
@pytest.mark.parametrize("innermost", [{}, [], {"k": 1}, [1]], ids=repr)
def test_an_envelope_is_at_most_8_deep(surface: Surface, innermost: object) -> None:
    deepest: object = innermost
    for level in range(6):
        deepest = {"k": deepest} if level % 2 else [deepest]
    assert parsed(surface, _meta={"k": deepest}).meta == {"k": deepest}
    assert "8 levels deep" in str(refusal(surface, _meta={"k": [deepest]}))


@pytest.mark.requirement("parse:limits:meta-size")
@pytest.mark.parametrize(
    "meta",
    [
        pytest.param("text", id="a-string"),
        pytest.param([1], id="a-list"),
        pytest.param({"k": object()}, id="with-a-value-json-does-not-know"),
        pytest.param({"k": "\ud800"}, id="with-a-lone-surrogate"),
        pytest.param({"k": 10**5000}, id="with-a-number-beyond-all-bounds"),
    ],
)
def test_an_envelope_that_is_no_json_object_is_refused(meta: object) -> None:
    assert refusal(Surface.ACP, _meta=meta).field == "_meta"


# Who may set what.


@pytest.mark.requirement("parse:in-process:reserved-fields")
@pytest.mark.parametrize("surface", IN_PROCESS)
@pytest.mark.parametrize("field", ["id", "source", "fired_at_turn", "originating_agent_id"])
def test_code_in_process_cannot_set_what_belongs_to_the_session(surface: Surface, field: str) -> None:
    refused = refusal(surface, **{field: 1})
    assert (refused.code, refused.field) == ("HARN-RMD-001", field)


@pytest.mark.requirement("parse:in-process:mode-is-not-theirs")
@pytest.mark.parametrize("surface", [Surface.PIPELINE, Surface.HOOK, Surface.PROVIDER])
def test_code_that_injects_at_once_has_no_mode_to_choose(surface: Surface) -> None:
    refused = refusal(surface, mode="finish_step")
    assert (refused.code, refused.field) == ("HARN-RMD-001", "mode")


@pytest.mark.requirement("parse:in-process:mode-is-not-theirs")
@pytest.mark.parametrize("surface", [Surface.SESSION, *BRIDGES])
def test_what_goes_through_the_inbox_has_a_mode(surface: Surface) -> None:
    assert parsed(surface, mode="audit_only").mode == "audit_only"


@pytest.mark.requirement("parse:caller-id:pattern")
@pytest.mark.parametrize("surface", [Surface.A2A, Surface.A2A_METADATA, Surface.MCP])
def test_the_id_of_a_caller_is_short_and_plain(surface: Surface) -> None:
    for good in ("a", "A.z_0:9-", "x" * 128):
        assert parsed(surface, id=good).caller_id == good
    for bad in ("", "x" * 129, "a b", "a\n", "a/b", "é", " a"):
        assert type(refusal(surface, id=bad)) is InvalidReminder


@pytest.mark.requirement("parse:caller-id:acp-id-is-unknown")
@pytest.mark.parametrize("surface", [Surface.ACP, Surface.ACP_LEGACY])
def test_a_client_cannot_name_its_reminder_at_the_top_level(surface: Surface) -> None:
    refused = refusal(surface, id="mine")
    assert (refused.code, refused.field) == ("HARN-RMD-001", "id")


@pytest.mark.requirement("parse:caller-id:acp-idempotency-key")
@pytest.mark.parametrize("surface", [Surface.ACP, Surface.ACP_LEGACY])
def test_a_client_names_its_reminder_in_the_envelope(surface: Surface) -> None:
    assert parsed(surface, _meta={"sideband": {"idempotencyKey": "mine"}}).caller_id == "mine"


@pytest.mark.requirement("parse:caller-id:acp-idempotency-key")
@pytest.mark.parametrize("meta", [{}, {"sideband": None}, {"sideband": "x"}, {"sideband": {"idempotencyKey": None}}])
def test_an_envelope_without_a_key_leaves_the_naming_to_the_session(meta: object) -> None:
    assert parsed(Surface.ACP, _meta=meta).caller_id is None


@pytest.mark.requirement("parse:caller-id:acp-idempotency-key", "parse:caller-id:pattern")
@pytest.mark.parametrize("key", ["", "a b", 5])
def test_a_bad_key_in_the_envelope_is_refused_by_its_full_name(key: object) -> None:
    refused = refusal(Surface.ACP, _meta={"sideband": {"idempotencyKey": key}})
    assert (type(refused), refused.field) == (InvalidReminder, "_meta.sideband.idempotencyKey")


@pytest.mark.requirement("parse:caller-id:becomes-the-id")
def test_the_id_a_caller_chose_becomes_the_id_of_the_reminder() -> None:
    session = Session()
    assert session.accept(parsed(Surface.A2A, id="reminder-7")).reminder_id == "reminder-7"
    assert session.queued_ids == ["reminder-7"]


@pytest.mark.requirement("parse:caller-id:mcp-ids-get-a-prefix")
def test_the_id_a_server_chose_gets_the_name_of_the_server_in_front() -> None:
    session = Session()
    for server in ("ci", "lint"):
        principal = Provenance(trust=Trust.SERVER, principal=server, via="mcp")
        session.accept(in_name_of(parsed(Surface.MCP, id="r1"), server), principal)
    assert session.queued_ids == ["ci:r1", "lint:r1"]


@pytest.mark.requirement("parse:caller-id:mcp-ids-get-a-prefix")
def test_a_draft_whose_caller_named_nothing_stays_without_a_name() -> None:
    assert in_name_of(a_draft(), "ci").caller_id is None


@pytest.mark.requirement("parse:claims:are-kept", "parse:claims:are-not-believed")
@pytest.mark.parametrize("surface", [Surface.A2A, Surface.A2A_METADATA, Surface.MCP])
def test_what_a_caller_says_of_itself_is_kept_and_not_believed(surface: Surface) -> None:
    claimed = {"source": "hook", "fired_at_turn": 40, "originating_agent_id": "the boss"}
    session = Session()
    session.accept(parsed(surface, **claimed))
    session.drain()
    (item,) = session.state.live
    assert item.provenance.claims == claimed
    assert (item.reminder.source, item.reminder.fired_at_turn, item.reminder.originating_agent_id) == (
        Source.BRIDGE,
        1,
        None,
    )


@pytest.mark.requirement("parse:claims:are-kept")
@pytest.mark.parametrize("surface", [Surface.A2A, Surface.A2A_METADATA, Surface.MCP])
def test_a_claim_of_any_turn_is_kept_and_one_that_is_no_claim_is_refused(surface: Surface) -> None:
    for turn in (-(2**63), -1, 0, 2**63 - 1):
        assert parsed(surface, fired_at_turn=turn).claims == {"fired_at_turn": turn}
    for bad in ({"fired_at_turn": 2**63}, {"fired_at_turn": "4"}, {"source": 5}, {"source": "x" * 257}):
        assert type(refusal(surface, **bad)) is InvalidReminder
    assert parsed(surface, source="é" * 128).claims == {"source": "é" * 128}


@pytest.mark.requirement("parse:claims:are-not-believed")
@pytest.mark.parametrize("surface", [Surface.ACP, Surface.ACP_LEGACY, Surface.HTTP])
@pytest.mark.parametrize("field", CLAIMS)
def test_a_client_of_the_session_has_nothing_to_claim(surface: Surface, field: str) -> None:
    assert refusal(surface, **{field: "x"}).code == "HARN-RMD-001"
