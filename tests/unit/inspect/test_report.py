"""Text and times for reports."""

from sideband.inspect.report import printable


def test_a_printable_text_stays_as_it_is() -> None:
    assert printable("größer 🙂 'x'") == "größer 🙂 'x'"
    assert printable("a\tb\x1b") == "a\\tb\\x1b"
