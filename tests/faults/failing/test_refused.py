"""A refused commit is not in the store: not after its process was killed, and not for any other process."""

import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import apsw
import pytest

from sideband.core.drain import drain
from sideband.core.errors import OutcomeUnknown, StoreError, StoreUnavailable
from sideband.core.events import Event, Queued
from sideband.core.seams import Seam
from sideband.core.state import SessionState
from sideband.ports import Journal
from sideband.store.sqlite import SqliteSettings, open_sqlite, wal
from tests.builders import a_draft
from tests.decisions import deciding
from tests.faults.disks import SpendingDisk, WatchedDisk
from tests.faults.laws import journal_of
from tests.unit.store.twins import Sender, played

STORE: Final = "store.db"
# A disk keeps the log beside the file; what readers share in memory goes with the last process.
LEFT_BEHIND: Final = (STORE, f"{STORE}-wal")
SESSION: Final = "s"
FAR_BEYOND: Final = 200


class RefusingDisk(SpendingDisk):
    """Once it is armed, its `at`th operation fails: that alone, or all that follow it too."""

    def __init__(self) -> None:
        super().__init__()
        self._left: int | None = None
        self._stays = False
        self._error: type[apsw.Error] = apsw.IOError
        self.came = False

    @contextmanager
    def failing(self, at: int, error: type[apsw.Error], *, stays: bool) -> Iterator[None]:
        self._left, self._error, self._stays, self.came = at, error, stays, False
        try:
            yield
        finally:
            self._left = None

    def spend(self) -> None:
        if self._left is None:
            return
        self._left -= 1
        if self._left == 0 or (self._stays and self._left < 0):
            self.came = True
            raise self._error


# What is asked of a store while its disk fails.

Ask: TypeAlias = Callable[[Journal], Coroutine[Any, Any, object]]


def _drained(state: SessionState) -> Iterable[Event]:
    return drain(state, Seam.ITERATION_START).events


ASKED: Final[Mapping[str, Ask]] = {
    "an-accept": lambda store: Sender(store, name="asked").send(a_draft()),
    "an-accept-of-some-pages": lambda store: Sender(store, name="asked").send(a_draft(body="x" * 8_000)),
    "a-drain": lambda store: store.commit(SESSION, deciding(_drained)),
}


class Outcome(NamedTuple):
    """What the client was told, the journal before, and the journal afterwards."""

    told: StoreError | None
    before: list[Event]
    there: list[Event]

    def is_sound(self) -> bool:
        match self.told:
            case None:
                return len(self.there) > len(self.before)
            case OutcomeUnknown():
                return self.there[: len(self.before)] == self.before
            case _:
                return self.there == self.before


# Reading the store afterwards.

Look: TypeAlias = Callable[[Path, Journal], Coroutine[Any, Any, list[Event]]]


async def _events(path: Path) -> list[Event]:
    """The whole journal, as a process that has just opened it reads it."""
    quick = WatchedDisk(syncs=False)
    store = await open_sqlite(path, SqliteSettings(vfs=quick.name))
    try:
        return await journal_of(store, SESSION)
    finally:
        await store.close()
        quick.unregister()


async def _after_a_kill(directory: Path, _store: Journal) -> list[Event]:
    """What is on the disk now is what a process that is killed now leaves."""
    left = directory / "copy"
    left.mkdir()
    for name in LEFT_BEHIND:
        if (directory / name).exists():
            shutil.copy(directory / name, left / name)
    return await _events(left / STORE)


async def _meanwhile(directory: Path, _store: Journal) -> list[Event]:
    return await _events(directory / STORE)


async def _after_a_close(directory: Path, store: Journal) -> list[Event]:
    await store.close()
    return await _events(directory / STORE)


LOOKS: Final[Mapping[str, Look]] = {
    "its-process-is-killed": _after_a_kill,
    "another-process-looks": _meanwhile,
    "it-is-closed": _after_a_close,
}


@asynccontextmanager
async def a_store(directory: Path, disk: RefusingDisk) -> AsyncIterator[Journal]:
    store = await open_sqlite(directory / STORE, SqliteSettings(vfs=disk.name))
    try:
        await Sender(store, name="before").send(a_draft())
        yield store
    finally:
        await store.close()


async def _outcome(
    directory: Path, ask: Ask, look: Look, at: int, error: type[apsw.Error], *, stays: bool
) -> Outcome | None:
    """None where all was done before the disk could fail."""
    disk = RefusingDisk()
    try:
        async with a_store(directory, disk) as store:
            before = await journal_of(store, SESSION)
            told = None
            with disk.failing(at, error, stays=stays):
                try:
                    await ask(store)
                except (StoreUnavailable, OutcomeUnknown) as refusal:
                    told = refusal
                there = await look(directory, store)
            return Outcome(told, before, there) if disk.came else None
    finally:
        disk.unregister()


def outcomes(directory: Path, ask: Ask, look: Look, error: type[apsw.Error], *, stays: bool) -> Iterator[Outcome]:
    """For each operation that can fail, from the first one on."""
    for at in range(1, FAR_BEYOND):
        place = directory / str(at)
        place.mkdir()
        outcome = played(lambda: _outcome(place, ask, look, at, error, stays=stays))  # noqa: B023 - played at once
        if outcome is None:
            return
        yield outcome
    raise AssertionError(f"after {FAR_BEYOND} operations it is not done")


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("stays", [pytest.param(False, id="once"), pytest.param(True, id="from-then-on")])
@pytest.mark.parametrize("error", [pytest.param(apsw.FullError, id="full"), pytest.param(apsw.IOError, id="broken")])
def test_what_was_refused_is_not_there_whichever_operation_failed(
    asked: str,
    look: str,
    stays: bool,  # noqa: FBT001 - a row
    error: type[apsw.Error],
    tmp_path: Path,
) -> None:
    refused = 0
    for at, outcome in enumerate(outcomes(tmp_path, ASKED[asked], LOOKS[look], error, stays=stays), start=1):
        assert outcome.is_sound(), f"operation {at} failed, {outcome.told!r} was told, and there is {outcome.there}"
        # Once the disk works again, the outcome is known.
        assert stays or not isinstance(outcome.told, OutcomeUnknown)
        refused += isinstance(outcome.told, StoreUnavailable)
    assert refused > 0


def test_a_refusal_that_leaves_its_commit_in_the_log_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def carelessly(connection: apsw.Connection, _path: Path) -> None:
        connection.execute("COMMIT")

    monkeypatch.setattr(wal, "commit", carelessly)
    found = outcomes(tmp_path, ASKED["an-accept"], _after_a_kill, apsw.IOError, stays=False)
    assert not all(outcome.is_sound() for outcome in found)


async def _going_on(directory: Path, at: int) -> list[Event] | None:
    """What a process leaves that was refused something, and was then told yes; None where nothing was refused."""
    disk = RefusingDisk()
    try:
        async with a_store(directory, disk) as store:
            with disk.failing(at, apsw.IOError, stays=False):
                try:
                    await ASKED["an-accept-of-some-pages"](store)
                except StoreUnavailable:
                    await Sender(store, name="after").send(a_draft())
                    return await _after_a_kill(directory, store)
            return None
    finally:
        disk.unregister()


def test_what_is_accepted_after_a_refusal_is_all_that_is_there(tmp_path: Path) -> None:
    refused = 0
    for at in range(1, FAR_BEYOND):
        directory = tmp_path / str(at)
        directory.mkdir()
        there = played(lambda: _going_on(directory, at))  # noqa: B023 - played at once
        if there is None:
            break
        assert [event.item.id for event in there if isinstance(event, Queued)] == ["before-1", "after-1"]
        refused += 1
    assert refused > 0
