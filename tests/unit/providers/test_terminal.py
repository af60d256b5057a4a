"""Terminal output as plain text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.providers.terminal import TEXT_BYTES, plain

ESCAPES = (
    "\x1b[0m",
    "\x1b[1;31m",
    "\x1b[38;2;1;2;3m",
    "\x1b(B",
    "\x1b[2K",
    "\x1b]0;title\x07",
    "\x1b]8;;http://x\x1b\\",
)


@pytest.mark.parametrize("escape", ESCAPES)
def test_an_escape_sequence_leaves_no_trace(escape: str) -> None:
    assert plain(f"a{escape}b") == "ab"


def test_an_unfinished_title_ends_with_its_line() -> None:
    assert plain("a\x1b]0;title\nFAILED") == "a\nFAILED"


def test_every_line_end_is_the_same_one() -> None:
    assert plain("a\r\nb\rc\n") == "a\nb\nc\n"


def test_escape_sequences_take_no_room() -> None:
    text = "\x1b[31mx\x1b[0m" * 20_000
    assert len(text) > TEXT_BYTES
    assert plain(text) == "x" * 20_000


def test_of_a_long_text_the_beginning_and_the_end_are_kept() -> None:
    text = "first\n" + "middle 行\n" * 20_000 + "last"
    kept = plain(text)
    assert kept.startswith("first\nmiddle 行\n")
    assert kept.endswith("middle 行\nlast")
    assert set(kept.split("\n")) == {"first", "middle 行", "last"}
    assert len(kept.encode()) <= TEXT_BYTES


def test_half_a_surrogate_is_no_obstacle() -> None:
    assert plain("a\ud800b") == "a\ud800b"
    assert plain("\ud800\n" * TEXT_BYTES).startswith("?\n")


@given(st.lists(st.sampled_from([*ESCAPES, "a", "\n", "é", "\x1b", "\x9b", "["]), max_size=40).map("".join))
def test_nothing_of_a_whole_sequence_is_left(text: str) -> None:
    kept = plain(text)
    assert not any(escape in kept for escape in ESCAPES)
    assert kept.count("é") <= text.count("é")
