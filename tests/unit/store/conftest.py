"""Stores to test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import no_server_stays
from tests.unit.store.twins import DURABLE, TWINS, PostgresTwin, SqliteTwin, Twin

__all__ = ["no_server_stays"]


@pytest.fixture(params=TWINS)
def twin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Twin]:
    """Each of the stores in turn."""
    twin = TWINS[request.param](tmp_path)
    yield twin
    twin.remove()


@pytest.fixture(params=DURABLE)
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Twin]:
    """Each of those that outlive their process."""
    twin = TWINS[request.param](tmp_path)
    yield twin
    twin.remove()


@pytest.fixture
def sqlite(tmp_path: Path) -> SqliteTwin:
    return SqliteTwin(tmp_path)


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[PostgresTwin]:
    twin = PostgresTwin(tmp_path)
    yield twin
    twin.remove()
