"""The writer thread: after any error, every caller gets an answer."""

import pytest

from sideband.core.errors import StoreUnavailable
from sideband.store.sqlite import SqliteSettings
from sideband.store.sqlite.committer import SqliteCommitter
from tests.unit.core.test_snapshot import facts
from tests.unit.store.twins import SqliteTwin, a_start, played, told, written_at


def test_a_mistake_of_our_own_is_told_and_the_next_commit_is_made(
    sqlite: SqliteTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deliberately broken: the store itself raises something that no store should."""

    def broken(*_args: object) -> None:
        raise ZeroDivisionError("a mistake")

    async def story() -> None:
        async with sqlite.open() as store:
            await store.commit("s", a_start)
            with monkeypatch.context() as planted:
                planted.setattr("sideband.store.sqlite.committer._bound", broken)
                with pytest.raises(ZeroDivisionError, match="a mistake"):
                    await store.commit("s", a_start)
            assert await written_at(store, "s", a_start) == 2
            assert len(await told(store)) == 2

    played(story)


def test_what_is_done_in_passing_may_fail(sqlite: SqliteTwin, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object) -> None:
        raise ZeroDivisionError("a mistake")

    async def story() -> None:
        async with sqlite.open(SqliteSettings(poll_seconds=0.001)) as store, sqlite.open() as other:
            monkeypatch.setattr(SqliteCommitter, "tidy", broken)
            await store.commit("s", a_start)
            with monkeypatch.context() as planted:
                planted.setattr(SqliteCommitter, "look", broken)
                await store.commit("s", a_start)
            wake = store.wake("s")
            wake.clear()
            await other.commit("s", a_start)
            await wake.wait()
            assert facts(store.state("s")) == facts(other.state("s"))

    played(story)


def test_an_errand_that_fails_is_told_in_the_words_of_the_store(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store, sqlite.open(SqliteSettings(patience_seconds=0.01)) as other:
            await store._ask(lambda committer: committer._connection.execute("BEGIN IMMEDIATE").get)
            with pytest.raises(StoreUnavailable):
                await other.acquire("s", "me")
            await store._ask(lambda committer: committer._connection.execute("ROLLBACK").get)

    played(story)
