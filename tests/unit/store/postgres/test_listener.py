"""Events of other processes when a session cannot be read, or when the connection is lost."""

import asyncio

import psycopg
import pytest

from sideband.core.errors import StoreDamaged
from sideband.store.postgres import PostgresSettings
from tests.postgres_proxy import Proxy
from tests.unit.store.twins import PostgresTwin, a_start, played, so_many, told, took, written_at

# A row of session a that is not what was written, where the next one would be.
A_CHANGED_ROW = (
    "BEGIN; UPDATE sideband.counter SET last = last + 1; INSERT INTO sideband.journal "
    "SELECT last, 'a', 'started', 0, '' FROM sideband.counter; COMMIT"
)


def test_a_session_that_is_damaged_keeps_no_other_from_its_news(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open(PostgresSettings(poll_seconds=0.02)) as store, postgres.open() as other:
            await asyncio.gather(store.open("a"), store.open("b"))
            damaged, sound = store.wake("a"), store.wake("b")
            postgres.execute(A_CHANGED_ROW)
            await damaged.wait()
            with pytest.raises(StoreDamaged, match="row 1 of the journal was changed"):
                await store.commit("a", a_start)
            await other.commit("b", a_start)
            await sound.wait()
            assert store.state("b").running
            assert await written_at(store, "b", a_start) == 3
            # Reading the whole journal fails.
            for read in (told(store), anext(store.subscribe())):
                with pytest.raises(StoreDamaged):
                    await read

    played(story)


def test_a_subscriber_to_all_sessions_gets_every_event_before_the_damage(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open(PostgresSettings(poll_seconds=0.02)) as store, postgres.open() as other:
            source = store.subscribe()
            following = asyncio.ensure_future(took(source, 3))
            await other.commit("b", so_many(3))
            assert [entry.sequence for entry in await following] == [1, 2, 3]
            postgres.execute(A_CHANGED_ROW)
            with pytest.raises(StoreDamaged, match="row 4 of the journal was changed"):
                await anext(source)

    played(story)


def test_a_store_can_be_closed_though_the_connection_that_listens_is_lost_just_then(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with (
            Proxy(postgres.server).running() as proxy,
            postgres.open(PostgresSettings(poll_seconds=0.02), url=proxy.url(postgres.name)) as store,
        ):
            await store.open("s")
            async with await psycopg.AsyncConnection.connect(postgres.url) as other:
                await other.execute("LOCK sideband.counter IN ACCESS EXCLUSIVE MODE")
                await asyncio.to_thread(postgres.is_waited_for)
                closing = asyncio.ensure_future(store.close())
                proxy.is_down = True
                # A task that is cancelled during a statement waits for the answer first.
                for _ in range(20):
                    await asyncio.sleep(0)
                proxy.drop_all()
                await closing

    played(story)
