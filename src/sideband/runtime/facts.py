"""Facts with the system clock: storing and recalling them, in a store or in a book.

A store keeps facts for all its sessions and processes. A `FactBook` is a value in memory, and functions on it are pure.
"""

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, overload

from sideband.core.errors import InvalidOption, StoreRefused
from sideband.ports import Journal
from sideband.recall import facts
from sideband.recall.facts import DEFAULT_NAMESPACE, Fact, FactBook, Recalled, Stored, StoredFact, parse_fact
from sideband.runtime.store import Store, open_store, read_facts, sqlite_path
from sideband.runtime.system import now_ms

_NO_PROVENANCE: Final[Mapping[str, Any]] = MappingProxyType({})


@overload
def store_fact(
    book: FactBook,
    *,
    kind: str,
    claim: str,
    confidence: float,
    evidence: Sequence[Mapping[str, Any]] = ...,
    provenance: Mapping[str, Any] = ...,
    valid_until: Mapping[str, Any] | None = ...,
    asserted_at: str | int | None = ...,
    namespace: str = ...,
) -> Stored: ...


@overload
def store_fact(
    *,
    store: Store,
    kind: str,
    claim: str,
    confidence: float,
    evidence: Sequence[Mapping[str, Any]] = ...,
    provenance: Mapping[str, Any] = ...,
    valid_until: Mapping[str, Any] | None = ...,
    asserted_at: str | int | None = ...,
    namespace: str = ...,
) -> Coroutine[Any, Any, StoredFact]: ...


def store_fact(
    book: FactBook | None = None,
    *,
    store: Store | None = None,
    kind: str,
    claim: str,
    confidence: float,
    evidence: Sequence[Mapping[str, Any]] = (),
    provenance: Mapping[str, Any] = _NO_PROVENANCE,
    valid_until: Mapping[str, Any] | None = None,
    asserted_at: str | int | None = None,
    namespace: str = DEFAULT_NAMESPACE,
) -> Stored | Coroutine[Any, Any, StoredFact]:
    """Store a fact of `harn.fact.v1`; it is asserted now, unless `asserted_at` is given.

    `await store_fact(store=store, …)` keeps it in the store, where every session and process of the store recalls it; it
    is durable when this returns. `store_fact(book, …)` returns a copy of the book with the fact. Storing the same content
    again refreshes the fact and adds none. A wrong field raises `FactError`, and nothing is stored.
    """
    fields = {
        "kind": kind,
        "claim": claim,
        "confidence": confidence,
        "evidence": evidence,
        "provenance": provenance,
        "valid_until": valid_until,
        "asserted_at": asserted_at,
    }
    held = _book_or_store(book, store, "store_fact")
    if isinstance(held, FactBook):
        return facts.store_fact(held, fields, namespace=namespace, asserted_at=now_ms())
    return _store(held, parse_fact(fields, asserted_at=now_ms()), namespace)


async def _store(store: Store, fact: Fact, namespace: str) -> StoredFact:
    return StoredFact(fact, refreshed=await store.keep_fact(fact, namespace=namespace))


@overload
def recall_facts(
    book: FactBook,
    *,
    query: str | None = ...,
    namespace: str | None = ...,
    scope: str | None = ...,
    max_facts: int | None = ...,
    min_confidence: float | None = ...,
    kind_filter: str | Collection[str] | None = ...,
) -> tuple[Recalled, ...]: ...


@overload
def recall_facts(
    *,
    store: Store,
    query: str | None = ...,
    namespace: str | None = ...,
    scope: str | None = ...,
    max_facts: int | None = ...,
    min_confidence: float | None = ...,
    kind_filter: str | Collection[str] | None = ...,
) -> Coroutine[Any, Any, tuple[Recalled, ...]]: ...


def recall_facts(
    book: FactBook | None = None,
    *,
    store: Store | None = None,
    query: str | None = None,
    namespace: str | None = None,
    scope: str | None = None,
    max_facts: int | None = None,
    min_confidence: float | None = None,
    kind_filter: str | Collection[str] | None = None,
) -> tuple[Recalled, ...] | Coroutine[Any, Any, tuple[Recalled, ...]]:
    """The facts most relevant to the query, best first; without a query, the newest. None means the default.

    `await recall_facts(store=store, …)` reads the facts of a store as they are now, `recall_facts(book, …)` those of a
    book.
    """
    recall = partial(
        facts.recall_facts,
        query=query,
        namespace=namespace,
        scope=scope,
        max_facts=max_facts,
        min_confidence=min_confidence,
        kind_filter=kind_filter,
    )
    held = _book_or_store(book, store, "recall_facts")
    return recall(held) if isinstance(held, FactBook) else _recall(held, recall)


async def _recall(store: Store, recall: Callable[[FactBook], tuple[Recalled, ...]]) -> tuple[Recalled, ...]:
    return recall(await store.fact_book())


async def facts_from(journal: Journal, root: str | None = None) -> FactBook:
    """The facts of the store with this journal or, if `root` is given, of the store that it names.

    `root` is the URL of a store, or the path of a store file, which may begin with `~`. It is never created.
    """
    if root is None:
        return await read_facts(journal)
    async with open_store(_existing(root)) as store:
        return await store.fact_book()


def _existing(root: str) -> str:
    """The URL of the store that `root` names; `StoreRefused` if it names a file that does not exist."""
    if root == "memory:":
        raise InvalidOption(
            "root must name a store file or a database; facts in memory belong to one store", field="root", value=root
        )
    url = root if "://" in root else f"sqlite:///{root}"
    if url.startswith("sqlite:"):
        place = _absolute(sqlite_path(url))
        if not place.is_file():
            raise StoreRefused(
                f"root names the store file {place}, which {'is not a file' if place.exists() else 'does not exist'}; "
                "correct the path, store a fact in a store of that path, or remove root to recall from the session's store"
            )
    return url


def _absolute(path: str) -> Path:
    """The path without `~`. The `~` of an unknown user is kept, as shells keep it."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        return Path(path).absolute()


def _book_or_store(book: object, store: object, function: str) -> FactBook | Store:
    """The one that is given; TypeError otherwise, as Python raises for the arguments of a function."""
    if isinstance(book, FactBook) and store is None:
        return book
    if isinstance(store, Store) and book is None:
        return store
    raise TypeError(f"{function}() needs either a FactBook as its first argument or store=Store")
