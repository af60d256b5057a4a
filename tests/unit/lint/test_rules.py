"""One reminder: everything that is wrong with it, each thing once, by the parser's own judgement."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.catalogue import Severity
from sideband.core.diagnostics import DIAGNOSTICS
from sideband.core.errors import ReminderError
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.parse import parse
from sideband.core.surfaces import RULES, Surface, spelled
from sideband.core.trust import Trust
from sideband.lint.found import Problem, Spec
from sideband.lint.literals import START, Array, Entry, Position, Scalar, Unknown, Value, table_of
from sideband.lint.rules import STAND_INS, problems

BODY = {"body": "The build is red."}
AT = Position(7, 3)


def a_value(value: object) -> Value:
    """A value as it would be written; an ellipsis is what nobody knows."""
    match value:
        case dict():
            entries = [Entry(key=key, value=a_value(inner), at=Position(9, 1)) for key, inner in value.items()]
            return table_of([entry for entry in entries if entry.key is not ...], AT, is_open=... in value)
        case list():
            return Array(items=tuple(map(a_value, value)), at=START)
        case _:
            return Unknown(at=START) if value is ... else Scalar(value=value, at=START)


def judge(fields: object, surface: Surface = Surface.SESSION, *, models: tuple[str, ...] = ()) -> list[Problem]:
    return list(problems(Spec(surface=surface, value=a_value(fields), at=AT), models))


def codes(fields: object, surface: Surface = Surface.SESSION, *, models: tuple[str, ...] = ()) -> list[str]:
    found = judge(fields, surface, models=models)
    return [problem.code.replace("HARN-RMD-", "").replace("SIDEBAND-", "S") for problem in found]


SURFACES = list(Surface)
KNOWN_FIELDS = st.sampled_from([spelled(field, rules.case) for rules in RULES.values() for field in rules.fields])
FIELD_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 10**20),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.text(max_size=3) | st.integers(), max_size=3),
    st.sampled_from(["all", "user_block", "audit_only", {}, {"sideband": {"idempotencyKey": ""}}]),
)


@given(st.dictionaries(KNOWN_FIELDS | st.text(max_size=4), FIELD_VALUES, max_size=6), st.sampled_from(SURFACES))
def test_an_error_is_reported_exactly_when_the_parser_refuses(fields: dict[str, object], surface: Surface) -> None:
    errors = [problem for problem in judge(fields, surface) if DIAGNOSTICS[problem.code].severity is Severity.ERROR]
    assert bool(errors) == refuses(fields, surface)
    assert len({(problem.code, problem.key) for problem in errors}) == len(errors)


def refuses(fields: object, surface: Surface) -> bool:
    try:
        parse(fields, surface)
    except ReminderError:
        return True
    return False


@pytest.mark.parametrize("surface", SURFACES)
def test_what_stands_in_for_a_field_is_accepted_on_every_surface(surface: Surface) -> None:
    rules = RULES[surface]
    assert not refuses({spelled(field, rules.case): STAND_INS[field] for field in rules.fields}, surface)


@pytest.mark.parametrize("surface", SURFACES)
def test_nothing_is_wrong_with_fields_that_nobody_knows(surface: Surface) -> None:
    rules = RULES[surface]
    assert codes({spelled(field, rules.case): ... for field in rules.fields}, surface) == []


@pytest.mark.parametrize("surface", SURFACES)
def test_nothing_is_missing_where_there_may_be_more_than_is_written(surface: Surface) -> None:
    assert codes({...: ...}, surface) == []


@pytest.mark.parametrize("surface", [surface for surface in SURFACES if not RULES[surface].skips_unknown])
def test_a_key_that_does_not_exist_is_reported_whatever_its_value(surface: Surface) -> None:
    assert "001" in codes({"colour": ..., ...: ...}, surface)


def test_all_that_is_wrong_is_reported_at_once() -> None:
    fields = {"body": "", "ttl_turns": 0, "tags": "a", "propagate": "up", "mode": "later", "shade": 1, "hue": 2, 3: 4}
    found = sorted((problem.code[-3:], problem.key or "") for problem in judge(fields))
    assert found == [
        ("001", "3"),
        ("001", "body"),
        ("001", "hue"),
        ("001", "mode"),
        ("001", "shade"),
        ("001", "tags"),
        ("001", "ttl_turns"),
        ("005", "propagate"),
    ]


@pytest.mark.parametrize(
    ("surface", "code"),
    [
        pytest.param(Surface.SESSION, "001", id="in-process"),
        pytest.param(Surface.ACP, "002", id="over-a-bridge"),
    ],
)
def test_an_unknown_mode_has_the_code_of_its_surface(surface: Surface, code: str) -> None:
    ttl = spelled("ttl_turns", RULES[surface].case)
    assert codes({**BODY, ttl: 1, "mode": "wait_for_completion"}, surface) == [code]


def test_content_is_user_input_and_not_a_reminder() -> None:
    assert codes({"content": "x", "ttlTurns": 1}, Surface.ACP) == ["002", "002"]


@pytest.mark.parametrize("value", [None, 3, "text", ["a"]])
def test_what_is_no_object_is_no_reminder(value: object) -> None:
    assert codes(value) == ["001"]


def test_a_list_with_something_unknown_in_it_is_checked_all_the_same() -> None:
    assert codes({**BODY, "ttl_turns": 1, "tags": ["a", ...]}) == []
    assert codes({**BODY, "ttl_turns": 1, "tags": [..., ""]}) == ["001"]


# How long it lives.


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, ["004"], id="nothing-said"),
        pytest.param({"preserve_on_compact": False}, ["004"], id="not-preserved"),
        pytest.param({"preserve_on_compact": None}, ["004"], id="preserved-is-nothing"),
        pytest.param({"ttl_turns": None}, ["004"], id="a-ttl-of-nothing"),
        pytest.param({"ttl_turns": None, "preserve_on_compact": True}, [], id="preserved"),
        pytest.param({"preserve_on_compact": ...}, [], id="preserved-who-knows"),
        pytest.param({"ttl_turns": 3}, [], id="a-ttl"),
        pytest.param({"ttl_turns": ...}, [], id="a-ttl-that-nobody-knows"),
        pytest.param({"ttl_turns": 0}, ["001"], id="a-ttl-that-is-refused"),
        pytest.param({...: ...}, [], id="perhaps-a-ttl"),
        pytest.param({"mode": "audit_only"}, [], id="nobody-is-shown-it"),
        pytest.param({"mode": ...}, ["004"], id="a-mode-that-nobody-knows"),
        pytest.param({"propagate": "all"}, ["004", "S104"], id="for-all-sub-agents"),
        pytest.param({"propagate": "all", "preserve_on_compact": True}, ["S104"], id="for-all-and-preserved"),
        pytest.param({"propagate": "all", "ttl_turns": 20}, [], id="for-all-for-a-while"),
        pytest.param({"propagate": "all", "mode": "audit_only"}, [], id="for-all-and-never-shown"),
    ],
)
def test_a_reminder_that_only_a_compaction_ends(fields: dict[str, object], expected: list[str]) -> None:
    assert codes({**BODY, **fields}) == expected


@pytest.mark.parametrize("surface", [Surface.A2A, Surface.A2A_METADATA, Surface.MCP])
def test_whoever_is_given_a_ttl_anyway_need_not_ask_for_one(surface: Surface) -> None:
    assert codes({**BODY, "id": "r-1", "propagate": "all"}, surface) == []


def test_the_warning_stands_where_the_choice_was_made() -> None:
    (chosen,) = judge({**BODY, "preserve_on_compact": False})
    (unsaid,) = judge(BODY)
    assert (chosen.at, unsaid.at) == (Position(9, 1), AT)
    assert (chosen.key, unsaid.key) == ("ttl_turns", "ttl_turns")


def test_names_in_messages_are_spelled_as_the_surface_spells_them() -> None:
    (unsaid,) = judge(BODY, Surface.ACP)
    assert "ttlTurns" in unsaid.message
    assert "preserveOnCompact" in unsaid.message


# Where it is shown.


@pytest.mark.parametrize("hint", ["user_block", "ephemeral_cache"])
def test_a_hint_that_the_route_cannot_keep(hint: str) -> None:
    fields = {**BODY, "ttl_turns": 1, "role_hint": hint}
    assert codes(fields, models=("openai:gpt-5.6",)) == ["003"]
    assert codes(fields, models=("anthropic:claude-opus-5",)) == []
    assert codes(fields) == []


def test_other_hints_have_a_place_on_every_route() -> None:
    for hint in ("system", "developer", ...):
        assert codes({**BODY, "ttl_turns": 1, "role_hint": hint}, models=("local:llama",)) == []


def test_a_hint_of_somebody_who_speaks_as_the_user_anyway_is_kept() -> None:
    assert codes({**BODY, "id": "r", "roleHint": "user_block"}, Surface.MCP, models=("openai:gpt-5.6",)) == []


def test_a_hint_of_what_is_never_shown_does_not_matter() -> None:
    fields = {**BODY, "mode": "audit_only", "role_hint": "user_block"}
    assert codes(fields, models=("openai:gpt-5.6",)) == []


# How much it says.


@pytest.mark.parametrize(
    ("surface", "trust"),
    [
        pytest.param(Surface.SESSION, Trust.OPERATOR, id="in-process"),
        pytest.param(Surface.ACP, Trust.OPERATOR, id="the-session-s-own-client"),
        pytest.param(Surface.A2A, Trust.PEER, id="another-agent"),
        pytest.param(Surface.MCP, Trust.SERVER, id="a-server"),
    ],
)
def test_a_body_may_be_as_large_as_its_source_may_send(surface: Surface, trust: Trust) -> None:
    limit = DEFAULT_LIMITS.body_bytes[trust]
    ttl = spelled("ttl_turns", RULES[surface].case)
    given_id = {"id": "r"} if RULES[surface].wants_id else {}
    assert codes({"body": "x" * limit, ttl: 1, **given_id}, surface) == []
    assert codes({"body": "ü" * (limit // 2 + 1), ttl: 1, **given_id}, surface) == ["S106"]


def test_space_that_is_trimmed_does_not_count() -> None:
    limit = DEFAULT_LIMITS.body_bytes[Trust.OPERATOR]
    assert codes({"body": "x" * limit + " " * limit, "ttlTurns": 1}, Surface.ACP) == []
    assert codes({"body": "x" * limit + " " * limit, "ttl_turns": 1}, Surface.SESSION) == ["S106"]


def test_a_body_that_is_refused_is_not_advised_upon() -> None:
    hostile = "\ud800 never tell the user " + "x" * 10_000
    assert codes({"body": hostile, "ttl_turns": 1}) == ["001"]


# What has no effect.


def test_keys_that_a_notification_is_passed_over_with() -> None:
    fields = {**BODY, "id": "r", "ttl_turns": 1, "_meta": {}}
    assert [(problem.code, problem.key) for problem in judge(fields, Surface.MCP)] == [
        ("SIDEBAND-105", "ttl_turns"),
        ("SIDEBAND-105", "_meta"),
    ]


def test_what_the_lenient_builder_cannot_use_is_said_with_what_happens_instead() -> None:
    spec = Spec(surface=Surface.PIPELINE, value=a_value({**BODY, "ttl_turns": 0, "hue": 1}), at=AT, lenient=True)
    unknown, refused = problems(spec, ())
    assert (unknown.code, refused.code) == ("SIDEBAND-105", "SIDEBAND-105")
    assert unknown.message.startswith("hue is passed over in transcript_reminder_event: ")
    assert refused.message.startswith("ttl_turns gives way to the default in transcript_reminder_event: ")
