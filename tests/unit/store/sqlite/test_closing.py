"""Closing a store file: once and completely, with concurrent and cancelled callers."""

import asyncio

import pytest

from sideband.core.errors import StoreClosed
from tests.unit.store.twins import SqliteTwin, a_start, played


def beside(sqlite: SqliteTwin) -> list[str]:
    return sorted(path.name for path in sqlite.path.parent.iterdir())


def test_two_who_close_it_at_once_both_find_it_closed(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            for name in ("a", "b"):
                await store.acquire(name, "me")
            await asyncio.gather(store.close(), store.close())
            with pytest.raises(StoreClosed):
                await store.commit("a", a_start)

    played(story)
    assert beside(sqlite) == ["store.db"]


def test_a_caller_that_stops_waiting_leaves_nothing_half_closed(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            await store.open("s")
            closing = asyncio.ensure_future(store.close())
            await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            await store.close()

    played(story)
    assert beside(sqlite) == ["store.db"]
