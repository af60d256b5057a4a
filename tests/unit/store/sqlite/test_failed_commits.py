"""Commits that fail on the disk: a commit that was reported as refused is not found after a crash."""

import functools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import apsw
import pytest

from sideband.core.errors import OutcomeUnknown, StoreError, StoreUnavailable
from sideband.core.events import QueuedReminder
from sideband.store.sqlite import SqliteSettings, open_sqlite
from sideband.store.sqlite.file import WAL
from tests.builders import a_draft
from tests.unit.store.failing import FailingDisk
from tests.unit.store.twins import Sender, SqliteTwin, played

# Into how many operations of the disk it is tried to put a failure; a commit takes fewer.
MOST_OPERATIONS: Final = 12
# Two pages, each with a header of its own in the log, are written for the smallest commit.
FEWEST_REFUSED: Final = 4


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    disk = FailingDisk()
    yield disk
    disk.unregister()


def an_image(path: Path, name: str) -> Path:
    """What a process finds that comes after this one was killed right now."""
    image = path.parent / name / path.name
    image.parent.mkdir()
    for suffix in ("", WAL):
        shutil.copy(f"{path}{suffix}", f"{image}{suffix}")
    return image


def checkpoint(path: Path) -> None:
    """Take all of the log into the file; it stays as it is until the next commit, which begins it anew."""
    connection = apsw.Connection(str(path))
    # One that has read nothing yet does not know of the log.
    connection.pragma("user_version")
    frames, taken = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    assert frames == taken > 0
    connection.close()


async def bodies(path: Path) -> list[str]:
    store = await open_sqlite(path)
    try:
        await store.open("s")
        return [item.reminder.body for item in store.state("s").inbox.items() if isinstance(item, QueuedReminder)]
    finally:
        await store.close()


class Failure(NamedTuple):
    """What the disk does after so many operations."""

    error: type[apsw.Error]
    failures: int | None


class Past(NamedTuple):
    """What was sent before; `is_checkpointed`: all of it is in the file, and the next commit begins the log anew."""

    bodies: tuple[str, ...]
    is_checkpointed: bool = False


async def after_a_failure(
    sqlite: SqliteTwin, disk: FailingDisk, failure: Failure, operations: int, past: Past
) -> tuple[StoreError | None, list[str]]:
    """What the sender was told of the last reminder, and what a process finds that comes after a crash."""
    async with sqlite.open(SqliteSettings(vfs=disk.name)) as store:
        sender = Sender(store, name=f"n{operations}")
        for body in past.bodies:
            await sender.send(a_draft(body=body))
        if past.is_checkpointed:
            checkpoint(sqlite.path)
        told: StoreError | None = None
        with disk.fails_after(operations, failure.error, failures=failure.failures):
            try:
                await sender.send(a_draft(body="last"))
            except StoreError as problem:
                told = problem
            image = an_image(sqlite.path, f"image{operations}")
    return told, await bodies(image)


@pytest.mark.parametrize(
    "past",
    [
        pytest.param(Past(()), id="first"),
        pytest.param(Past(("one",)), id="second"),
        pytest.param(Past(("one", "two")), id="third"),
        pytest.param(Past(("one", "two"), is_checkpointed=True), id="checkpointed"),
    ],
)
@pytest.mark.parametrize("error", [apsw.IOError, apsw.FullError, apsw.NoMemError], ids=["broken", "full", "no memory"])
@pytest.mark.parametrize("failures", [1, None], ids=["once", "for good"])
def test_what_was_refused_is_not_there_after_a_crash(
    tmp_path: Path, disk: FailingDisk, failures: int | None, error: type[apsw.Error], past: Past
) -> None:
    before = past.bodies

    async def story(operations: int) -> StoreError | None:
        place = tmp_path / str(operations)
        place.mkdir()
        told, found = await after_a_failure(SqliteTwin(place), disk, Failure(error, failures), operations, past)
        match told:
            case None:
                assert found == [*before, "last"]
            case OutcomeUnknown():
                assert found in ([*before], [*before, "last"])
            case _:
                assert isinstance(told, StoreUnavailable)
                assert found == [*before]
        return told

    outcomes = [played(functools.partial(story, operations)) for operations in range(MOST_OPERATIONS)]
    assert outcomes[-1] is None, "not every operation was made to fail"
    unknown = [outcome for outcome in outcomes if isinstance(outcome, OutcomeUnknown)]
    # Where the log is begun anew and not even its header can be written, the old one is taken for the commit.
    doubted = 2 if past.is_checkpointed else 1
    assert len(unknown) == (0 if failures == 1 else doubted), "only the last sync leaves the whole of it in the log"
    assert sum(isinstance(outcome, StoreUnavailable) for outcome in outcomes) >= FEWEST_REFUSED
