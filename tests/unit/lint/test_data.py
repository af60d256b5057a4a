"""JSON and TOML: what counts as ours, and that nothing else does."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.lint.checking import check_text, codes, places

GOOD = {"body": "The build is red.", "ttl_turns": 1}
RECORD = {**GOOD, "id": "r-1", "source": "hook", "fired_at_turn": 4, "propagate": "session"}


def in_json(document: object, name: str = "spec.json") -> list[str]:
    return codes(json.dumps(document), name)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({"body": "x", "ttl_turns": 0}, ["001"], id="a-reminder"),
        pytest.param({"body": "x", "ttl_turns": 1, "mode": "audit_only"}, [], id="a-reminder-with-a-mode"),
        pytest.param({"body": "x", "ttlTurns": 0}, ["002"], id="a-reminder-as-it-is-sent"),
        pytest.param({"body": "x", "ttl_turns": 1, "roleHint": "system"}, ["001"], id="a-reminder-in-two-spellings"),
        pytest.param([GOOD, {**GOOD, "propagate": "up"}, "text"], ["005"], id="a-list-of-reminders"),
        pytest.param({"reminder": {"body": ""}}, ["001", "004"], id="below-reminder"),
        pytest.param({"reminder": [GOOD, 3]}, ["001"], id="a-list-below-reminder"),
        pytest.param({"reminders": [GOOD, {**GOOD, "color": 1}]}, ["001"], id="a-list-below-reminders"),
        pytest.param({"reminders": [{"dedupe_key": "k", "ttl_turns": 1}]}, ["001"], id="without-a-body"),
        pytest.param({"reminders": [RECORD, {**GOOD, "color": 1}]}, ["001"], id="beside-a-record"),
        pytest.param(
            {"messages": [], "reminders": [{**GOOD, "trust": "server", "from": "ci"}, GOOD]},
            [],
            id="those-of-a-request",
        ),
        pytest.param(
            {
                "messages": [],
                "reminders": [{**GOOD, "trust": "server", "mode": "audit_only"}, {"body": "", "ttl_turns": 1}],
            },
            ["001", "001"],
            id="mistakes-in-those-of-a-request",
        ),
        pytest.param(
            {"messages": "none", "reminders": [{**GOOD, "trust": "server"}]}, ["001"], id="no-request-without-messages"
        ),
        pytest.param(
            {"provider": "p", "reminder": {"body": "", "ttl_turns": 1}}, ["006"], id="what-a-provider-returned"
        ),
        pytest.param({"hooks": [{"event": "file_edited", "reminder": {**GOOD, "id": "i"}}]}, ["001"], id="a-hook"),
        pytest.param({"hooks": [{"event": "file_edit", "reminder": GOOD}]}, ["001"], id="an-unknown-event"),
        pytest.param({"hooks": [{"event": "worker_failed", "reminder": GOOD}]}, ["008"], id="a-watched-event"),
        pytest.param({"hooks": [{"event": "post_turn", "effects": [{"reminder": GOOD}, 3]}]}, ["001"], id="effects"),
        pytest.param({"providers": [f"p{n}" for n in range(9)]}, ["007"], id="a-choice-of-providers"),
        pytest.param({"providers": [f"p{n}" for n in range(9)], "enabled": True}, ["007"], id="a-choice-and-a-switch"),
        pytest.param({"reminders": {"providers": [f"p{n}" for n in range(9)]}}, ["007"], id="a-choice-below-reminders"),
        pytest.param({"providers": ["-p0", *(f"p{n}" for n in range(9))]}, [], id="a-choice-with-one-switched-off"),
        pytest.param(
            {"logs": [{"jsonrpc": "2.0", "method": "session/inject_reminder", "params": {"body": ""}}]},
            ["002", "004"],
            id="a-message-anywhere",
        ),
        pytest.param(
            {"model": "openai:gpt-5.6", "reminder": {**GOOD, "role_hint": "user_block"}}, ["003"], id="a-route"
        ),
        pytest.param({"model": "gpt-5.6", "reminder": {**GOOD, "role_hint": "user_block"}}, [], id="an-unknown-route"),
    ],
)
def test_what_is_ours_is_checked(document: object, expected: list[str]) -> None:
    assert in_json(document) == expected


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"name": "web", "version": "1.0.0", "scripts": {"build": "tsc"}}, id="a-package"),
        pytest.param({"title": "Release", "body": "What is new", "tags": ["v1"]}, id="a-page-with-body-and-tags"),
        pytest.param({"providers": ["aws", "gcp"], "region": "eu"}, id="providers-of-other-things"),
        pytest.param({"providers": {"aws": {}}, "config": {}}, id="providers-by-name"),
        pytest.param({"hooks": {"PreToolUse": [{"matcher": "Bash"}]}}, id="hooks-of-another-program"),
        pytest.param({"hooks": [{"event": "push", "url": "https://example.com"}, 3]}, id="hooks-of-a-web-service"),
        pytest.param({"hooks": [{"event": 3, "reminder": {"title": "x"}}]}, id="hooks-with-other-reminders"),
        pytest.param({"reminders": [{"title": "Dentist", "at": "noon"}]}, id="reminders-of-a-calendar"),
        pytest.param({"reminder": "Dentist at noon"}, id="a-reminder-that-is-text"),
        pytest.param({"properties": {"body": {"type": "string"}, "ttlTurns": {"type": "integer"}}}, id="a-schema"),
        pytest.param({"id": "e", "kind": "system_reminder", "reminder": RECORD, "metadata": RECORD}, id="an-event"),
        pytest.param(RECORD, id="a-record"),
        pytest.param({"reminders": [RECORD, RECORD]}, id="records"),
        pytest.param(
            {"jsonrpc": "2.0", "method": "tasks/reminderEmitted", "params": {"reminder": RECORD}}, id="a-notice"
        ),
        pytest.param({"jsonrpc": "2.0", "result": {"reminderId": "r", "dedupedCount": 0}}, id="a-reply"),
        pytest.param([1, "body", None, [GOOD]], id="a-list-of-anything"),
        pytest.param("body ttl_turns", id="text"),
        pytest.param(3, id="a-number"),
    ],
)
def test_what_is_not_ours_is_left_alone(document: object) -> None:
    assert in_json(document) == []


def test_findings_stand_at_the_key_that_is_wrong() -> None:
    text = """\
    {
      "reminders": [
        {"body": "x", "ttl_turns": 1},
        {
          "body": "x",
          "ttl_turns": 1.5,
          "shade": 1
        }
      ]
    }
    """
    assert places(text, "spec.json") == [("001", 6, 7, "ttl_turns"), ("001", 7, 7, "shade")]


def test_a_key_that_comes_twice_is_reported_inside_ours_only() -> None:
    text = """\
    {"other": {"a": 1, "a": 2}, "reminder": {"body": "x", "ttl_turns": 1,
      "ttl_turns": 2}}
    """
    assert places(text, "spec.json") == [("002", 2, 3, "ttl_turns")]


def test_a_key_that_comes_twice_around_ours_is_reported() -> None:
    text = """\
    {"note": 1, "note": 2,
     "hooks": [],
     "hooks": [{"event": "post_turn",
       "event": "post_step", "reminder": {"body": "x", "ttl_turns": 1}}]}
    """
    assert places(text, "spec.json") == [("002", 3, 2, "hooks"), ("002", 4, 4, "event")]


def test_a_key_that_comes_twice_in_a_message_is_reported_wherever_it_stands() -> None:
    text = """\
    {"jsonrpc": "2.0", "method": "session/inject_reminder",
     "method": "session/inject_reminder",
     "params": {"body": "x", "ttlTurns": 1, "_meta": {"k": 1,
      "k": 2}}}
    """
    assert places(text, "frame.json") == [("002", 2, 2, "method"), ("002", 4, 3, "k")]


def test_lines_of_json_are_checked_each_for_itself() -> None:
    lines = [json.dumps(GOOD), "", '{"propagate": "up", "body": "x", "ttl_turns": 1}', "{broken", "{broken too"]
    for name in ("log.jsonl", "log.ndjson"):
        assert places("\n".join(lines), name) == [("005", 3, 2, "propagate"), ("S100", 4, 2, "")]


def test_toml_is_checked_like_json() -> None:
    text = """\
    model = "openai:gpt-5.6"

    [[reminder]]
    body = "x"
    ttl_turns = 0

    [[reminder]]
    body = "x" # nothing else

    [[hooks]]
    event = "worker_failed"
    reminder = { body = "x", ttl_turns = 1 }

    [[reminders]]
    body = "x"
    ttl_turns = 1
    role_hint = "user_block"

    [[reminders]]
    body = 1979-05-27
    preserve_on_compact = true
    """
    assert places(text, "spec.toml") == [
        ("001", 5, 1, "ttl_turns"),
        ("004", 7, 1, "ttl_turns"),
        ("008", 12, 1, "event"),
        ("003", 17, 1, "role_hint"),
        ("001", 20, 1, "body"),
    ]


def test_a_mark_in_front_of_the_text_makes_no_difference() -> None:
    assert codes("\ufeff" + json.dumps({"body": "x", "ttl_turns": 0}), "spec.json") == ["001"]


FIELDS = st.sampled_from(
    [
        "body",
        "ttl_turns",
        "ttlTurns",
        "tags",
        "reminder",
        "reminders",
        "hooks",
        "event",
        "effects",
        "providers",
        "method",
        "params",
        "jsonrpc",
        "_meta",
        "provider",
        "model",
        "id",
        "propagate",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
WORDS = st.sampled_from(["session/remind", "notifications/reminder", "worker_failed", "openai:x", "all", "reminder"])
DOCUMENTS = st.recursive(
    LEAVES | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=15,
)


@given(DOCUMENTS)
def test_no_document_is_too_strange_to_be_checked(document: object) -> None:
    for finding in check_text(json.dumps(document), "spec.json"):
        assert finding.message


@given(st.text())
def test_no_text_is_too_strange_to_be_read_as_data(text: str) -> None:
    for name in ("spec.json", "spec.jsonl", "spec.toml"):
        check_text(text, name)
