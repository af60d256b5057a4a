"""Payloads as objects and as JSON text: both are read to the same draft."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.errors import InvalidReminder, ReminderError
from sideband.core.limits import Limits
from sideband.core.parse import parse, parse_json
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
def test_what_is_read_from_text_is_what_the_object_in_it_says(
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
def test_text_over_the_size_of_a_frame_is_not_read(surface: Surface) -> None:
    text = json.dumps({"body": "x" * 50})
    with pytest.raises(InvalidReminder, match="at most 30 are read"):
        parse_json(text, surface, limits=Limits(frame_bytes=30))
