"""Parsing: payloads as objects and as JSON text give the same draft; JSON text is one bounded object."""

import json
from enum import IntEnum, StrEnum

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.errors import InvalidReminder, ReminderError, UnsupportedMode
from sideband.core.limits import Limits
from sideband.core.parse import depth, parse, parse_json, read_inject_mode, read_object
from sideband.core.seams import InjectMode
from sideband.core.surfaces import RULES, Case, Surface, spelled

# Values that are accepted, many of them with blanks, escapes or characters outside ASCII.
PLAIN = st.sampled_from(["x", "ci:status", "a-b", "R2"])
PECULIAR = st.sampled_from(
    ["a b", " x ", "é", "日本", "😀", '"', "\\", 'a\\"b', "a/b", "a\tb", "\u2028x", "\ufeffx", "\u00a0x"]
)
TEXTS = PLAIN | PECULIAR | st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=8)
GOOD: dict[str, st.SearchStrategy[object]] = {
    "body": TEXTS,
    "tags": st.lists(PLAIN, max_size=3) | st.lists(TEXTS, max_size=3),
    "dedupe_key": TEXTS | st.sampled_from(["", " "]),
    "ttl_turns": st.sampled_from([1, 2, 1_000_000]),
    "preserve_on_compact": st.booleans(),
    "propagate": st.sampled_from(["all", "session", "none"]),
    "role_hint": st.sampled_from(["system", "developer", "user_block", "ephemeral_cache"]),
    "mode": st.sampled_from(["finish_step", "interrupt_immediate", "audit_only"]),
    "id": st.sampled_from(["r1", "A.z_0:9-", "x" * 128]),
    "source": TEXTS | st.sampled_from(["", "x" * 256]),
    "fired_at_turn": st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)]),
    "originating_agent_id": TEXTS,
    "_meta": st.sampled_from([{}, {"a": 1}, {"a": {"b": {}}}, {"sideband": {"idempotencyKey": "k"}}]),
}
# Values that are refused, on some surfaces or on all.
WRONG: st.SearchStrategy[object] = (
    st.sampled_from([None, True, 0, 1, 2.0, 2.5, [], {}, "", " "]) | st.integers() | st.floats(allow_nan=False)
)
HOSTILE = st.sampled_from(["\x00", "a\x07", "\x7f", "\x85", "\u202e", "a\ud800", "\udc00", "x" * 300]) | st.text(
    max_size=8
)
ODD: dict[str, st.SearchStrategy[object]] = {
    **dict.fromkeys(GOOD, WRONG | HOSTILE),
    "tags": st.lists(HOSTILE, max_size=2) | st.lists(WRONG, max_size=2) | WRONG,
    "ttl_turns": WRONG | st.sampled_from([-1, 1_000_001, 2**63, 2**64 - 1, "2"]),
    "propagate": WRONG | st.sampled_from(["ALL", "workspace", "\ud800"]),
    "mode": WRONG | st.sampled_from(["wait_for_completion", "\ud800"]),
    "fired_at_turn": WRONG | st.sampled_from([2**63, -(2**63) - 1, "4"]),
    "_meta": st.dictionaries(TEXTS | HOSTILE, HOSTILE | WRONG, max_size=2) | WRONG,
    "content": TEXTS,
    "typo": WRONG,
}


@st.composite
def payloads(draw: st.DrawFn, surface: Surface) -> dict[str, object]:
    """A payload that this surface takes, or one with a fault or two."""
    rules = RULES[surface]
    required = ["body", "id"] if rules.wants_id else ["body"]
    fields = required + draw(st.lists(st.sampled_from(rules.fields), unique=True))
    payload = {spelled(field, rules.case): draw(GOOD[field]) for field in fields}
    for field in draw(st.just([]) | st.lists(st.sampled_from(list(ODD)), max_size=2)):
        case = draw(st.sampled_from([rules.case, rules.case, *Case]))
        payload[spelled(field, case)] = draw(ODD[field])
    return {name: payload[name] for name in draw(st.permutations(list(payload)))}


def surfaces_and_payloads() -> st.SearchStrategy[tuple[Surface, dict[str, object]]]:
    return st.sampled_from(Surface).flatmap(lambda surface: st.tuples(st.just(surface), payloads(surface)))


@st.composite
def texts(draw: st.DrawFn, value: object) -> str:
    """JSON for `value` with random blanks and escapes; sometimes a needed escape is missing or a key is repeated."""
    gap = draw(st.sampled_from(["", "", "", " ", "\n\t"]))
    if isinstance(value, dict):
        pairs = list(value.items())
        if pairs and draw(st.integers(0, 9)) == 0:
            pairs.append(draw(st.sampled_from(pairs)))
        written = [f"{draw(texts(name))}:{draw(texts(inner))}" for name, inner in pairs]
        return f"{gap}{{{','.join(written)}{gap}}}{gap}"
    if isinstance(value, list):
        return f"{gap}[{','.join(draw(texts(inner)) for inner in value)}]{gap}"
    match draw(st.integers(0, 9)) if isinstance(value, str) else None:
        case 0:
            return f'{gap}"{"".join(escaped(character) for character in str(value))}"{gap}'
        case 1:
            return f'{gap}"{value}"{gap}'
        case _:
            pass
    return f"{gap}{json.dumps(value, ensure_ascii=draw(st.booleans()))}{gap}"


def escaped(character: str) -> str:
    units = character.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))


@given(data=st.data(), given_to=surfaces_and_payloads())
def test_json_text_gives_the_same_draft_as_its_object(
    data: st.DataObject, given_to: tuple[Surface, dict[str, object]]
) -> None:
    surface, payload = given_to
    text = data.draw(texts(payload))
    try:
        draft = parse_json(text, surface)
    except ReminderError:
        # Text may be refused where its object is not: for a repeated key or a lone surrogate.
        return
    assert draft == parse(json.loads(text), surface)


@pytest.mark.parametrize("surface", Surface)
def test_text_over_the_size_of_a_frame_is_refused(surface: Surface) -> None:
    text = json.dumps({"body": "x" * 50})
    with pytest.raises(InvalidReminder, match="at most 30 are accepted"):
        parse_json(text, surface, limits=Limits(frame_bytes=30))


# Fields.


class Text(str):
    """Looks like something else when it is printed."""

    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Word(StrEnum):
    BODY = "The build is red."


class Number(IntEnum):
    TWO = 2


@pytest.mark.parametrize("body", [Text("The build is red."), Word.BODY])
def test_subclasses_of_str_and_int_are_read_as_plain_values(body: str) -> None:
    payload = {"body": body, "tags": [Text("a")], "dedupe_key": Text("k"), "ttl_turns": Number.TWO}
    draft = parse(payload, Surface.PIPELINE)
    assert (draft.body, draft.tags, draft.dedupe_key, draft.ttl_turns) == ("The build is red.", ("a",), "k", 2)
    assert {type(draft.body), type(draft.tags[0]), type(draft.dedupe_key)} == {str}
    assert type(draft.ttl_turns) is int
    assert msgspec.json.decode(msgspec.json.encode(draft.body)) == "The build is red."


@pytest.mark.parametrize("mode", InjectMode)
def test_every_mode_of_a_message_is_read(mode: InjectMode) -> None:
    assert read_inject_mode(mode.value) is mode


@pytest.mark.parametrize("word", ["later", "QUEUE", "", None, 1, ["queue"]])
def test_an_unknown_mode_of_a_message_is_refused(word: object) -> None:
    with pytest.raises(UnsupportedMode, match="'queue', 'steer'") as refused:
        read_inject_mode(word, "params.mode")
    assert (refused.value.field, refused.value.value) == ("params.mode", word)


# JSON text.


def test_an_object_is_read_from_text_and_from_bytes() -> None:
    assert read_object('{"é": [1, 2.5, null]}', max_bytes=100) == {"é": [1, 2.5, None]}
    assert read_object('{"é": true}'.encode(), max_bytes=100) == {"é": True}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param('{"a": 1}', "8 bytes, at most 7", id="too-large"),
        pytest.param("{", "not JSON", id="cut-off"),
        pytest.param("{1}", "not JSON", id="malformed"),
        pytest.param("NaN", "not JSON", id="no-number"),
        pytest.param(b"\xff", "not JSON", id="no-utf-8"),
        pytest.param(b'"\xff"', "not JSON", id="no-utf-8-in-a-string"),
        pytest.param('"\ud800"', "lone surrogate", id="lone-surrogate"),
        pytest.param("[1]", r"must be an object, not \[1\]", id="a-list"),
        pytest.param("null", "must be an object, not None", id="null"),
    ],
)
def test_text_that_is_not_one_bounded_json_object_is_refused(text: str | bytes, told: str) -> None:
    with pytest.raises(InvalidReminder, match=told):
        read_object(text, max_bytes=7)


@pytest.mark.parametrize("brackets", ["[]", '{"a":}'])
def test_deeply_nested_text_is_refused(brackets: str) -> None:
    opening, closing = brackets[:-1], brackets[-1]
    text = '{"a":' + opening * 100_000 + "1" + closing * 100_000 + "}"
    with pytest.raises(InvalidReminder, match="nested too deeply"):
        read_object(text, max_bytes=len(text))


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '{"b":[{"a":1,"a":2}]}', '{"a":1,"\\u0061":2}'])
def test_a_repeated_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidReminder, match="key 'a' occurs twice"):
        read_object(text, max_bytes=100)


def test_a_key_may_occur_in_several_objects() -> None:
    assert read_object('{"a":{"a":[{"a":1},{"a":2}]}}', max_bytes=100) == {"a": {"a": [{"a": 1}, {"a": 2}]}}


@pytest.mark.parametrize(
    ("value", "deep"),
    [
        (1, 0),
        ("text", 0),
        ({}, 1),
        ([], 1),
        ({"a": 1}, 1),
        ({"a": {}}, 2),
        ([[], [[]], ()], 3),
        ({"a": [{"b": 1}], "c": 2}, 3),
    ],
)
def test_depth_counts_objects_and_arrays(value: object, deep: int) -> None:
    assert depth(value, limit=8) == deep


def test_depth_is_counted_no_further_than_one_past_the_limit() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert depth(endless, limit=8) == 9
