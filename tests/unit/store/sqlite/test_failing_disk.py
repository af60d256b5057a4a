"""A disk that is full or broken: whoever asked is told, nothing is half done, and the store works when the disk does."""

import asyncio
from collections.abc import Iterator

import apsw
import pytest

from sideband.core.failures import StoreError, StoreUnavailable
from sideband.core.state import fold
from sideband.store.sqlite.committing import SqliteSettings
from tests.builders import a_draft
from tests.unit.core.test_snapshot import facts
from tests.unit.store.failing import FailingDisk
from tests.unit.store.twins import Sender, SqliteTwin, a_start, played, so_many, told


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    disk = FailingDisk()
    yield disk
    disk.unregister()


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
                    outcomes = await asyncio.gather(
                        *(sender.send(a_draft(dedupe_key="k")) for sender in senders), return_exceptions=True
                    )
                failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
                assert all(isinstance(outcome, StoreUnavailable) for outcome in failed)
                assert len(failed) in (0, 3), "they were one commit"
                after = await told(store)
                assert (after == before) is bool(failed)
                assert [entry.sequence for entry in after] == list(range(1, len(after) + 1))
                assert facts(store.state("s")) == facts(fold(entry.event for entry in after))
                failures += bool(failed)
            assert (await store.commit("s", a_start)).sequence == len(after) + 1
            return failures

    assert 0 < played(story) < 40
    played(lambda: _is_sound(sqlite))


async def _is_sound(sqlite: SqliteTwin) -> None:
    async with sqlite.open() as store:
        await store.open("s")
        assert facts(store.state("s")) == facts(fold(entry.event for entry in await told(store)))


@ERRORS
def test_a_store_that_cannot_be_made_leaves_nothing_behind(
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


def test_a_snapshot_that_cannot_be_written_costs_nobody_anything(sqlite: SqliteTwin, disk: FailingDisk) -> None:
    settings = SqliteSettings(vfs=disk.name, snapshot_events=10)

    async def story() -> None:
        async with sqlite.open(settings) as store:
            await store.commit("s", so_many(5))
            used = disk.done
            await store.commit("s", a_start)
            one_commit = disk.done - used
            with disk.fails_after(one_commit + 2):
                committed = await store.commit("s", so_many(20))
                assert committed.sequence == 26
                with pytest.raises(StoreUnavailable):
                    await store.commit("s", a_start)
            assert (await store.commit("s", a_start)).sequence == 27

    played(story)
    played(lambda: _is_sound(sqlite))


def test_commits_that_are_asked_for_at_once_are_synced_once(sqlite: SqliteTwin, disk: FailingDisk) -> None:
    async def story() -> None:
        async with sqlite.open(SqliteSettings(vfs=disk.name)) as store:
            await store.commit("s", a_start)
            before = disk.syncs
            await asyncio.gather(*(store.commit(f"s{number % 4}", a_start) for number in range(64)))
            # The first may leave before the others have come.
            assert disk.syncs - before <= 2
            before = disk.done
            await asyncio.gather(*(store.commit("s", lambda _: ()) for _ in range(8)))
            assert disk.done == before

    played(story)


def test_a_file_that_somebody_keeps_for_too_long_is_told_and_then_works(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open(SqliteSettings(busy_seconds=0.05)) as store:
            await store.commit("s", a_start)
            other = apsw.Connection(str(sqlite.path))
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="BusyError"):
                await store.commit("s", a_start)
            other.execute("ROLLBACK")
            other.close()
            assert (await store.commit("s", a_start)).sequence == 2

    played(story)
