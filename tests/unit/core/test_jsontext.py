"""JSON text from outside: one object, bounded, every key once."""

import pytest

from sideband.core.errors import InvalidReminder
from sideband.core.jsontext import depth, read_object


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
def test_anything_else_is_refused(text: str | bytes, told: str) -> None:
    with pytest.raises(InvalidReminder, match=told):
        read_object(text, max_bytes=7)


@pytest.mark.parametrize("brackets", ["[]", '{"a":}'])
def test_text_that_nests_without_end_is_refused(brackets: str) -> None:
    opening, closing = brackets[:-1], brackets[-1]
    text = '{"a":' + opening * 100_000 + "1" + closing * 100_000 + "}"
    with pytest.raises(InvalidReminder, match="nested too deeply"):
        read_object(text, max_bytes=len(text))


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '{"b":[{"a":1,"a":2}]}', '{"a":1,"\\u0061":2}'])
def test_a_key_that_comes_twice_is_refused(text: str) -> None:
    with pytest.raises(InvalidReminder, match="key 'a' stands twice"):
        read_object(text, max_bytes=100)


def test_a_key_may_come_again_in_another_object() -> None:
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
