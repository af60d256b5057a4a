"""Foreign text inside the body of a reminder."""

from hypothesis import given
from hypothesis import strategies as st

from sideband.core.parse import HOSTILE
from sideband.providers.quote import named, one_line, packed, quoted, visible


def test_a_control_character_is_shown_as_its_escape() -> None:
    assert visible("a\x00b\x1b[0m\u202e\ud800\x85") == r"a\x00b\x1b[0m\u202e\ud800\x85"


def test_line_breaks_and_tabs_are_kept_as_they_are() -> None:
    assert visible("a\tb\r\nc 日本 🎉") == "a\tb\r\nc 日本 🎉"


def test_white_space_is_collapsed_on_one_line() -> None:
    assert one_line("  a\n\tb\u2028c  ", most=20) == "a b c"


def test_a_long_line_is_cut_between_characters() -> None:
    assert one_line("日本語の長い文", most=4) == "日本語…"
    assert one_line("🎉" * 10, most=10) == "🎉" * 10
    assert one_line("ab cd", most=4) == "ab…"


def test_a_name_cannot_end_its_own_marks() -> None:
    assert named("a`b") == "`a'b`"


def test_each_line_begins_with_the_mark() -> None:
    assert quoted(" a\nb\r\nc\u2028d\n") == "> a\n> b\n> c\n> d"


def test_what_is_too_long_is_cut_and_says_so() -> None:
    assert quoted("abcdef", most=5) == "> abc… [shortened]"
    assert quoted("日本", most=6) == "> 日… [shortened]"


def test_whole_lines_are_packed_from_the_first_on_and_the_others_counted() -> None:
    assert packed(["aa", "bbb", "c"], most=11) == ("> aa\n> bbb", 1)
    assert packed(["aa", "bbbb", "c"], most=11) == ("> aa", 2)
    assert packed([]) == ("", 0)


@given(st.text(), st.integers(1, 300))
def test_a_quote_is_bounded_readable_and_marked_on_every_line(text: str, most: int) -> None:
    block = quoted(text, most=most)
    assert not HOSTILE.search(block)
    assert len(block.encode()) <= most + len("… [shortened]".encode())
    assert all(line.startswith((">", "…")) for line in block.splitlines())


@given(st.text(), st.integers(2, 50))
def test_one_line_is_one_line_within_bounds(text: str, most: int) -> None:
    line = one_line(text, most=most)
    assert len(line) <= most
    assert line.splitlines() in ([], [line])
    assert not HOSTILE.search(line)
