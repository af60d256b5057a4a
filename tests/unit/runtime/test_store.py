"""Opening the place where sessions live."""

import asyncio

import pytest

from sideband.core.errors import InvalidOption, TooManyPending
from sideband.core.limits import Limits
from sideband.runtime.store import Store, open_store
from sideband.testing import CountingIds, MemoryStore


def test_the_same_name_is_the_same_session() -> None:
    async def main() -> None:
        async with open_store() as store:
            session = await store.session("fix-login")
            await session.remind("a fact")
            assert await store.session("fix-login") is session
            assert len(await (await store.session("other")).pending()) == 0

    asyncio.run(main())


def test_sessions_without_a_name_are_all_different() -> None:
    async def main() -> None:
        store = Store(MemoryStore(), new_id=CountingIds("s"))
        first, second = await store.session(), await store.session()
        assert (first.id, second.id) == ("s-1", "s-2")
        assert first.id != (await open_store().session()).id

    asyncio.run(main())


def test_a_session_outlives_the_handle_on_its_store() -> None:
    async def main() -> None:
        store = open_store("memory:")
        async with store:
            session = await store.session("s")
        await session.remind("still open")
        assert await store.session("s") is session

    asyncio.run(main())


def test_limits_are_those_of_the_store() -> None:
    async def main() -> None:
        session = await open_store(limits=Limits(pending_per_session=1)).session()
        await session.remind("one")
        with pytest.raises(TooManyPending):
            await session.remind("two")

    asyncio.run(main())


def test_an_address_that_leads_nowhere_is_refused() -> None:
    with pytest.raises(InvalidOption, match="no store can be opened at 'redis://x'"):
        open_store("redis://x")
