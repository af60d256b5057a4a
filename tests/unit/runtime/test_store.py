"""Opening the place where sessions live."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sideband.core.errors import InvalidOption, TooManyPending
from sideband.core.failures import NotStorable, StoreClosed, StoreDamaged
from sideband.core.limits import Limits
from sideband.loop.messages import text_of
from sideband.runtime.agents import agent_loop
from sideband.runtime.store import Store, open_store
from sideband.testing import CountingIds, MemoryStore


def test_the_same_name_is_the_same_session() -> None:
    async def main() -> None:
        async with open_store() as store:
            session = await store.session("fix-login")
            await session.remind("a fact")
            assert await store.session("fix-login") is session
            assert len(await (await store.session("other")).pending()) == 0

    asyncio.run(main())


def test_sessions_without_a_name_are_all_different() -> None:
    async def main() -> None:
        store = Store(MemoryStore(), new_id=CountingIds("s"))
        first, second = await store.session(), await store.session()
        assert (first.id, second.id) == ("s-1", "s-2")
        assert first.id != (await open_store().session()).id

    asyncio.run(main())


def test_a_session_outlives_the_handle_on_its_store() -> None:
    async def main() -> None:
        store = open_store("memory:")
        async with store:
            session = await store.session("s")
        await session.remind("still open")
        assert await store.session("s") is session

    asyncio.run(main())


def test_limits_are_those_of_the_store() -> None:
    async def main() -> None:
        session = await open_store(limits=Limits(pending_per_session=1)).session()
        await session.remind("one")
        with pytest.raises(TooManyPending):
            await session.remind("two")

    asyncio.run(main())


@pytest.mark.parametrize("url", ["redis://me:hunter2@host/0", "memory", "sideband.db", "", None, Path("sideband.db")])
def test_an_address_that_leads_nowhere_is_refused_and_no_password_repeated(url: Any) -> None:  # noqa: ANN401 - whatever somebody passes
    with pytest.raises(InvalidOption, match=r"no store can be opened at .*write 'sqlite:///sideband\.db'") as refused:
        open_store(url)
    assert "hunter2" not in str(refused.value)
    assert "\\u" not in str(refused.value)
    assert refused.value.value is None


@pytest.mark.parametrize("name", [5, b"s", ["s"], "half \ud800", "x" * 2_001, "nul \x00"], ids=ascii)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_session_has_a_name_that_every_store_can_hold(kind: str, name: Any, tmp_path: Path) -> None:  # noqa: ANN401 - whatever somebody passes
    async def main() -> None:
        async with open_store("memory:" if kind == "memory" else url_of(tmp_path / "s.db")) as store:
            with pytest.raises(NotStorable, match="a session id"):
                await store.session(name)

    asyncio.run(main())


# Store files.


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def test_a_session_in_a_file_is_there_again_when_it_is_opened_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(url_of(tmp_path / "sideband.db")) as store:
            session = await store.session("fix-login")
            await session.remind("src/auth.py changed on disk", dedupe_key="file:src/auth.py", ttl_turns=2)
            assert await store.session("fix-login") is session
        with pytest.raises(StoreClosed):
            await session.remind("too late")
        with pytest.raises(StoreClosed):
            _ = store.journal
        async with store:
            again = await store.session("fix-login")
            assert again is not session
            assert [entry.reminder.body for entry in await again.pending()] == ["src/auth.py changed on disk"]

    asyncio.run(main())


def test_an_agent_goes_on_in_another_process_where_it_was(tmp_path: Path) -> None:
    url = url_of(tmp_path / "sideband.db")

    async def first() -> None:
        async with open_store(url) as store:
            session = await store.session("work")
            await session.remind("The build is red.", ttl_turns=1)
            await session.remind("Never force-push.")
            result = await agent_loop("Mend the build.", session=session, model="scripted:Mended.", reminders=False)
            assert (result.text, result.undelivered, result.problems) == ("Mended.", (), ())

    async def second() -> None:
        async with open_store(url) as store:
            session = await store.session("work")
            assert [entry.reminder.body for entry in await session.pending()] == ["Never force-push."]
            await agent_loop("And the docs?", session=session, model="scripted:Those too.", reminders=False)
            said = [text_of(message) for message in (await session.transcript()).messages]
            assert said == ["Mend the build.", "Mended.", "And the docs?", "Those too."]
            kinds = [logged.sequence async for logged in store.journal.history()]
            assert kinds == list(range(1, len(kinds) + 1))

    asyncio.run(first())
    asyncio.run(second())


def test_two_who_come_first_at_once_open_one_store(tmp_path: Path) -> None:
    async def main() -> None:
        store = open_store(url_of(tmp_path / "sideband.db"))
        one, other = await asyncio.gather(store.session("s"), store.session("s"))
        assert one is other
        await store.close()
        await store.close()

    asyncio.run(main())


def test_a_path_behind_three_slashes_begins_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        async with open_store("sqlite:///here.db") as store:
            await (await store.session("s")).remind("a fact")

    asyncio.run(main())
    assert [path.name for path in tmp_path.iterdir()] == ["here.db"]


@pytest.mark.parametrize("url", ["sqlite:", "sqlite://", "sqlite:///", "sqlite://here.db"])
def test_a_file_that_is_not_named_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match="sqlite:///"):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        pytest.param("sqlite:///:memory:", "opened as 'memory:'", id="memory"),
        pytest.param("sqlite:///here.db?mode=ro", "arguments of open_store", id="options"),
    ],
)
def test_what_means_something_elsewhere_makes_no_file_of_that_name(url: str, hint: str) -> None:
    with pytest.raises(InvalidOption, match=hint):
        open_store(url)


def test_a_file_that_is_no_store_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a store, and rather long " * 100, encoding="utf-8")

    async def main() -> None:
        with pytest.raises(StoreDamaged, match=r"notes\.txt is damaged"):
            await open_store(url_of(tmp_path / "notes.txt")).session()

    asyncio.run(main())
