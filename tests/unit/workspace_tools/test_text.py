"""Cuts: bounded, between characters, marked with what is missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.tools.text import HeadTail, cut, printable, size


def collected(chunks: list[bytes], limit: int) -> HeadTail:
    output = HeadTail(limit)
    for chunk in chunks:
        output.feed(chunk)
    return output


@given(chunks=st.lists(st.binary(max_size=20)), limit=st.integers(1, 40))
def test_what_fits_is_whole_and_what_does_not_is_cut(chunks: list[bytes], limit: int) -> None:
    whole = b"".join(chunks)
    output = collected(chunks, limit)
    assert output.total == len(whole)
    assert output.cut == (len(whole) > limit)
    if not output.cut:
        assert output.text() == whole.decode("utf-8", "replace")


@given(text=st.text(alphabet="aé€\U0001f600", min_size=1), sizes=st.lists(st.integers(1, 7)), limit=st.integers(1, 40))
def test_a_cut_keeps_beginning_and_end_and_halves_no_character(text: str, sizes: list[int], limit: int) -> None:
    data = text.encode("utf-8")
    chunks, rest = [], data
    for length in sizes:
        chunks.append(rest[:length])
        rest = rest[length:]
    output = collected([*chunks, rest], limit)
    if output.cut:
        head, _, tail = output.text().partition(
            f"\n[truncated: {len(data) - limit} of {len(data)} bytes are left out here]\n"
        )
        assert text.startswith(head)
        assert text.endswith(tail)
        assert limit - 6 <= size(head + tail) <= limit


@given(text=st.text(), limit=st.integers(0, 40))
def test_a_beginning_is_as_long_as_it_may_be(text: str, limit: int) -> None:
    beginning = cut(text, limit)
    assert text.startswith(beginning)
    assert size(beginning) <= limit
    assert beginning == text or size(text[: len(beginning) + 1]) > limit


@pytest.mark.parametrize(
    ("name", "shown"), [("plain é.txt", "plain é.txt"), ("a\nb", "a\\nb"), ("\x1b[2J", "\\x1b[2J")]
)
def test_a_name_is_shown_on_one_line(name: str, shown: str) -> None:
    assert printable(name) == shown
