"""Several processes with one file open, some of which are killed."""

import ast
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from sideband.core.apply import fold
from sideband.core.errors import SessionBusy
from sideband.store.settings import now_ms
from tests.decisions import saying
from tests.unit.core.test_snapshot import facts
from tests.unit.store.twins import SqliteTwin, played, told

ROOT: Final = Path(__file__).parents[4]
# Longer than the test, so that only a datagram can wake the store.
NEVER: Final = 3_600.0


class Child:
    """A process that can be asked, and killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._in, self._out = process.stdin, process.stdout

    async def line(self) -> str:
        return (await self._out.readline()).decode().strip()

    def tell(self, command: str) -> None:
        self._in.write(f"{command}\n".encode())

    async def ask(self, command: str) -> list[str]:
        """All that it says to a command."""
        self.tell(command)
        return await self.rest()

    async def rest(self) -> list[str]:
        said: list[str] = []
        while (line := await self.line()) not in ("done", ""):
            said.append(line)
        return said

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def a_child(
    sqlite: SqliteTwin, name: str, *, lease_seconds: float = 30.0, poll_seconds: float = 0.25
) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.unit.store.process",
        str(sqlite.path),
        name,
        str(lease_seconds),
        str(poll_seconds),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    child = Child(process)
    try:
        assert await child.line() == "ready"
        yield child
        child._in.close()
        await process.wait()
    finally:
        # One that is still there may wait for what never comes.
        if process.returncode is None:
            await child.kill()


def test_processes_that_write_at_once_keep_every_promise_together(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store, a_child(sqlite, "a") as one, a_child(sqlite, "b") as other:
            await store.open("s")
            acked = await asyncio.gather(one.ask("send 30"), other.ask("send 30"))
            assert [len(ids) for ids in acked] == [30, 30]
            entries = await told(store)
            assert [entry.sequence for entry in entries] == list(range(1, 61))
            queued = [entry.event.item.id for entry in entries]  # type: ignore[union-attr]  # nothing else was sent
            for name, ids in zip("ab", acked, strict=True):
                assert [item for item in queued if item.startswith(name)] == ids
            displaced = await asyncio.gather(one.ask("collide 30"), other.ask("collide 30"))
            await store.commit("s", saying())
            assert sum(map(int, (*displaced[0], *displaced[1]))) == 59
            assert len(store.state("s").inbox) == 61
            assert facts(store.state("s")) == facts(fold(entry.event for entry in await told(store)))

    played(story)


@pytest.mark.requirement("store:durable:acknowledged-survives")
def test_what_a_process_has_acknowledged_survives_its_being_killed(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        acked: list[str] = []
        for kill_after in (1, 7, 20, 3):
            async with a_child(sqlite, f"p{kill_after}") as child:
                child.tell("send 1000")
                acked += [await child.line() for _ in range(kill_after)]
                await child.kill()
        async with sqlite.open() as store:
            await store.open("s")
            waiting = [item.id for item in store.state("s").inbox.items()]
            assert [item for item in waiting if item in acked] == acked
            entries = await told(store)
            assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
            assert facts(store.state("s")) == facts(fold(entry.event for entry in entries))

    played(story)


def test_what_a_killed_process_ran_is_free_at_once_and_what_a_living_one_runs_is_not(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store, a_child(sqlite, "alive") as alive, a_child(sqlite, "killed") as killed:
            assert await alive.ask("acquire kept") == ["taken"]
            assert await killed.ask("acquire left") == ["taken"]
            for session in ("kept", "left"):
                with pytest.raises(SessionBusy):
                    await store.acquire(session, "me")
            await killed.kill()
            assert (await store.acquire("left", "me")).token == 2
            with pytest.raises(SessionBusy):
                await store.acquire("kept", "me")
            assert await alive.ask("run kept") == ["committed"]

    # By the clock of the children.
    sqlite.now_ms = now_ms
    played(story)


def test_a_run_in_another_process_that_was_overtaken_is_told_and_writes_nothing(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store, a_child(sqlite, "slow", lease_seconds=0) as slow:
            assert await slow.ask("acquire s") == ["taken"]
            assert await slow.ask("run s") == ["committed"]
            mine = await store.acquire("s", "me")
            assert await slow.ask("run s") == ["lease_lost"]
            assert mine.token == 2
            assert len(await told(store)) == 1

    sqlite.now_ms = now_ms
    played(story)


def test_a_process_that_waits_is_rung_by_the_one_that_commits(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with a_child(sqlite, "a", poll_seconds=NEVER) as waits, a_child(sqlite, "b", poll_seconds=NEVER) as sends:
            for number in range(1, 4):
                waits.tell("wait s")
                assert await waits.line() == "waiting"
                await sends.ask("send 1")
                assert await waits.rest() == [f"woken, {number} waiting"]

    played(story)


def test_a_killed_process_does_not_keep_others_from_being_woken(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with a_child(sqlite, "a", poll_seconds=NEVER) as waits:
            async with a_child(sqlite, "dead") as dead:
                await dead.kill()
            sockets = sqlite.path.parent / "store.db-wake"
            assert len(list(sockets.iterdir())) == 2
            async with a_child(sqlite, "b", poll_seconds=NEVER) as sends:
                assert len(list(sockets.iterdir())) == 2, "what the dead one left was taken down"
                waits.tell("wait s")
                assert await waits.line() == "waiting"
                await sends.ask("send 1")
                assert await waits.rest() == ["woken, 1 waiting"]

    played(story)


def test_no_second_sqlite_is_loaded(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with a_child(sqlite, "a") as child:
            await child.ask("send 3")
            assert await child.ask("modules apsw") == ["True"]
            assert await child.ask("modules sqlite3") == ["False"]

    played(story)


def test_no_module_of_ours_names_the_other_sqlite() -> None:
    """Two copies of SQLite in one process ignore each other's locks, and lose what was committed."""
    named = [
        path.name
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Import) and "sqlite3" in {alias.name for alias in node.names})
        or (isinstance(node, ast.ImportFrom) and node.module == "sqlite3")
    ]
    assert named == []
