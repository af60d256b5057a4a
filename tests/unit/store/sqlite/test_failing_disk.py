"""A disk that is full or broken: the caller gets the error, nothing is half done, and the store works when the disk does."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import apsw
import pytest

from sideband.core.apply import fold
from sideband.core.errors import OutcomeUnknown, StoreError, StoreUnavailable
from sideband.store.sqlite import SqliteSettings, SqliteStore
from tests.builders import a_draft
from tests.decisions import saying
from tests.loop_builders import others
from tests.unit.core.test_snapshot import facts
from tests.unit.store.failing import FailingDisk
from tests.unit.store.twins import Sender, SqliteTwin, a_start, played, so_many, told, written_at


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    disk = FailingDisk()
    yield disk
    disk.unregister()


async def together(store: SqliteStore, *asked: Coroutine[Any, Any, object]) -> list[object]:
    """What they come to if all of them have come before the first can leave."""
    loop, holds, have_come = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def hold(_committer: object) -> None:
        loop.call_soon_threadsafe(holds.set)
        have_come.wait()

    try:
        holding = asyncio.ensure_future(store._ask(hold))
        # What the writer takes together with this would leave before the others.
        await holds.wait()
        tasks = [asyncio.ensure_future(each) for each in asked]
        await others()
    finally:
        have_come.set()
    await holding
    return await asyncio.gather(*tasks, return_exceptions=True)


ERRORS = pytest.mark.parametrize(
    "error",
    [
        pytest.param(apsw.FullError, id="full"),
        pytest.param(apsw.IOError, id="broken"),
    ],
)


@ERRORS
def test_whichever_operation_fails_nothing_is_half_done(
    sqlite: SqliteTwin, disk: FailingDisk, error: type[apsw.Error]
) -> None:
    async def story() -> int:
        async with sqlite.open(SqliteSettings(vfs=disk.name, snapshot_events=7)) as store:
            await store.open("s")
            failures = 0
            for operations in range(40):
                before = await told(store)
                senders = [Sender(store, name=f"n{operations}-{number}") for number in range(3)]
                with disk.fails_after(operations, error):
                    outcomes = await together(store, *(sender.send(a_draft(dedupe_key="k")) for sender in senders))
                failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
                assert all(isinstance(outcome, StoreUnavailable | OutcomeUnknown) for outcome in failed)
                assert len(failed) in (0, 3), "they were one commit"
                after = await told(store)
                assert (after == before) is bool(failed)
                assert [entry.sequence for entry in after] == list(range(1, len(after) + 1))
                assert facts(store.state("s")) == facts(fold(entry.event for entry in after))
                failures += bool(failed)
            assert await written_at(store, "s", a_start) == len(after) + 1
            return failures

    assert 0 < played(story) < 40
    played(lambda: _is_sound(sqlite))


async def _is_sound(sqlite: SqliteTwin) -> None:
    async with sqlite.open() as store:
        await store.open("s")
        assert facts(store.state("s")) == facts(fold(entry.event for entry in await told(store)))


@ERRORS
def test_a_store_that_cannot_be_created_leaves_no_files(
    sqlite: SqliteTwin, disk: FailingDisk, error: type[apsw.Error]
) -> None:
    async def story() -> int:
        for operations in range(100):
            with disk.fails_after(operations, error):
                try:
                    async with sqlite.open(SqliteSettings(vfs=disk.name)) as store:
                        await store.commit("s", a_start)
                except StoreError:
                    leftovers = {path.name for path in sqlite.path.parent.iterdir()} - {
                        "store.db",
                        "store.db-wal",
                        "store.db-shm",
                    }
                    assert leftovers == set()
                else:
                    return operations
        return 0

    assert played(story) > 0


def test_a_snapshot_that_cannot_be_written_affects_no_caller(sqlite: SqliteTwin, disk: FailingDisk) -> None:
    settings = SqliteSettings(vfs=disk.name, snapshot_events=10)

    async def story() -> None:
        async with sqlite.open(settings) as store:
            await store.commit("s", so_many(5))
            used = disk.done
            await store.commit("s", a_start)
            one_commit = disk.done - used
            with disk.fails_after(one_commit + 2):
                await store.commit("s", so_many(20))
                with pytest.raises(StoreUnavailable):
                    await store.commit("s", a_start)
            assert await written_at(store, "s", a_start) == 27

    played(story)
    played(lambda: _is_sound(sqlite))


def test_commits_that_are_asked_for_at_once_are_synced_once(sqlite: SqliteTwin, disk: FailingDisk) -> None:
    async def story() -> None:
        async with sqlite.open(SqliteSettings(vfs=disk.name)) as store:
            await store.commit("s", a_start)
            before = disk.syncs
            await together(store, *(store.commit(f"s{number % 4}", a_start) for number in range(64)))
            assert disk.syncs - before == 1
            assert len(await told(store)) == 65
            before = disk.done
            await asyncio.gather(*(store.commit("s", saying()) for _ in range(8)))
            assert disk.done == before

    played(story)


def test_a_file_that_stays_locked_for_too_long_is_an_error_and_then_works(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open(SqliteSettings(patience_seconds=0.05)) as store:
            await store.commit("s", a_start)
            other = apsw.Connection(str(sqlite.path))
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="BusyError"):
                await store.commit("s", a_start)
            other.execute("ROLLBACK")
            other.close()
            assert await written_at(store, "s", a_start) == 2

    played(story)
