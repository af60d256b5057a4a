"""Facts in a store: named records of one reserved session, one record per fact.

Storing a fact writes that fact and no other. The decisions run inside the commit, so that processes which store facts at
the same time lose none.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sideband.core.errors import TooManyFacts
from sideband.core.events import Recorded
from sideband.core.state import Decided, SessionState
from sideband.recall.facts import Fact, FactBook, FactCode, FactError, fact_key, fact_namespace

# The name of a record has at most 256 bytes, and the id of the fact is a part of it.
NAMESPACE_BYTES: Final = 200
# All facts of a store are in memory while they are recalled.
FACT_BYTES: Final = 16 * 1024


class KeptFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact of a store and the namespace that it was stored in."""

    namespace: str
    fact: Fact

    @property
    def name(self) -> str:
        """The name of its record."""
        return f"{self.fact.id}@{self.namespace}"


def to_record(fact: Fact, namespace: object) -> tuple[str, Any]:
    """The name and the value of the record of a fact; `FactError` if it is too large to be stored."""
    kept = KeptFact(namespace=fact_namespace(namespace=namespace), fact=fact)
    if (size := len(kept.namespace.encode())) > NAMESPACE_BYTES:
        raise FactError(
            FactCode.SELECTION, "namespace", kept.namespace, f"has {size} bytes, the limit is {NAMESPACE_BYTES}"
        )
    body = msgspec.json.encode(kept)
    if len(body) > FACT_BYTES:
        raise FactError(
            FactCode.RECORD,
            "fact",
            fact.claim,
            f"has {len(body):,} bytes as JSON, the limit in a store is {FACT_BYTES:,}; "
            "shorten it, or let the evidence refer to a file",
        )
    # As a durable store would return it, so that an unchanged record is recognised.
    return kept.name, msgspec.json.decode(body)


def store(state: SessionState, name: str, value: object, *, limit: int) -> Decided[bool]:
    """Set the record of a fact; return whether the fact was there already and is refreshed."""
    known = state.records.get(name)
    if known is None and len(state.records) >= limit:
        raise TooManyFacts(limit)
    return Decided(() if known == value else (Recorded(name=name, value=value),), known is not None)


def forget(state: SessionState, fact_id: str, *, namespace: str | None) -> Decided[int]:
    """Remove a fact from one namespace (None: from all); return from how many it was removed."""
    names = [
        name
        for name in state.records
        if name == f"{fact_id}@{namespace}" or (namespace is None and name.startswith(f"{fact_id}@"))
    ]
    return Decided(tuple(Recorded(name=name) for name in names), len(names))


def records_of(state: SessionState) -> dict[str, Any]:
    """The records of all facts; only the mapping is a copy, because the value of a record is never changed."""
    return dict(state.records)


def book_of(records: Mapping[str, Any]) -> FactBook:
    """The facts of the records, by namespace. A record of a schema that this version does not know is left out."""
    namespaces: dict[str, dict[str, Fact]] = {}
    for value in records.values():
        try:
            # A copy, because a caller may change what is inside a provenance.
            kept = msgspec.convert(msgspec.to_builtins(value), KeptFact)
        except msgspec.ValidationError:
            continue
        namespaces.setdefault(kept.namespace, {})[fact_key(kept.fact)] = kept.fact
    return FactBook(namespaces=namespaces)
