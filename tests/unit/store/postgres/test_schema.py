"""The permissions that creating the tables needs."""

from collections.abc import Iterator

import pytest

from sideband.core.errors import StoreRefused
from sideband.store.postgres import open_postgres
from tests.postgres import SUPERUSER
from tests.unit.store.twins import PostgresTwin, a_start, played, written_at

ROLE = "sideband_app"


@pytest.fixture
def url(postgres: PostgresTwin) -> Iterator[str]:
    """The address of the database for a role that may not create anything."""
    postgres.execute(f"CREATE ROLE {ROLE} LOGIN")
    yield postgres.url.replace(f"{SUPERUSER}@", f"{ROLE}@")
    postgres.execute("DROP SCHEMA IF EXISTS sideband CASCADE")
    postgres.execute(f"DROP ROLE {ROLE}")


async def a_commit(url: str) -> int:
    store = await open_postgres(url)
    try:
        return await written_at(store, "s", a_start)
    finally:
        await store.close()


def test_a_schema_that_was_created_for_a_role_that_may_not_create_one_is_used(postgres: PostgresTwin, url: str) -> None:
    postgres.execute(f"CREATE SCHEMA sideband AUTHORIZATION {ROLE}")
    assert played(lambda: a_commit(url)) == 1


@pytest.mark.parametrize("has_a_store", [False, True], ids=["where-there-is-none", "where-another-role-has-one"])
def test_who_may_not_make_a_store_is_told_what_would_help(
    postgres: PostgresTwin,
    url: str,
    has_a_store: bool,  # noqa: FBT001 - a row
) -> None:
    if has_a_store:
        assert played(lambda: a_commit(postgres.url)) == 1
    with pytest.raises(StoreRefused, match=f'(?s)permission denied.*CREATE SCHEMA sideband AUTHORIZATION "{ROLE}"'):
        played(lambda: a_commit(url))
