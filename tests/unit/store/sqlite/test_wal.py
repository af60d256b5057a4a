"""A log that was cut off or changed: its last commit may not have been acknowledged, all others were."""

import random
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from sideband.core.apply import fold
from sideband.core.errors import StoreDamaged
from sideband.store.sqlite.wal import FRAME, HEADER
from tests.builders import a_draft
from tests.unit.core.test_snapshot import facts
from tests.unit.store.twins import Sender, SqliteTwin, played, told

COMMITS: Final = 12
PAGE: Final = 4_096
LENGTH: Final = FRAME.size + PAGE


class Left(NamedTuple):
    """The files of a process that was killed after a commit; `last` is where that commit begins in the log."""

    file: bytes
    log: bytes
    last: int


def log_of(sqlite: SqliteTwin) -> bytes:
    return Path(f"{sqlite.path}-wal").read_bytes()


async def left_behind(sqlite: SqliteTwin) -> Left:
    async with sqlite.open() as store:
        sender = Sender(store)
        for _ in range(COMMITS - 1):
            await sender.send(a_draft())
        last = len(log_of(sqlite))
        await sender.send(a_draft())
        return Left(sqlite.path.read_bytes(), log_of(sqlite), last)


async def found_in(sqlite: SqliteTwin) -> int:
    """How many commits there are; that they are whole and in their order is checked."""
    async with sqlite.open() as store:
        await store.open("s")
        entries = await told(store)
        assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
        assert facts(store.state("s")) == facts(fold(entry.event for entry in entries))
        return len(entries)


def put(sqlite: SqliteTwin, file: bytes, log: bytes) -> None:
    for leftover in sqlite.path.parent.iterdir():
        leftover.unlink()
    sqlite.path.write_bytes(file)
    Path(f"{sqlite.path}-wal").write_bytes(log)


@pytest.mark.requirement("store:durable:torn-tail-is-detected")
@pytest.mark.parametrize("seed", range(3))
def test_a_last_commit_that_is_torn_is_gone_and_everything_before_it_is_there(sqlite: SqliteTwin, seed: int) -> None:
    left = played(lambda: left_behind(sqlite))
    chosen = random.Random(seed)  # noqa: S311 - the same in every run
    put(sqlite, left.file, left.log)
    assert played(lambda: found_in(sqlite)) == COMMITS
    for _ in range(10):
        put(sqlite, left.file, left.log[: chosen.randrange(left.last, len(left.log))])
        assert played(lambda: found_in(sqlite)) == COMMITS - 1


@pytest.mark.requirement("store:durable:torn-tail-is-detected")
@pytest.mark.parametrize("seed", range(3))
def test_a_commit_that_was_changed_before_others_is_noticed(sqlite: SqliteTwin, seed: int) -> None:
    left = played(lambda: left_behind(sqlite))
    chosen = random.Random(seed)  # noqa: S311 - the same in every run
    for _ in range(10):
        changed = bytearray(left.log)
        # Not in the commit before the last: whether that was the end, the last one alone has to tell.
        place = chosen.randrange(HEADER.size, left.last - 4 * LENGTH)
        changed[place] ^= 1 << chosen.randrange(8)
        put(sqlite, left.file, bytes(changed))
        with pytest.raises(
            StoreDamaged, match=r"a commit in store\.db-wal cannot be read, and later commits follow it"
        ):
            played(lambda: found_in(sqlite))
        assert sqlite.path.read_bytes() == left.file, "it is left as it was found"
        assert log_of(sqlite) == changed


def test_a_store_that_others_are_writing_to_is_opened(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            sender = Sender(store)
            for _ in range(10):
                await sender.send(a_draft())
                async with sqlite.open() as other:
                    assert len(await told(other)) == len(sender.answers)

    played(story)
