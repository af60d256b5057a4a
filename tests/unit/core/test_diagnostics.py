"""The table of diagnostics: its entries, the errors that refer to them, and look-up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.diagnostics import DIAGNOSTICS, NAMES, UnknownDiagnostic, diagnostic
from sideband.core.explanation import Diagnostic, Severity

SEED_CODES = [f"HARN-RMD-00{number}" for number in range(1, 9)]


FACT_CODES = [f"HARN-FACT-00{number}" for number in range(1, 10)]


def test_the_codes_are_those_of_reminders_of_facts_and_our_own() -> None:
    codes = [*DIAGNOSTICS]
    harn = [code for code in codes if code.startswith("HARN-")]
    assert harn == [*SEED_CODES, *FACT_CODES] == codes[: len(harn)]
    assert all(code.startswith("SIDEBAND-") for code in codes[len(harn) :])


def test_only_003_and_004_are_warnings() -> None:
    warnings = [code for code, entry in DIAGNOSTICS.items() if entry.severity is Severity.WARNING]
    assert warnings == ["HARN-RMD-003", "HARN-RMD-004"]


@pytest.mark.parametrize("entry", DIAGNOSTICS.values(), ids=lambda entry: entry.code)
def test_an_entry_says_what_why_and_how_in_plain_ascii(entry: Diagnostic) -> None:
    assert DIAGNOSTICS[entry.code] is entry
    for text in (entry.title, entry.cause, entry.remedy, entry.example.wrong, entry.example.right):
        assert text.strip() == text != ""
        assert text.isascii()
    assert not entry.title.endswith(".")
    assert entry.cause.endswith(".")
    assert entry.remedy.endswith(".")
    assert entry.example.wrong != entry.example.right


def test_titles_are_all_different() -> None:
    assert len({entry.title for entry in DIAGNOSTICS.values()}) == len(DIAGNOSTICS)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        pytest.param("HARN-RMD-004", "HARN-RMD-004", id="whole"),
        pytest.param("harn-rmd-004", "HARN-RMD-004", id="in-lower-case"),
        pytest.param(" HARN-RMD-004\n", "HARN-RMD-004", id="with-space-around"),
        pytest.param("RMD-004", "HARN-RMD-004", id="without-the-first-part"),
        pytest.param("rmd-008", "HARN-RMD-008", id="without-the-first-part-in-lower-case"),
        pytest.param("004", "HARN-RMD-004", id="only-the-number"),
        pytest.param("4", "HARN-RMD-004", id="without-leading-zeros"),
        pytest.param("sideband-102", "SIDEBAND-102", id="our-own"),
        pytest.param("102", "SIDEBAND-102", id="the-number-of-our-own"),
        pytest.param("fact-001", "HARN-FACT-001", id="of-facts"),
        pytest.param("unknown_option", "HARN-RMD-001", id="a-reason"),
        pytest.param(" StoreClosed", "SIDEBAND-306", id="the-name-of-an-error"),
    ],
)
def test_a_code_is_found(asked: str, code: str) -> None:
    assert diagnostic(asked).code == code


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        pytest.param("HARN-RMD-09", "HARN-RMD-00", id="a-code-like-others"),
        pytest.param("propagate", "HARN-RMD-005", id="a-word-of-a-title"),
        pytest.param("SIDEBND-101", "SIDEBAND-101", id="misspelt"),
        pytest.param("sesion_busy", "session_busy", id="a-misspelt-reason"),
    ],
)
def test_an_unknown_code_is_answered_with_what_is_near(asked: str, near: str) -> None:
    with pytest.raises(UnknownDiagnostic, match=near) as unknown:
        diagnostic(asked)
    assert 0 < len(unknown.value.near) < len(DIAGNOSTICS)


@pytest.mark.parametrize("asked", ["", "xyzzy", "004x", "\x1b[31m"])
def test_a_code_like_no_other_leads_to_the_list(asked: str) -> None:
    with pytest.raises(UnknownDiagnostic, match="`sideband explain` lists all of them") as unknown:
        diagnostic(asked)
    assert unknown.value.near == ()
    assert str(unknown.value).isprintable()


@given(st.text(max_size=30))
def test_any_text_is_either_a_code_or_refused(asked: str) -> None:
    short = asked.strip().upper()
    number = NAMES.get(short.lower(), short.zfill(3) if short.isdecimal() else short)
    known = [code for code in DIAGNOSTICS if f"-{code}".endswith(f"-{number}")]
    if known:
        assert diagnostic(asked).code == known[0]
    else:
        with pytest.raises(UnknownDiagnostic):
            diagnostic(asked)
