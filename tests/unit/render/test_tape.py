"""The growing encoding: what is open, what closes it, and where a marker may stand."""

from typing import Any, Final

import pytest

from sideband.render.tape import EMPTY, ROOT, Container, Nesting, PendingCall, Tape, quoted_inside, texts

LIST: Final = Nesting(Container("list", b"]"), ROOT)
STRING: Final = Nesting(Container("string", b'"', b"\\n"), ROOT)
STRING_IN_LIST: Final = Nesting(Container("string", b'"', b"\\n"), LIST)


def test_what_is_open_is_closed_when_something_else_comes() -> None:
    tape = Tape()
    tape.open(1, b"[1,2", LIST)
    tape.add(2, b"3")
    tape.add(1, b"4")
    assert tape.data == b"[1,2,3],4"
    assert tape.top is ROOT


def test_several_things_can_be_opened_at_once() -> None:
    tape = Tape()
    tape.open(1, b'["one', STRING_IN_LIST)
    tape.add(3, b"two")
    tape.add(2, b"3")
    assert tape.data + tape.top.joints[0] == b'["one\\ntwo",3]]'
    assert tape.top is LIST


def test_pieces_of_a_string_stand_behind_each_other_in_it() -> None:
    tape = Tape()
    tape.open(1, b'"one', STRING)
    tape.add(2, b"two")
    assert tape.data + tape.top.joints[0] == b'"one\\ntwo"]'


@pytest.mark.parametrize(
    ("top", "depth", "name", "turn"),
    [
        pytest.param(ROOT, 1, "root", "", id="no-message"),
        pytest.param(LIST, 2, "list", "list", id="a-message"),
        pytest.param(STRING_IN_LIST, 3, "string", "list", id="something-in-a-message"),
    ],
)
def test_what_is_open_tells_which_message_that_is(top: Nesting, depth: int, name: str, turn: str) -> None:
    assert (top.depth, top.name, top.turn) == (depth, name, turn)
    assert [left.depth for left in top.left[1:]] == [*range(1, depth + 1)]


def test_a_mark_stands_behind_the_brace_of_its_block() -> None:
    tape = Tape(marking=True)
    tape.add(1, b"{1}")
    tape.add(1, b"{2}", mark=None)
    tape.open(1, b"[{3},{4}", LIST, mark=5, blocks=2)
    tape.open(1, b"[{5}", LIST, mark=None)
    tape.open(1, b"[{[{6}", LIST, mark=1)
    assert [bytes(tape.data[mark - 1 : mark + 1]) for mark in tape.marks] == [b"{1", b"{4", b"{["]
    assert tape.blocks == 2 + 2 + 1 + 1


def test_marks_are_remembered_only_while_marking() -> None:
    tape = Tape()
    tape.add(1, b"{1}")
    tape.open(1, b"[{2}", LIST, mark=1)
    assert tape.marks == []


class TestAFork:
    def test_goes_on_where_the_tape_ends(self) -> None:
        tape = Tape(marking=True)
        tape.open(1, b"[{1}", LIST, mark=1)
        fork = tape.fork()
        fork.add(2, b"{2}")
        fork.open(1, b"[{3}", LIST, mark=1)
        whole = bytes(tape.data + fork.data)
        assert whole == b"[{1},{2}],[{3}"
        assert [whole[mark - 1 : mark + 1] for mark in fork.marks] == [b"{2", b"{3"]
        assert fork.end == len(whole)

    def test_changes_nothing_of_the_tape(self) -> None:
        tape = Tape(marking=True)
        tape.open(1, b"[1", LIST)
        call = tape.pending["call"] = PendingCall("look", "call")
        fork = tape.fork()
        fork.add(1, b"2")
        fork.pending.clear()
        assert (bytes(tape.data), tape.top, tape.pending) == (b"[1", LIST, {"call": call})
        assert len(tape.marks) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("Hello", ["Hello"], id="a-string"),
        pytest.param([{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}], ["One", "Two"], id="blocks"),
        pytest.param("", [EMPTY], id="nothing"),
        pytest.param(" \n", [EMPTY], id="blanks"),
        pytest.param(None, [EMPTY], id="null"),
        pytest.param([], [EMPTY], id="no-blocks"),
        pytest.param([{"type": "text", "text": " "}, {"type": "text"}], [EMPTY], id="blank-blocks"),
        pytest.param([{"type": "text", "text": ""}, {"type": "text", "text": "x"}], ["x"], id="one-blank-block"),
        pytest.param([{"type": "image", "mimeType": "image/png", "data": "…"}], ["[image image/png]"], id="an-image"),
        pytest.param(
            [{"type": "resource", "resource": {"uri": "file:///a.py", "text": "x = 1"}}],
            ["[resource file:///a.py]"],
            id="a-resource",
        ),
        pytest.param([{"type": "image", "name": "a", "resource": 3}], ["[image a]"], id="a-resource-that-is-none"),
        pytest.param(
            [{"type": "resource_link", "uri": "file:///a.py", "name": "a.py"}],
            ["[resource_link file:///a.py a.py]"],
            id="a-link",
        ),
        pytest.param([{"type": "audio"}], ["[audio]"], id="something-without-a-name"),
    ],
)
def test_what_a_message_says_is_text_and_never_nothing(content: Any, said: list[str]) -> None:  # noqa: ANN401 - any JSON
    assert texts({"role": "user", "content": content}) == said


def test_a_message_without_content_says_nothing() -> None:
    assert texts({"role": "user"}) == [EMPTY]


def test_text_inside_a_string_is_escaped() -> None:
    assert quoted_inside('a "b"\n') == b'a \\"b\\"\\n'
