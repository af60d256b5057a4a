"""A file that is removed or replaced while a process has it open: no commit to a removed file is acknowledged."""

import pytest

from sideband.core.errors import StoreDamaged
from sideband.store.sqlite import SqliteSettings
from tests.unit.store.twins import SqliteTwin, a_start, played, told, written_at


def test_what_is_removed_while_it_is_open_accepts_nothing_more(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            await store.commit("s", a_start)
            aside = sqlite.path.rename(sqlite.path.with_name("aside.db"))
            for ask in (lambda: store.commit("s", a_start), lambda: store.acquire("s", "me")):
                with pytest.raises(StoreDamaged, match=r"store\.db was removed or replaced .*put it back"):
                    await ask()
            aside.rename(sqlite.path)
            assert await written_at(store, "s", a_start) == 2
            assert len(await told(store)) == 2

    played(story)


def test_what_is_replaced_while_it_is_open_is_left_alone(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            await store.commit("s", a_start)
        copy = sqlite.path.read_bytes()
        async with sqlite.open() as store:
            restored = sqlite.path.with_name("backup.db")
            restored.write_bytes(copy)
            restored.replace(sqlite.path)
            with pytest.raises(StoreDamaged, match="removed or replaced"):
                await store.commit("s", a_start)
        assert sqlite.path.read_bytes() == copy

    played(story)


def test_a_subscriber_gets_the_error(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open(SqliteSettings(poll_seconds=0.001)) as store:
            sqlite.path.rename(sqlite.path.with_name("aside.db"))
            with pytest.raises(StoreDamaged, match="removed or replaced"):
                await anext(store.subscribe())

    played(story)
