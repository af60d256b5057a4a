"""Text, JSON and tables for reports."""

import json

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sideband.inspect.report import printable, printable_json, shortened, table


def test_a_printable_text_stays_as_it_is() -> None:
    assert printable("größer 🙂 'x'") == "größer 🙂 'x'"
    assert printable("a\tb\x1b") == "a\\tb\\x1b"


def test_json_escapes_what_is_not_printable() -> None:
    assert printable_json("größer 🙂\x9b\x7f\u202e\U000e0041") == '"größer 🙂\\u009b\\u007f\\u202e\\udb40\\udc41"'
    assert printable_json({"a": ["\u2028"]}, indent=2) == '{\n  "a": [\n    "\\u2028"\n  ]\n}'


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_without_unprintable_characters_stands_for_the_same_text(text: str) -> None:
    assert json.loads(printable_json(text)) == text
    assert printable_json(text).isprintable()


def test_columns_are_those_of_the_terminal() -> None:
    assert [*table([("id", "text"), ("日本", "a"), ("x", "b\n")])] == ["id    text", "日本  a", "x     b\\n"]


def test_a_long_text_is_cut_at_a_word_if_there_is_one_near() -> None:
    assert shortened("one\ntwo  three", 20) == "one two three"
    assert shortened("one two three four five six", 20) == "one two three ..."
    assert shortened("x" * 30, 20) == "x" * 16 + " ..."
    assert cell_len(shortened("語" * 30, 20)) <= 20
