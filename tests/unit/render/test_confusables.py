"""What characters look like: for all of Unicode."""

from sys import maxunicode

import pytest

from sideband.render import confusables
from sideband.render.confusables import fold, is_hidden
from tests.unit.render.lookalikes import OURS, invisible, spellings

EVERY_CODE = range(maxunicode + 1)


def test_ascii_looks_like_itself_in_lower_case() -> None:
    text = "".join(map(chr, range(0x20, 0x7F)))
    assert fold(text) == text.lower().translate(str.maketrans("_\\l1|", "-/iii"))


def test_every_relation_of_unicode_to_one_of_our_letters_is_known() -> None:
    for letter in OURS | set("<-/: "):
        assert {fold(alike) for alike in spellings()[letter]} == {"i" if letter == "l" else letter}


def test_what_is_drawn_as_nothing_looks_like_nothing() -> None:
    assert fold("".join(invisible())) == ""
    assert all(map(is_hidden, invisible()))


def test_nothing_becomes_a_bracket_or_a_line_break_and_something_else() -> None:
    # Each is changed at its place in the original text, which has one character there.
    for folded in map(fold, map(chr, EVERY_CODE)):
        assert folded in ("<", "\n") or not {"<", "\n"} & set(folded)


def test_a_mark_is_part_of_the_letter_before_it() -> None:
    assert fold("e\u0301\u0332") == "e"
    assert not is_hidden("\u0301")


def test_a_letter_of_no_resemblance_stays() -> None:
    assert fold("\u65e5\uac00\u0436") == "\u65e5\uac00\u0436"


def test_a_hostile_text_takes_a_bounded_amount_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confusables, "_MAX_KNOWN", 1_000)
    monkeypatch.setattr(confusables, "_OUTLINES", confusables._Outlines())
    for _ in range(2):
        assert fold("".join(map(chr, range(0x4E00, 0x4E00 + 5_000)))) != ""
        assert len(confusables._OUTLINES) <= 1_000
