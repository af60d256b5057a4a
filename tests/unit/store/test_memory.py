"""The store in memory, where it is not like the others."""

import asyncio

import pytest

from sideband.store.memory import MemoryStore
from tests.loop_builders import others
from tests.unit.store.twins import a_start, took


def test_a_session_begins_with_its_first_mention() -> None:
    store = MemoryStore()
    state = store.state("s")
    assert not state.running
    assert store.state("s") is state
    assert store.state("other") is not state


def test_closing_it_changes_nothing() -> None:
    async def main() -> None:
        store = MemoryStore()
        await store.close()
        assert (await store.commit("s", a_start)).sequence == 1

    asyncio.run(main())


def test_a_subscriber_that_goes_away_is_forgotten() -> None:
    store = MemoryStore()

    async def main() -> None:
        source = store.subscribe()
        await store.commit("a", a_start)
        await took(source, 1)
        assert len(store._subscribers) == 1
        await source.aclose()
        assert store._subscribers == []

    asyncio.run(main())


def test_cancelling_whoever_waits_for_news_forgets_it_too() -> None:
    store = MemoryStore()

    async def main() -> None:
        source = store.subscribe()
        waiting = asyncio.ensure_future(anext(source))
        await others()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert store._subscribers == []

    asyncio.run(main())
