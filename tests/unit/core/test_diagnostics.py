"""The table of diagnostics: its entries, the errors that refer to them, and look-up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core import errors
from sideband.core.diagnostics import CODES, DIAGNOSTICS, REASONS, Diagnostic, Severity, UnknownDiagnostic, diagnostic
from sideband.core.errors import ReminderError, StoreError

SEED_CODES = [f"HARN-RMD-00{number}" for number in range(1, 9)]


def subclasses(family: type[ReminderError]) -> list[type[ReminderError]]:
    return [member for child in family.__subclasses__() for member in (child, *subclasses(child))]


def test_the_seed_has_eight_codes_in_order() -> None:
    assert [code for code in DIAGNOSTICS if code.startswith("HARN-")] == SEED_CODES


def test_every_other_code_begins_with_sideband() -> None:
    assert all(code.startswith("SIDEBAND-") for code in DIAGNOSTICS if code not in SEED_CODES)


def test_only_003_and_004_are_warnings() -> None:
    warnings = [code for code, entry in DIAGNOSTICS.items() if entry.severity is Severity.WARNING]
    assert warnings == ["HARN-RMD-003", "HARN-RMD-004"]


def test_sideband_codes_are_advice_except_for_files_that_cannot_be_read() -> None:
    errors = [
        code for code in DIAGNOSTICS if code not in SEED_CODES and diagnostic(code).severity is not Severity.ADVICE
    ]
    assert errors == ["SIDEBAND-100"]


def test_every_code_that_an_error_carries_is_an_error_of_the_table() -> None:
    raised = {error.code for error in subclasses(ReminderError) if error.code is not None}
    assert raised == {code for code in SEED_CODES if DIAGNOSTICS[code].severity is Severity.ERROR}


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
    ],
)
def test_an_unknown_code_is_answered_with_what_is_near(asked: str, near: str) -> None:
    with pytest.raises(UnknownDiagnostic, match=near) as unknown:
        diagnostic(asked)
    assert 0 < len(unknown.value.near) < len(DIAGNOSTICS)


@pytest.mark.parametrize("asked", ["", "xyzzy", "004x", "\x1b[31m"])
def test_a_code_like_no_other_is_answered_with_all(asked: str) -> None:
    with pytest.raises(UnknownDiagnostic) as unknown:
        diagnostic(asked)
    assert unknown.value.near == ()
    assert all(code in str(unknown.value) for code in DIAGNOSTICS)
    assert str(unknown.value).isprintable()


@given(st.text(max_size=30))
def test_any_text_is_either_a_code_or_refused(asked: str) -> None:
    short = asked.strip().upper()
    number = short.zfill(3) if short.isdecimal() else short
    known = [code for code in DIAGNOSTICS if f"-{code}".endswith(f"-{number}")]
    if known:
        assert diagnostic(asked).code == known[0]
    else:
        with pytest.raises(UnknownDiagnostic):
            diagnostic(asked)


# Reasons without a code.


ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ReminderError | StoreError) and "reason" in vars(kind)
]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_is_explained_by_its_code_or_by_its_reason(kind: type[ReminderError | StoreError]) -> None:
    code = getattr(kind, "code", None)
    assert (kind.reason in REASONS) is (code is None)
    assert CODES.get(kind.reason) == code
    assert code is None or code in DIAGNOSTICS


def test_no_reason_is_explained_that_no_error_has() -> None:
    assert {*REASONS, *CODES} == {kind.reason for kind in ERRORS}


@pytest.mark.parametrize("word", REASONS)
def test_an_explanation_is_made_of_sentences(word: str) -> None:
    reason = REASONS[word]
    assert reason.word == word
    for text in (reason.cause, reason.remedy):
        assert text[0].isupper() or text.startswith(("`", "Session."))
        assert text.endswith(".")
