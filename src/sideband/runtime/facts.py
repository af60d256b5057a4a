"""Storing facts, with the system clock."""

from typing import Any

from sideband.recall import facts
from sideband.recall.facts import DEFAULT_NAMESPACE, FactBook, Stored
from sideband.runtime.system import now_ms


def store_fact(book: FactBook, *, namespace: str = DEFAULT_NAMESPACE, **fields: Any) -> Stored:  # noqa: ANN401 - checked by the parser
    """Store a fact in a copy of `book`; it is asserted now, unless `asserted_at` is given.

    Fields of `harn.fact.v1`: `kind`, `claim`, `confidence` (all required), `evidence`, `provenance`, `valid_until`.
    Storing the same content again refreshes the record and adds none. A wrong field raises `FactError`.
    """
    return facts.store_fact(book, fields, namespace=namespace, asserted_at=now_ms())
