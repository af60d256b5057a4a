"""Power cuts at every moment: acknowledged commits survive, and the store can be opened."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import apsw
import pytest

from sideband.core.errors import StoreError
from sideband.ports import Journal
from sideband.runtime.agents import agent_loop
from sideband.runtime.store import Store
from sideband.store.sqlite import SqliteSettings, committer, open_sqlite
from sideband.store.sqlite.file import connect
from sideband.testing import CountingIds
from tests.builders import a_draft
from tests.faults.disks import WatchedDisk
from tests.faults.laws import broken, journal_of
from tests.faults.power.images import Disk
from tests.faults.power.recording import RecordingDisk
from tests.faults.replay import Tried, replayable
from tests.faults.scripted_agent import RehearsedModel, Talker, WatchedCompactor, WorkTool
from tests.faults.sizes import size
from tests.faults.witness import Witness
from tests.unit.store.twins import Sender, a_start

IMAGES: Final = size("SIDEBAND_IMAGES", small=500, soak=20_000)
EACH: Final = 50
COMMITS: Final = 40
LIVES: Final = 2
SESSIONS: Final = ("s0", "s1", "s2")
# The session of an agent, and the number of messages sent to it in each run.
WORKED: Final = "worked"
SAYINGS: Final = 4
STORE: Final = "store.db"
# So few that the log is taken into the file, and begun again, many times.
WAL_PAGES: Final = 24


class Recorded(NamedTuple):
    """All that was done to a disk.

    `acked` is what was acknowledged, and `said` what a client knows of the agent's work, each with how much had been done by
    then.
    """

    disk: RecordingDisk
    acked: list[tuple[int, str, str]]
    said: list[tuple[int, str, tuple[Any, ...]]]

    def witness(self, at: int) -> Witness:
        """What was known when so much had been done."""
        witness = Witness()
        for done, word, what in self.said:
            if done <= at:
                witness.hear(word, *what)
        return witness


class Worker:
    """Does all that there is to do in a store, which is opened, closed and opened again."""

    def __init__(self, recording: RecordingDisk, seed: int) -> None:
        self.recorded = Recorded(recording, [], [])
        self._rng = random.Random(f"work {seed}")  # noqa: S311 - a choice, no secret
        self._seed = seed

    async def work(self, directory: Path) -> None:
        settings = SqliteSettings(vfs=self.recorded.disk.name, snapshot_events=20, kept_events=kept_events(self._seed))
        for life in range(LIVES):
            store = await open_sqlite(directory / STORE, settings)
            await self._send(store, life, COMMITS // LIVES // 2)
            await self._run(store, life)
            await self._send(store, life, COMMITS // LIVES // 2)
            await store.close()

    async def _send(self, store: Journal, life: int, commits: int) -> None:
        """Senders side by side."""
        for _ in range(commits):
            first = len(self.recorded.acked)
            together = range(first, first + self._rng.choice([1, 1, 1, 3]))
            await asyncio.gather(*(self._send_one(store, f"life{life}-{number}-") for number in together))
            if self._rng.random() < 0.1:
                lease = await store.acquire(self._rng.choice(SESSIONS), "me")
                await store.release(lease)

    async def _send_one(self, store: Journal, name: str) -> None:
        session_id, body = self._rng.choice(SESSIONS), "x" * self._rng.choice([10, 900, 7_000])
        answer = await Sender(store, name=name).send(a_draft(body=body), session_id=session_id)
        self.recorded.acked.append((len(self.recorded.disk.done), session_id, answer.reminder_id))

    def _say(self, word: str, *what: object) -> None:
        self.recorded.said.append((len(self.recorded.disk.done), word, what))

    async def _run(self, store: Journal, life: int) -> None:
        """An agent at work: it drains, asks, is answered, has results and compacts, while a client talks to it."""
        session = await Store(store, new_id=CountingIds(f"life{life}")).session(WORKED)
        talker = Talker(session, self._say, self._seed)
        for number in range(SAYINGS):
            await talker.say_something(life * SAYINGS + number + 1)
        text = "Go on."
        self._say("accepted", await session.prompt(text), text)
        await agent_loop(
            None,
            session=session,
            model=RehearsedModel(session, self._say),
            tools=[WorkTool(session, self._say)],
            compactor=WatchedCompactor(),
            reminders=False,
        )


def kept_events(seed: int) -> int | None:
    """Every other store forgets; what the agent did can be looked at where nothing is forgotten."""
    return None if seed % 2 else 10


def recorded(directory: Path, seed: int) -> Recorded:
    """What a store does to its disk in a while."""
    recording = RecordingDisk(directory)
    try:
        with recording.watching_directories(), patch.object(committer, "WAL_PAGES", WAL_PAGES):
            worker = Worker(recording, seed)
            asyncio.run(worker.work(directory))
            return worker.recorded
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
            witness = None if kept_events(seed) else record.witness(at)
            missing = promised - await _kept(directory, quick.name, witness)
        except (StoreError, AssertionError) as error:
            found.append(f"seed {seed}, cut at {at}, lost {loss}: {error!r}")
        else:
            if missing:
                found.append(f"seed {seed}, cut at {at}, lost {loss}: {len(missing)} of {len(promised)} are missing")
    quick.unregister()
    return found


async def _kept(directory: Path, vfs: str, witness: Witness | None) -> set[tuple[str, str]]:
    """What the store has when the power is back; it can be written to again, and agrees with what clients have seen."""
    store = await open_sqlite(directory / STORE, SqliteSettings(vfs=vfs, kept_events=None))
    try:
        kept = set()
        for session_id in SESSIONS:
            await store.open(session_id)
            await store.commit(session_id, a_start)
            kept |= {(session_id, item.id) for item in store.state(session_id).inbox.items()}
        if witness is not None:
            assert broken(await journal_of(store, WORKED), witness) == []
        await store.commit(WORKED, a_start)
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


# Planted faults.


def _carelessly(synchronous: str) -> Callable[..., apsw.Connection]:
    def connect_carelessly(*args: Any, **options: Any) -> apsw.Connection:  # noqa: ANN401 - those of the real one
        made = connect(*args, **options)
        made.pragma("synchronous", synchronous)
        return made

    return connect_carelessly


@pytest.mark.parametrize(
    ("synchronous", "seed", "found_as"),
    [
        pytest.param("normal", 0, "are missing", id="a-commit-is-not-synced"),
        pytest.param("normal", 1, "a_request_leaves_as_it_was_committed", id="a-commit-of-an-agent-is-not-synced"),
        pytest.param("off", 0, "StoreDamaged", id="nothing-is-synced"),
    ],
)
def test_a_planted_fault_is_found(
    synchronous: str, seed: int, found_as: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "connect", _carelessly(synchronous))
    assert [found for found in faults(tmp_path, seed) if found_as in found]
