"""Storing facts with this machine's clock."""

from typing import Any

from sideband.recall import facts
from sideband.recall.facts import DEFAULT_NAMESPACE, FactBook, Stored
from sideband.runtime.ids import now_ms


def store_fact(book: FactBook, *, namespace: str = DEFAULT_NAMESPACE, **fields: Any) -> Stored:  # noqa: ANN401 - checked by the parser
    """A copy of `book` with the fact in it, asserted now unless `asserted_at` is among the fields.

    Fields of `harn.fact.v1`: `kind`, `claim`, `confidence` (all required), `evidence`, `provenance`, `valid_until`.
    The same content again refreshes the record instead of adding one. A wrong field raises `FactError`.
    """
    return facts.store_fact(book, fields, namespace=namespace, asserted_at=now_ms())
