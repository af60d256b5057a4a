"""A commit that fails after its decision leaves no trace."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TypeAlias

import apsw
import pytest

from sideband.core import snapshot
from sideband.core.errors import OutcomeUnknown, StoreUnavailable
from sideband.core.events import Event, Revoked, Started
from sideband.core.state import SessionState
from sideband.ports import Journal
from sideband.store.sqlite import SqliteSettings
from tests.builders import a_draft
from tests.decisions import deciding
from tests.faults.laws import journal_of
from tests.unit.store.failing import FailingDisk
from tests.unit.store.twins import TWINS, PostgresTwin, Sender, SqliteTwin, a_start, played, took

Fail: TypeAlias = Callable[[], Awaitable[bool]]
"""Makes a commit to session `s` fail; returns whether it did."""


async def left_no_trace(store: Journal, fail: Fail) -> bool:
    """Whether the commit failed; if so, everything is as before."""
    await Sender(store, name="before").send(a_draft())
    events = await journal_of(store, "s")
    state, before = store.state("s"), snapshot.encode(store.state("s"))
    async with aclosing(store.subscribe(session_id="s", after=1)) as news:
        following = asyncio.ensure_future(took(news, 1))
        failed = await fail()
        if failed:
            assert not following.done()
            assert snapshot.encode(store.state("s")) == before
            assert snapshot.encode(state) == before, "the state shows a commit that failed"
            assert await journal_of(store, "s") == events
            # The next one is decided on what is durable, and follows without a gap.
            await Sender(store, name="after").send(a_draft())
            assert len(store.state("s").inbox) == 2
        (logged,) = await following
        assert logged.sequence == 2
    return failed


@pytest.mark.parametrize("name", TWINS)
def test_what_cannot_be_applied_leaves_no_trace(name: str, tmp_path: Path) -> None:
    def half_a_decision(_state: SessionState) -> Iterable[Event]:
        """Its second half cannot be applied: nothing of this id ever waited."""
        return Started(), Revoked(reminder_id="unknown")

    async def story() -> bool:
        async with twin.open() as store:

            async def fail() -> bool:
                with pytest.raises(KeyError):
                    await store.commit("s", deciding(half_a_decision))
                return True

            return await left_no_trace(store, fail)

    twin = TWINS[name](tmp_path)
    assert played(story)
    twin.remove()


async def is_refused(store: Journal) -> bool:
    try:
        await store.commit("s", a_start)
    except (StoreUnavailable, OutcomeUnknown):
        # Even if the outcome on disk is unknown, this process continues from the state before.
        return True
    return False


@contextmanager
def a_failing_disk() -> Iterator[FailingDisk]:
    disk = FailingDisk()
    try:
        yield disk
    finally:
        disk.unregister()


@pytest.mark.parametrize("error", [pytest.param(apsw.FullError, id="full"), pytest.param(apsw.IOError, id="broken")])
def test_what_a_disk_refuses_leaves_no_trace_whichever_operation_fails(error: type[apsw.Error], tmp_path: Path) -> None:
    async def story() -> bool:
        async with SqliteTwin(directory).open(SqliteSettings(vfs=disk.name)) as store:

            async def fail() -> bool:
                with disk.fails_after(operations, error):
                    return await is_refused(store)

            return await left_no_trace(store, fail)

    failures = 0
    with a_failing_disk() as disk:
        for operations in range(20):
            directory = tmp_path / str(operations)
            directory.mkdir()
            failures += played(story)
    assert 0 < failures < 20


def test_what_a_server_refuses_leaves_no_trace(tmp_path: Path) -> None:
    async def story() -> bool:
        async with twin.open() as store:

            async def fail() -> bool:
                refusing = "sideband.journal ADD CONSTRAINT refusing CHECK (word <> 'started')"
                await asyncio.to_thread(twin.execute, f"ALTER TABLE {refusing}")
                return await is_refused(store)

            return await left_no_trace(store, fail)

    twin = PostgresTwin(tmp_path)
    assert played(story)
    twin.remove()
