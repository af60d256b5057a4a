"""Looking into a store by its address, without making one where there is none."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Final

from sideband.core.errors import InvalidOption
from sideband.core.failures import StoreRefused
from sideband.runtime.store import NEEDS_PSYCOPG, kind_of, sqlite_path
from sideband.store.inspection import Inspector


def inspect_store(url: str) -> AbstractContextManager[Inspector]:
    """One look at the store of this address, as it is on entering; `StoreRefused` where there is none."""
    if url == "memory:":
        raise InvalidOption(
            "a store in memory is gone with its process; there is nothing to read", field="url", value=url
        )
    return _WAYS[kind_of(url, _WAYS)](url)


def _sqlite(url: str) -> AbstractContextManager[Inspector]:
    # Whoever looks into one kind of store loads nothing of the other.
    from sideband.store.sqlite.inspection import inspect_sqlite  # noqa: PLC0415 - see above

    return inspect_sqlite(sqlite_path(url))


def _postgres(url: str) -> AbstractContextManager[Inspector]:
    try:
        from sideband.store.postgres.inspection import inspect_postgres  # noqa: PLC0415 - not everybody has what it needs
    except ImportError as error:
        raise StoreRefused(NEEDS_PSYCOPG) from error
    return inspect_postgres(url)


_WAYS: Final[Mapping[str, Callable[[str], AbstractContextManager[Inspector]]]] = MappingProxyType(
    {"sqlite": _sqlite, "postgresql": _postgres, "postgres": _postgres}
)
