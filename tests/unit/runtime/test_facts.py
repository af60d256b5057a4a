"""Storing facts with the clock of this machine."""

import time
from typing import Any

import pytest

from sideband.recall.facts import FactBook
from sideband.runtime.facts import store_fact
from sideband.runtime.store import open_store


def test_a_fact_is_asserted_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_790_942_400_123_456_789)
    _, fact = store_fact(FactBook(), kind="decision", claim="Ship on Fridays.", confidence=0.9)
    assert fact.asserted_at == 1_790_942_400_123


def test_a_time_that_is_given_goes_before_the_clock() -> None:
    _, fact = store_fact(
        FactBook(), kind="decision", claim="Ship on Fridays.", confidence=0.9, asserted_at="1970-01-01T00:00:01Z"
    )
    assert fact.asserted_at == 1_000


def test_a_fact_is_stored_in_the_namespace_that_is_given() -> None:
    before = FactBook()
    book, fact = store_fact(before, namespace="team/facts", kind="claim", claim="Tests are slow.", confidence=0.5)
    assert (book.facts("team/facts"), book.facts()) == ((fact,), ())
    assert before == FactBook()


def test_the_same_content_again_is_refreshed_and_not_added() -> None:
    fields: Any = {"kind": "claim", "claim": "Tests are slow."}
    book, older = store_fact(FactBook(), **fields, confidence=0.5, asserted_at=1)
    book, newer = store_fact(book, **fields, confidence=0.9)
    assert older.id == newer.id
    assert book.facts() == (newer,)


def test_a_fact_is_stored_in_a_book_or_in_a_store() -> None:
    fact: Any = {"kind": "claim", "claim": "x", "confidence": 1}
    for wrong in ({}, {"book": FactBook(), "store": open_store()}, {"book": open_store()}, {"store": FactBook()}):
        with pytest.raises(TypeError, match=r"^store_fact\(\) needs either a FactBook .* or store=Store$"):
            store_fact(**fact, **wrong)
