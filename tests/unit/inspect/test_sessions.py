"""Which address leads to which store, and what is said of the others."""

import sys

import pytest

from sideband.core.errors import InvalidOption, StoreRefused
from sideband.inspect.sessions import inspect_store


def test_a_store_in_memory_cannot_be_looked_into() -> None:
    with pytest.raises(InvalidOption, match="only in its own process"):
        inspect_store("memory:")


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("", "sideband.db"),
        ("m.db", "m.db"),
        ("sqlite:m.db", "sideband.db"),
        ("redis://host/0", "sideband.db"),
        ("/home/me/store.db", "/home/me/store.db"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused_with_those_that_do(url: str, file: str) -> None:
    with pytest.raises(InvalidOption, match=f"write 'sqlite:///{file}' or 'postgresql://host/name'$"):
        inspect_store(url)


def test_the_password_of_an_address_that_leads_nowhere_is_not_repeated() -> None:
    with pytest.raises(InvalidOption) as refused:
        inspect_store("mysql://me:hunter2@host/name")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite://here.db"])
def test_a_file_that_is_not_named_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match="sqlite:///"):
        inspect_store(url)


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sideband.store.postgres.inspector", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreRefused, match=r"pip install 'sideband\[postgres\]'"):
        inspect_store("postgresql://host/name")
