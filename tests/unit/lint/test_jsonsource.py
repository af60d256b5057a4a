"""JSON with places: the same values as any reader finds, and where each key stands."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.lint.jsonsource import read_json, read_json_lines
from sideband.lint.literals import MAX_DEPTH, Table, Unreadable, plain

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(DOCUMENTS, st.sampled_from([None, 0, 2]), st.booleans())
def test_the_values_are_those_of_the_standard_reader(document: object, indent: int | None, ascii_only: bool) -> None:  # noqa: FBT001 - drawn
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    assert plain(read_json(text)) == document


@given(st.text(alphabet='{}[]",:\\ntrue0-1.eE \n\tu"'))
def test_what_is_accepted_is_what_the_standard_reader_accepts(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(Unreadable):
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
        pytest.param("", (1, 1), "a value was expected", id="nothing"),
        pytest.param('{"a": 1,}', (1, 9), "a string was expected", id="a-comma-too-many-in-an-object"),
        pytest.param("[1,]", (1, 4), "a value was expected", id="a-comma-too-many-in-a-list"),
        pytest.param("[1 2]", (1, 4), "',' or ']' was expected", id="a-comma-too-few"),
        pytest.param('{"a" 1}', (1, 6), "':' was expected", id="no-colon"),
        pytest.param('{\n  "a": tru\n}', (2, 8), "a value was expected", id="a-word-cut-short"),
        pytest.param("// a comment\n{}", (1, 1), "a value was expected", id="a-comment"),
        pytest.param("{} {}", (1, 4), "the end of the text was expected", id="two-documents"),
        pytest.param('"\\x"', (1, 1), "this cannot be read", id="an-unknown-escape"),
        pytest.param('["open', (1, 2), "a string was expected", id="a-string-without-end"),
        pytest.param("NaN", (1, 1), "a value was expected", id="not-a-number"),
        pytest.param("1" * 5000, (1, 1), "this cannot be read", id="a-number-beyond-what-python-reads"),
        pytest.param("[" * 5000, (1, MAX_DEPTH + 2), f"nested more than {MAX_DEPTH} deep", id="nested-without-end"),
    ],
)
def test_what_is_not_json_is_refused_where_it_is_noticed(text: str, place: tuple[int, int], complaint: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read_json(text)
    assert (refused.value.at, str(refused.value)) == (place, f"not JSON: {complaint}")


def test_lines_are_read_one_by_one_and_numbered_together() -> None:
    first, second, third = read_json_lines('{"a": 1}\n\n  \nbroken\n {"b": 2}\r\n')
    assert isinstance(first, Table)
    assert isinstance(second, Unreadable)
    assert isinstance(third, Table)
    assert (first.entries[0].at, second.at, third.entries[0].at) == ((1, 2), (4, 1), (5, 3))
