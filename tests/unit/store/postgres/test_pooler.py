"""Poolers: session mode works, transaction mode is refused."""

import asyncio

import pytest

from sideband.core.errors import StoreRefused
from sideband.store.postgres import open_postgres
from tests.postgres_pooler import Pooler
from tests.unit.store.twins import PostgresTwin, a_start, played, told, written_at


def test_a_pooler_that_lends_its_connections_by_the_transaction_is_refused(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with Pooler(postgres.server, postgres.name, keeps=False).running() as pooler:
            with pytest.raises(
                StoreRefused, match="give the address of the server itself, or of a pool in session mode"
            ):
                await open_postgres(pooler.url)

    played(story)


def test_a_pooler_that_keeps_connections_is_as_good_as_the_server(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with (
            Pooler(postgres.server, postgres.name, keeps=True).running() as pooler,
            postgres.open(url=pooler.url) as store,
        ):
            await asyncio.gather(*(store.commit("s", a_start) for _ in range(3)))
            assert store.is_own(await _backend_of_the_writer(postgres))
            assert [entry.sequence for entry in await told(store)] == [1, 2, 3]

    async def _backend_of_the_writer(twin: PostgresTwin) -> int:
        # Of those that others have left the server may not have taken leave yet.
        asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE %s"
        ((backend,),) = await asyncio.to_thread(twin.execute, asked, "%EXECUTE sideband_append%COMMIT%")
        return int(str(backend))

    played(story)


def test_a_connection_that_turns_out_to_be_shared_is_called_what_it_is(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await store.commit("s", a_start)
            connection = await store._writing.connection()
            await connection.execute("DEALLOCATE ALL")
            with pytest.raises(StoreRefused, match="is a pooler in transaction mode"):
                await store.commit("s", a_start)
            # It is another connection by now.
            assert await written_at(store, "s", a_start) == 2

    played(story)
