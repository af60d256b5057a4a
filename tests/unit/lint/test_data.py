"""JSON and TOML: how they are read, and which of their content is checked."""

import json
import tomllib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.lint.data import read_json, read_json_lines, read_toml
from sideband.lint.literals import MAX_DEPTH, Array, Table, UnreadableSource, Value, plain
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
        pytest.param(
            {"providers": ["-p0", *(f"p{n}" for n in range(9))]}, ["001"], id="a-choice-with-one-switched-off"
        ),
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


# JSON.


JSON_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_DOCUMENTS, st.sampled_from([None, 0, 2]), st.booleans())
def test_json_values_are_those_of_the_standard_reader(document: object, indent: int | None, ascii_only: bool) -> None:  # noqa: FBT001 - drawn
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    assert plain(read_json(text)) == document


@given(st.text(alphabet='{}[]",:\\ntrue0-1.eE \n\tu"'))
def test_what_is_accepted_is_what_the_standard_reader_accepts(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(UnreadableSource):
            read_json(text)
    else:
        assert plain(read_json(text)) == expected


def test_keys_stand_where_they_are_written() -> None:
    value = read_json('{"a": 1,\n  "b": [\n    {"ü": 0, "c": 2}]}')
    assert isinstance(value, Table)
    inner = next(table for table in [value.value("b")] if table is not None)
    assert [(entry.key, *entry.at) for entry in value.entries] == [("a", 1, 2), ("b", 2, 3)]
    assert inner.at == (2, 8)


def test_columns_count_characters() -> None:
    value = read_json('{"🙂🙂": 0, "after": 1}')
    assert isinstance(value, Table)
    assert value.entries[1].at == (1, 11)


def test_a_key_that_comes_twice_is_remembered_with_its_place() -> None:
    value = read_json('{"a": 1,\n "a": 2}')
    assert isinstance(value, Table)
    assert [(entry.key, *entry.at) for entry in value.repeated] == [("a", 2, 2)]
    assert plain(value) == {"a": 2}


@pytest.mark.parametrize(
    ("text", "place", "complaint"),
    [
        pytest.param("", (1, 1), "expected a value", id="nothing"),
        pytest.param('{"a": 1,}', (1, 9), "expected a string", id="a-comma-too-many-in-an-object"),
        pytest.param("[1,]", (1, 4), "expected a value", id="a-comma-too-many-in-a-list"),
        pytest.param("[1 2]", (1, 4), "expected ',' or ']'", id="a-comma-too-few"),
        pytest.param('{"a" 1}', (1, 6), "expected ':'", id="no-colon"),
        pytest.param('{\n  "a": tru\n}', (2, 8), "expected a value", id="a-word-cut-short"),
        pytest.param("// a comment\n{}", (1, 1), "expected a value", id="a-comment"),
        pytest.param("{} {}", (1, 4), "expected the end of the text", id="two-documents"),
        pytest.param('"\\x"', (1, 1), "invalid escape or number", id="an-unknown-escape"),
        pytest.param('["open', (1, 2), "expected a string", id="a-string-without-end"),
        pytest.param("NaN", (1, 1), "expected a value", id="not-a-number"),
        pytest.param("1" * 5000, (1, 1), "invalid escape or number", id="a-number-beyond-what-python-reads"),
        pytest.param("[" * 5000, (1, MAX_DEPTH + 2), f"nested more than {MAX_DEPTH} deep", id="nested-without-end"),
    ],
)
def test_what_is_not_json_is_refused_where_it_is_noticed(text: str, place: tuple[int, int], complaint: str) -> None:
    with pytest.raises(UnreadableSource) as refused:
        read_json(text)
    assert (refused.value.at, str(refused.value)) == (place, f"not JSON: {complaint}")


def test_lines_are_read_one_by_one_and_numbered_together() -> None:
    first, second, third = read_json_lines('{"a": 1}\n\n  \nbroken\n {"b": 2}\r\n')
    assert isinstance(first, Table)
    assert isinstance(second, UnreadableSource)
    assert isinstance(third, Table)
    assert (first.entries[0].at, second.at, third.entries[0].at) == ((1, 2), (4, 1), (5, 3))


# TOML.


DOCUMENT = '''\
# a comment with [brackets] and "quotes
title = "a # b" # another
"quoted key" = 'its'
dotted.inner . key = 1979-05-27 07:32:00
list = [
    "first", # with a comment ]
    { name = "inline", "odd key" = [1, 2] },
]
text = """
[not.a.header]
key = "no key" \\""" still inside
"""""
raw = \'\'\'
it's ' and '' inside\'\'\'

[table]
"ünï" = 2

[[array]]
number = 1
[array.below]
deep = true
[[array]]
number = 2
[[array.nested]]
leaf = "x"
[[array.nested]]
leaf = "y"
'''


def toml_places(value: Value, path: str = "") -> Iterator[tuple[str, int, int]]:
    """Every key and item of a value with its place."""
    if isinstance(value, Table):
        for entry in value.entries:
            yield f"{path}/{entry.key}", *entry.at
            yield from toml_places(entry.value, f"{path}/{entry.key}")
    elif isinstance(value, Array):
        for number, item in enumerate(value.items):
            yield f"{path}/{number}", *item.at
            yield from toml_places(item, f"{path}/{number}")


def test_toml_values_are_those_of_the_standard_reader() -> None:
    assert plain(read_toml(DOCUMENT)) == tomllib.loads(DOCUMENT)


def test_keys_and_items_stand_where_they_are_written() -> None:
    assert list(toml_places(read_toml(DOCUMENT))) == [
        ("/title", 2, 1),
        ("/quoted key", 3, 1),
        ("/dotted", 4, 1),
        ("/dotted/inner", 4, 1),
        ("/dotted/inner/key", 4, 1),
        ("/list", 5, 1),
        ("/list/0", 6, 5),
        ("/list/1", 7, 5),
        ("/list/1/name", 7, 7),
        ("/list/1/odd key", 7, 24),
        ("/list/1/odd key/0", 7, 37),
        ("/list/1/odd key/1", 7, 40),
        ("/text", 9, 1),
        ("/raw", 13, 1),
        ("/table", 16, 1),
        ("/table/ünï", 17, 1),
        ("/array", 19, 1),
        ("/array/0", 19, 1),
        ("/array/0/number", 20, 1),
        ("/array/0/below", 21, 1),
        ("/array/0/below/deep", 22, 1),
        ("/array/1", 23, 1),
        ("/array/1/number", 24, 1),
        ("/array/1/nested", 25, 1),
        ("/array/1/nested/0", 25, 1),
        ("/array/1/nested/0/leaf", 26, 1),
        ("/array/1/nested/1", 27, 1),
        ("/array/1/nested/1/leaf", 28, 1),
    ]


def test_windows_line_ends_make_no_difference() -> None:
    assert list(toml_places(read_toml(DOCUMENT.replace("\n", "\r\n")))) == list(toml_places(read_toml(DOCUMENT)))


SCALARS = st.sampled_from(
    ['"a"', "'b'", '"""c\n"d" \\" """', "'''e\n'f' '''", "1", "-2.5", "true", "1979-05-27", '"#"']
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[ {' , '.join(items)} ]")
        | st.lists(inner, max_size=3).map(lambda items: "[\n" + "".join(f"  {item},  # ]\n" for item in items) + "]")
        | st.lists(inner, max_size=3).map(
            lambda items: f"{{ {', '.join(f'k{n} = {item}' for n, item in enumerate(items))} }}"
        )
    ),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=4), st.sampled_from(["", "[t]\n", "[[t]]\n", '[ "q.r" . s ]\n']))
def test_every_key_is_found_on_a_line_that_has_it(values: list[str], header: str) -> None:
    text = header + "".join(f"key{number} = {value}\n" for number, value in enumerate(values))
    lines = text.splitlines()
    for path, line, column in toml_places(read_toml(text)):
        key = path.rpartition("/")[2]
        if key.startswith(("k0", "k1", "k2", "key")):
            assert lines[line - 1][column - 1 :].startswith(f"{key} ")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("a = 1\nb = \n", (2, 5), id="no-value"),
        pytest.param("a = 1\na = 2\n", (2, 6), id="a-key-twice"),
        pytest.param('a = "open', (1, 1), id="a-string-without-end"),
        pytest.param("a = " + "1" * 5000, (1, 1), id="a-number-beyond-what-python-reads"),
        pytest.param("a = " + "[" * 5000, (1, 1), id="nested-without-end"),
    ],
)
def test_what_is_not_toml_is_refused_where_it_is_noticed(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(UnreadableSource, match="not TOML: ") as refused:
        read_toml(text)
    assert refused.value.at == place


def test_toml_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(UnreadableSource, match="deep"):
        read_toml(f"a = {'[' * (MAX_DEPTH + 1)}{']' * (MAX_DEPTH + 1)}")


def test_a_document_without_anything_is_an_empty_table() -> None:
    assert plain(read_toml("  \n# nothing\n")) == {}
