"""The text of a streamed reply, and the arguments of its tool calls."""

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.messages import UNREADABLE
from sideband.models.stream import TextStream, read_arguments, whole, whole_value
from sideband.tools.tool import Arguments, EditFile, ListDir, ReadFile, Refused, Run, Search, WriteFile, decode

HIGH, LOW = "\ud83d", "\ude00"


def hear(pieces: Sequence[str]) -> tuple[list[str], str]:
    """The pieces that `on_text` gets, and the whole text."""
    heard: list[str] = []

    async def main() -> str:
        stream = TextStream(heard.append)
        for piece in pieces:
            await stream.add(piece)
        await stream.end()
        return stream.text

    return heard, asyncio.run(main())


def test_on_text_gets_each_piece_that_is_not_empty() -> None:
    assert hear(["Hel", "", "lo"]) == (["Hel", "lo"], "Hello")


@pytest.mark.parametrize(
    ("pieces", "heard"),
    [
        pytest.param([f"a{HIGH}", f"{LOW}b"], ["a", "😀b"], id="one-torn-between-two-pieces-is-joined"),
        pytest.param([f"a{HIGH}{LOW}b"], ["a😀b"], id="one-torn-inside-a-piece-is-joined"),
        pytest.param([f"a{HIGH}", "b"], ["a", "�b"], id="a-first-half-alone-is-replaced"),
        pytest.param([f"a{LOW}", "b"], ["a�", "b"], id="a-second-half-alone-is-replaced"),
        pytest.param([f"a{HIGH}"], ["a", "�"], id="a-first-half-at-the-end-is-replaced"),
        pytest.param([HIGH, LOW], ["😀"], id="nothing-is-heard-of-a-half"),
    ],
)
def test_on_text_never_gets_half_a_character(pieces: list[str], heard: list[str]) -> None:
    assert hear(pieces) == (heard, "".join(heard))


@given(st.text(), st.lists(st.integers(0, 50)))
def test_however_a_text_is_split_all_of_it_arrives(text: str, cuts: list[int]) -> None:
    # As JSON escapes them: every character outside the basic plane is two code units.
    units = [json.loads(f'"\\u{unit:04x}"') for unit in memoryview(text.encode("utf-16-le")).cast("H")]
    edges = sorted({0, len(units), *(cut for cut in cuts if cut < len(units))})
    pieces = ["".join(units[start:end]) for start, end in pairwise(edges)]
    heard, said = hear(pieces)
    assert said == text == "".join(heard)


def test_on_text_may_be_a_coroutine_function() -> None:
    heard: list[str] = []

    async def listen(text: str) -> None:
        await asyncio.sleep(0)
        heard.append(text)

    asyncio.run(TextStream(listen).add("Hello."))
    assert heard == ["Hello."]


def test_on_text_is_optional() -> None:
    stream = TextStream(None)
    asyncio.run(stream.add("Hello."))
    assert stream.text == "Hello."


@given(st.text(st.characters()))
def test_valid_text_is_unchanged_and_the_result_can_always_be_encoded(text: str) -> None:
    whole(text).encode()
    assert whole(whole(text)) == whole(text)
    assert whole(text.encode(errors="replace").decode()) == text.encode(errors="replace").decode()


def test_every_string_in_a_value_becomes_valid_text() -> None:
    value = {f"k{HIGH}": [f"v{LOW}", 1, None, {"deep": HIGH + LOW}]}
    assert whole_value(value) == {"k�": ["v�", 1, None, {"deep": "😀"}]}


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
        pytest.param('{"n": NaN}', {UNREADABLE: '{"n": NaN}'}, id="nan-is-not-json"),
        pytest.param('{"n": 1e999}', {UNREADABLE: '{"n": 1e999}'}, id="a-number-out-of-range"),
        pytest.param('{"a": "\\ud800"}', {UNREADABLE: '{"a": "\\ud800"}'}, id="half-of-a-character"),
        pytest.param("[" * 100_000, {UNREADABLE: "[" * 100_000}, id="nested-too-deeply"),
    ],
)
def test_arguments_are_an_object_or_are_kept_as_they_were_written(text: str, args: dict[str, Any]) -> None:
    assert read_arguments(text) == args


@pytest.mark.parametrize(("text", "args"), [("", {UNREADABLE: ""}), (" ", {UNREADABLE: ""}), ("{}", {})])
def test_empty_arguments_in_a_cut_reply_are_unreadable(text: str, args: dict[str, Any]) -> None:
    assert read_arguments(text, is_cut=True) == args


@given(st.dictionaries(st.text(), JSON))
def test_every_object_is_read_as_it_is(args: dict[str, Any]) -> None:
    assert read_arguments(msgspec.json.encode(args).decode()) == args


@given(st.text())
def test_no_text_raises_and_every_result_survives_json(text: str) -> None:
    assert msgspec.json.decode(msgspec.json.encode(read_arguments(text))) == read_arguments(text)


@pytest.mark.parametrize("kind", [ReadFile, WriteFile, EditFile, ListDir, Search, Run])
def test_every_built_in_tool_refuses_unreadable_arguments(kind: type[Arguments]) -> None:
    with pytest.raises(Refused, match=UNREADABLE):
        decode("tool", kind, read_arguments("{oops"), schema={})
