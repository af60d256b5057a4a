"""The book of facts: storing facts by namespace, and recalling those that are relevant to a query.

All functions are pure. The caller passes the time of assertion; nothing reads a clock.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple, Self

import msgspec

from sideband.recall.bm25 import SearchDocument, rank
from sideband.recall.record import (
    FACT_CODES,
    FACT_SCHEMA,
    Evidence,
    EvidenceKind,
    Fact,
    FactCode,
    FactError,
    FactId,
    FactKind,
    FieldPath,
    ValidUntil,
    fact_document,
    fact_id,
    fact_key,
    parse_fact,
    parse_kind,
    parse_text,
)

__all__ = [
    "DEFAULT_NAMESPACE",
    "FACT_CODES",
    "FACT_SCHEMA",
    "Evidence",
    "EvidenceKind",
    "Fact",
    "FactBook",
    "FactCode",
    "FactError",
    "FactId",
    "FactKind",
    "RecallOptions",
    "Recalled",
    "Stored",
    "StoredFact",
    "ValidUntil",
    "fact_document",
    "fact_id",
    "fact_key",
    "fact_namespace",
    "parse_fact",
    "recall_facts",
    "recall_for_task",
    "store_fact",
]

DEFAULT_NAMESPACE: Final = "project/facts"
SCOPES: Final[Mapping[str, str]] = MappingProxyType(
    {"project": DEFAULT_NAMESPACE, "workspace": "workspace/facts", "user": "user/facts"}
)

MAX_FACTS: Final = 25


class FactBook(msgspec.Struct, frozen=True, kw_only=True):
    """Facts by namespace and storage key."""

    namespaces: Mapping[str, Mapping[str, Fact]] = msgspec.field(default_factory=dict)

    def facts(self, namespace: str = DEFAULT_NAMESPACE) -> tuple[Fact, ...]:
        """All facts of a namespace; an unknown namespace is empty."""
        return tuple(self.namespaces.get(namespace, {}).values())


class Stored(NamedTuple):
    """The new book, and the fact that was stored in it."""

    book: FactBook
    fact: Fact


class StoredFact(NamedTuple):
    """The fact that was stored in a store; `refreshed` if the store had one of the same content."""

    fact: Fact
    refreshed: bool


class Recalled(NamedTuple):
    """A fact and its score; 0 means that it was recalled because it is recent."""

    fact: Fact
    score: float


class RecallOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which facts to recall. An empty `kind_filter` accepts every kind; without a `query` the task is the query."""

    namespace: str = DEFAULT_NAMESPACE
    max_facts: int = 5
    min_confidence: float = 0.5
    kind_filter: frozenset[FactKind] = frozenset()
    query: str | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, object] | None) -> Self:
        """Read the options from a configuration: null counts as absent, numbers out of range are clamped.

        `limit`, `kinds` and `query` are aliases of `max_facts`, `kind_filter` and `relevance_query`. Other keys are
        ignored, because they belong to other components.
        """
        if config is None:
            return cls()
        if not isinstance(config, Mapping):
            raise FactError(FactCode.RECORD, "options", config, "must be a mapping")
        defaults = cls()
        return cls(
            namespace=fact_namespace(namespace=config.get("namespace"), scope=config.get("scope")),
            max_facts=_max_facts(*_option(config, "max_facts", "limit", default=defaults.max_facts)),
            min_confidence=_min_confidence(*_option(config, "min_confidence", default=defaults.min_confidence)),
            kind_filter=_kind_filter(*_option(config, "kind_filter", "kinds", default=defaults.kind_filter)),
            query=_query(*_option(config, "relevance_query", "query", default="")),
        )


def store_fact(
    book: FactBook, fact_fields: Mapping[str, object], *, namespace: str = DEFAULT_NAMESPACE, asserted_at: str | int
) -> Stored:
    """Return a book that also contains the fact; the given book is not changed.

    A fact with the same content has the same id and replaces the older record, with its own confidence, validity and
    time. A time of assertion among the fields takes precedence over `asserted_at`.
    """
    fact = parse_fact(fact_fields, asserted_at=asserted_at)
    name = fact_namespace(namespace=namespace)
    entries = {**book.namespaces.get(name, {}), fact_key(fact): fact}
    return Stored(FactBook(namespaces={**book.namespaces, name: entries}), fact)


def recall_facts(
    book: FactBook,
    *,
    query: str | None = None,
    namespace: str | None = None,
    scope: str | None = None,
    max_facts: int | None = None,
    min_confidence: float | None = None,
    kind_filter: str | Collection[str] | None = None,
) -> tuple[Recalled, ...]:
    """The facts most relevant to the query, best first; without a query, the newest. None means the default."""
    options = RecallOptions.from_config(
        {
            "query": query,
            "namespace": namespace,
            "scope": scope,
            "max_facts": max_facts,
            "min_confidence": min_confidence,
            "kind_filter": kind_filter,
        }
    )
    return recall_for_task(book, options)


def recall_for_task(book: FactBook, options: RecallOptions, *, task: str = "") -> tuple[Recalled, ...]:
    """The facts most relevant to the query of the options, or to the task if the options have no query.

    A fact with `valid_until` is recalled like any other: the caller knows whether the event has happened.
    """
    facts = {fact.id: fact for fact in book.facts(options.namespace)}
    ranked = rank(map(_searchable, facts.values()), options.query or task)
    hits = (Recalled(facts[FactId(document.id)], score) for document, score in ranked)
    return tuple(islice((hit for hit in hits if _passes(hit.fact, options)), options.max_facts))


def fact_namespace(*, namespace: object = None, scope: object = None) -> str:
    """The namespace of facts; `namespace` takes precedence over `scope`, and blank values count as absent."""
    if named := _trimmed(namespace, "namespace"):
        return named
    word = _trimmed(scope, "scope").lower()
    if word and word not in SCOPES:
        raise FactError(FactCode.SELECTION, "scope", scope, f"must be one of {', '.join(SCOPES)}")
    return SCOPES.get(word, DEFAULT_NAMESPACE)


def _passes(fact: Fact, options: RecallOptions) -> bool:
    kinds = options.kind_filter or frozenset(FactKind)
    # A book may contain records that were constructed without `parse_fact`.
    return fact.schema == FACT_SCHEMA and fact.kind in kinds and fact.confidence >= options.min_confidence


def _searchable(fact: Fact) -> SearchDocument:
    return SearchDocument(
        id=fact.id,
        recorded_at=fact.asserted_at,
        key=fact_key(fact),
        text=fact.claim,
        tags=(fact.kind.value, *(part for item in fact.evidence for part in (item.kind.value, item.ref))),
        value=" ".join((*(item.snippet or "" for item in fact.evidence), *_words_in(fact.provenance))),
    )


def _words_in(value: object) -> Iterator[str]:
    """Every key, string and number of a JSON value."""
    match value:
        case Mapping():
            for name, entry in value.items():
                yield name
                yield from _words_in(entry)
        case list():
            for entry in value:
                yield from _words_in(entry)
        case None | bool():
            pass
        case _:
            yield str(value)


def _option(config: Mapping[str, object], *names: str, default: object) -> tuple[str, object]:
    """The first name that is present, with its value, or the default."""
    return next(((name, config[name]) for name in names if config.get(name) is not None), (names[0], default))


def _max_facts(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FactError(FactCode.SELECTION, name, value, "must be an integer")
    return min(max(value, 0), MAX_FACTS)


def _min_confidence(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -math.inf < value < math.inf:
        raise FactError(FactCode.CONFIDENCE, name, value, "must be a finite number")
    return float(min(max(value, 0), 1))


def _kind_filter(name: str, value: object) -> frozenset[FactKind]:
    if isinstance(value, str):
        return frozenset({parse_kind(value, field=name)})
    if not isinstance(value, list | tuple | set | frozenset):
        raise FactError(FactCode.SELECTION, name, value, "must be a kind of fact or a list of kinds")
    return frozenset(parse_kind(kind, field=f"{name}[{index}]") for index, kind in enumerate(value))


def _query(name: str, value: object) -> str | None:
    # No character is refused, because only the words of a query are used.
    if not isinstance(value, str):
        raise FactError(FactCode.SELECTION, name, value, "must be text")
    return value if value.strip() else None


def _trimmed(value: object, name: str) -> str:
    return "" if value is None else parse_text(value, FieldPath(FactCode.SELECTION, name)).strip()
