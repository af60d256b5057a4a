"""Power cuts at every moment: what was acknowledged is there when the power comes back, and the store can be opened."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import apsw
import pytest

from sideband.core.failures import StoreError
from sideband.ports import Journal
from sideband.store.sqlite import committing, open_sqlite
from sideband.store.sqlite.committing import SqliteSettings
from sideband.store.sqlite.connection import connect
from tests.builders import a_draft
from tests.faults.disks import WatchedDisk
from tests.faults.power.images import Disk
from tests.faults.power.recording import RecordingDisk
from tests.faults.replay import Tried, replayable
from tests.faults.sizes import size
from tests.unit.store.twins import Sender, a_start

IMAGES: Final = size("SIDEBAND_IMAGES", small=500, soak=20_000)
EACH: Final = 50
COMMITS: Final = 40
SESSIONS: Final = ("s0", "s1", "s2")
STORE: Final = "store.db"
# So few that the log is taken into the file, and begun again, many times.
WAL_PAGES: Final = 24


class Recorded(NamedTuple):
    """All that was done to a disk; `acked` is what was acknowledged, each with how much had been done by then."""

    disk: RecordingDisk
    acked: list[tuple[int, str, str]]


async def _work(directory: Path, recording: RecordingDisk, seed: int) -> list[tuple[int, str, str]]:
    """Senders side by side, in a store that is opened, closed and opened again."""
    rng = random.Random(f"work {seed}")  # noqa: S311 - a choice, no secret
    acked: list[tuple[int, str, str]] = []
    settings = SqliteSettings(vfs=recording.name, snapshot_events=20, kept_events=10)

    async def send(store: Journal, name: str) -> None:
        session_id, body = rng.choice(SESSIONS), "x" * rng.choice([10, 900, 7_000])
        answer = await Sender(store, name=name).send(a_draft(body=body), session_id=session_id)
        acked.append((len(recording.done), session_id, answer.reminder_id))

    for life in range(2):
        store = await open_sqlite(directory / STORE, settings)
        for number in range(COMMITS // 2):
            together = rng.choice([1, 1, 1, 3])
            await asyncio.gather(*(send(store, f"life{life}-{number}-{place}-") for place in range(together)))
            if rng.random() < 0.1:
                lease = await store.acquire(rng.choice(SESSIONS), "me")
                await store.release(lease)
        await store.close()
    return acked


def recorded(directory: Path, seed: int) -> Recorded:
    """What a store does to its disk in a while."""
    recording = RecordingDisk(directory)
    try:
        with recording.watching_directories(), patch.object(committing, "WAL_PAGES", WAL_PAGES):
            return Recorded(recording, asyncio.run(_work(directory, recording, seed)))
    finally:
        recording.unregister()


async def _faults(record: Recorded, directory: Path, seed: int, images: int) -> list[str]:
    """What is wrong after power cuts at so many moments."""
    rng = random.Random(f"cuts {seed}")  # noqa: S311 - a choice, no secret
    found: list[str] = []
    now = Disk()
    quick = WatchedDisk(syncs=False)
    for at in sorted(rng.randint(0, len(record.disk.done)) for _ in range(images)):
        now.move_on(record.disk.done, at)
        loss = now.cut_power(directory, rng)
        promised = {(session_id, item_id) for done, session_id, item_id in record.acked if done <= at}
        try:
            missing = promised - await _kept(directory, quick.name)
        except (StoreError, AssertionError) as error:
            found.append(f"seed {seed}, cut at {at}, lost {loss}: {error!r}")
        else:
            if missing:
                found.append(f"seed {seed}, cut at {at}, lost {loss}: {len(missing)} of {len(promised)} are missing")
    quick.unregister()
    return found


async def _kept(directory: Path, vfs: str) -> set[tuple[str, str]]:
    """What the store has when the power is back; it can be written to again."""
    store = await open_sqlite(directory / STORE, SqliteSettings(vfs=vfs, kept_events=None))
    try:
        kept = set()
        for session_id in SESSIONS:
            await store.open(session_id)
            await store.commit(session_id, a_start)
            kept |= {(session_id, item.id) for item in store.state(session_id).inbox.items()}
        return kept
    finally:
        await store.close()


def faults(directory: Path, seed: int, images: int = EACH) -> list[str]:
    at_work, afterwards = directory / "at-work", directory / "afterwards"
    at_work.mkdir()
    afterwards.mkdir()
    return asyncio.run(_faults(recorded(at_work, seed), afterwards, seed, images))


def play(_place: str, seed: int, directory: Path) -> int:
    """How many power cuts were played."""
    with replayable("power", "sqlite", seed):
        assert faults(directory, seed) == []
    return EACH


@pytest.mark.requirement("store:durable:acknowledged-survives")
@pytest.mark.parametrize("seed", range(-(-IMAGES // EACH)))
def test_no_power_cut_loses_what_was_acknowledged_or_breaks_the_store(seed: int, tmp_path: Path, tried: Tried) -> None:
    tried("images of a power cut, sqlite", play("sqlite", seed, tmp_path))


# Faults that are planted on purpose.


def _carelessly(synchronous: str) -> Callable[..., apsw.Connection]:
    def connect_carelessly(*args: Any, **options: Any) -> apsw.Connection:  # noqa: ANN401 - those of the real one
        made = connect(*args, **options)
        made.pragma("synchronous", synchronous)
        return made

    return connect_carelessly


@pytest.mark.parametrize(
    ("synchronous", "found_as"),
    [
        pytest.param("normal", "are missing", id="a-commit-is-not-synced"),
        pytest.param("off", "StoreDamaged", id="nothing-is-synced"),
    ],
)
def test_a_planted_fault_is_found(
    synchronous: str, found_as: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "connect", _carelessly(synchronous))
    assert [found for found in faults(tmp_path, 0) if found_as in found]
