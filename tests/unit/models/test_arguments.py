"""The arguments of a call, whatever a model writes there."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.models.arguments import read_arguments
from sideband.ports import UNREADABLE
from sideband.tools.arguments import Arguments, EditFile, ListDir, ReadFile, Run, Search, WriteFile, decode
from sideband.tools.refusal import Refused

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("text", "args"),
    [
        pytest.param('{"path": "a"}', {"path": "a"}, id="an-object"),
        pytest.param("", {}, id="nothing-is-no-arguments"),
        pytest.param("  \n", {}, id="blank-is-no-arguments"),
        pytest.param('{"path": "a', {UNREADABLE: '{"path": "a'}, id="cut-off-at-the-token-limit"),
        pytest.param("path=a", {UNREADABLE: "path=a"}, id="not-json"),
        pytest.param('["a"]', {UNREADABLE: '["a"]'}, id="a-list"),
        pytest.param('"a"', {UNREADABLE: '"a"'}, id="a-string"),
        pytest.param("null", {UNREADABLE: "null"}, id="null"),
        pytest.param('{"n": NaN}', {UNREADABLE: '{"n": NaN}'}, id="a-number-json-has-not"),
        pytest.param('{"n": 1e999}', {UNREADABLE: '{"n": 1e999}'}, id="a-number-nothing-holds"),
        pytest.param('{"a": "\\ud800"}', {UNREADABLE: '{"a": "\\ud800"}'}, id="half-of-a-character"),
        pytest.param("[" * 100_000, {UNREADABLE: "[" * 100_000}, id="deeper-than-anybody-follows"),
    ],
)
def test_arguments_are_an_object_or_are_kept_as_they_were_written(text: str, args: dict[str, Any]) -> None:
    assert read_arguments(text) == args


@pytest.mark.parametrize(("text", "args"), [("", {UNREADABLE: ""}), (" ", {UNREADABLE: ""}), ("{}", {})])
def test_where_the_reply_was_cut_nothing_is_not_the_same_as_no_arguments(text: str, args: dict[str, Any]) -> None:
    assert read_arguments(text, is_cut=True) == args


@given(st.dictionaries(st.text(), JSON))
def test_every_object_is_read_as_it_is(args: dict[str, Any]) -> None:
    assert read_arguments(msgspec.json.encode(args).decode()) == args


@given(st.text())
def test_no_text_at_all_makes_it_fail_and_what_it_reads_can_be_kept(text: str) -> None:
    assert msgspec.json.decode(msgspec.json.encode(read_arguments(text))) == read_arguments(text)


@pytest.mark.parametrize("kind", [ReadFile, WriteFile, EditFile, ListDir, Search, Run])
def test_every_tool_of_ours_refuses_what_could_not_be_read_and_says_so(kind: type[Arguments]) -> None:
    with pytest.raises(Refused, match=UNREADABLE):
        decode("tool", kind, read_arguments("{oops"))
