"""The words of errors: every one that a user can meet is explained."""

import pytest

from sideband.core import errors, failures
from sideband.core.diagnostics import DIAGNOSTICS
from sideband.core.errors import ReminderError
from sideband.core.failures import StoreError
from sideband.core.reasons import CODES, REASONS

FAMILY = [
    kind
    for module in (errors, failures)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, ReminderError | StoreError) and "reason" in vars(kind)
]


@pytest.mark.parametrize("kind", FAMILY, ids=lambda kind: kind.__name__)
def test_every_error_is_explained_by_its_code_or_by_its_word(kind: type[ReminderError | StoreError]) -> None:
    code = getattr(kind, "code", None)
    assert (kind.reason in REASONS) is (code is None)
    assert CODES.get(kind.reason) == code
    assert code is None or code in DIAGNOSTICS


def test_no_word_is_explained_that_no_error_has() -> None:
    assert {*REASONS, *CODES} == {kind.reason for kind in FAMILY}


@pytest.mark.parametrize("word", REASONS)
def test_an_explanation_is_made_of_sentences(word: str) -> None:
    reason = REASONS[word]
    assert reason.word == word
    for text in (reason.cause, reason.remedy):
        assert text[0].isupper() or text.startswith(("`", "Session."))
        assert text.endswith(".")
