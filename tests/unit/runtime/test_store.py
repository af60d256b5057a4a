"""Opening a store: addresses, options, and sessions by name."""

import asyncio
import gc
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from sideband.core.errors import CursorExpired, InvalidOption, NotStorable, StoreClosed, StoreDamaged, TooManyPending
from sideband.core.limits import Limits
from sideband.core.messages import text_of
from sideband.ports import Journal
from sideband.runtime.agents import agent_loop, agent_run
from sideband.runtime.store import Store, open_store
from sideband.store.postgres import PostgresSettings
from sideband.store.sqlite import SqliteSettings
from sideband.testing import CountingIds, MemoryStore, ScriptedModel
from tests.postgres import no_server_stays, the_server
from tests.unit.store.twins import a_start, played, so_many, told


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
def test_an_unknown_address_is_refused_without_repeating_its_password(url: Any) -> None:  # noqa: ANN401 - any value
    with pytest.raises(InvalidOption, match=r"is not the URL of a store; write 'sqlite:///sideband\.db'") as refused:
        open_store(url)
    assert "hunter2" not in str(refused.value)
    assert "\\u" not in str(refused.value)
    assert refused.value.value is None


@pytest.mark.parametrize("name", [5, b"s", ["s"], "half \ud800", "x" * 2_001, "nul \x00"], ids=ascii)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_session_has_a_name_that_every_store_can_hold(kind: str, name: Any, tmp_path: Path) -> None:  # noqa: ANN401 - any value
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


def test_an_agent_continues_in_another_process(tmp_path: Path) -> None:
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


def test_two_tasks_that_use_a_new_store_at_once_open_it_once(tmp_path: Path) -> None:
    async def main() -> None:
        store = open_store(url_of(tmp_path / "sideband.db"))
        one, other = await asyncio.gather(store.session("s"), store.session("s"))
        assert one is other
        await store.close()
        await store.close()

    asyncio.run(main())


def test_a_path_after_three_slashes_is_relative_to_the_working_directory(
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
        pytest.param("sqlite:///:memory:", "write 'memory:' for a store in memory", id="memory"),
        pytest.param("sqlite:///here.db?mode=ro", "pass them to open_store", id="options"),
    ],
)
def test_addresses_of_other_libraries_are_refused_with_a_hint(url: str, hint: str) -> None:
    with pytest.raises(InvalidOption, match=hint):
        open_store(url)


def test_a_file_that_is_not_a_store_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a store, and rather long " * 100, encoding="utf-8")

    async def main() -> None:
        with pytest.raises(StoreDamaged, match=r"notes\.txt is damaged"):
            await open_store(url_of(tmp_path / "notes.txt")).session()

    asyncio.run(main())


# Options.


__all__ = ["no_server_stays"]

KINDS = ("memory", "sqlite", "postgres")


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of each kind of store."""
    if request.param == "memory":
        yield "memory:"
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
    else:
        name = the_server().take()
        yield the_server().url(name)
        the_server().give_back(name)


async def oldest(journal: Journal) -> int:
    """The cursor after which every event is kept."""
    try:
        await told(journal)
    except CursorExpired as expired:
        return expired.oldest
    return 0


def test_the_number_of_kept_events_is_configurable(url: str) -> None:
    async def story() -> None:
        async with open_store(url, snapshot_events=10, kept_events=5) as store:
            for _ in range(6):
                await store.journal.commit("s", so_many(40))
            # Snapshots are written after the commits have been acknowledged.
            await store.journal.commit("other", a_start)
            assert await oldest(store.journal) >= 160

    played(story)


def test_every_event_may_be_kept(url: str) -> None:
    async def story() -> None:
        async with open_store(url, snapshot_events=10, kept_events=None) as store:
            for _ in range(6):
                await store.journal.commit("s", so_many(10))
            await store.journal.commit("other", a_start)
            assert await oldest(store.journal) == 0

    played(story)


def test_the_duration_of_a_lease_is_configurable(url: str) -> None:
    async def story() -> None:
        async with open_store(url, lease_seconds=7.5) as store:
            assert (await store.journal.acquire("s", "me")).seconds == 7.5

    played(story)


def test_every_kind_takes_every_option(url: str) -> None:
    async def story() -> None:
        async with open_store(
            url,
            snapshot_events=10,
            kept_events=5,
            lease_seconds=60,
            poll_seconds=1,
            patience_seconds=5,
            sessions_at_hand=7,
        ) as store:
            await (await store.session("s")).remind("a fact")

    played(story)


@pytest.mark.parametrize("settings", [SqliteSettings, PostgresSettings])
def test_every_option_is_a_setting_of_its_store(settings: type[SqliteSettings | PostgresSettings]) -> None:
    assert {*signature(open_store).parameters} - {"url", "limits"} <= {*settings.__struct_fields__}


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("kept_events", -1, "a whole number of at least 0 or None"),
        ("kept_events", 1.0, "a whole number"),
        ("kept_events", True, "a whole number"),
        ("snapshot_events", 0, "a whole number of at least 1"),
        ("snapshot_events", None, "a whole number of at least 1"),
        ("lease_seconds", 0, "a number above 0"),
        ("lease_seconds", float("nan"), "a number above 0"),
        ("lease_seconds", float("inf"), "a number above 0"),
        ("poll_seconds", "1", "a number above 0"),
        ("patience_seconds", -0.1, "a number of at least 0"),
        ("sessions_at_hand", 0, "a whole number of at least 1"),
    ],
)
def test_an_invalid_value_is_refused_before_anything_is_opened(option: str, value: object, wanted: str) -> None:
    given: Any = {option: value}
    with pytest.raises(InvalidOption, match=f"{option} must be {wanted}") as refused:
        open_store("sqlite:///never.db", **given)
    assert refused.value.field == option


# Sessions that the program does not reference.


def test_unreferenced_sessions_leave_memory() -> None:
    async def story() -> None:
        store = Store(MemoryStore(), sessions_at_hand=2)
        first = ref(await store.session("first"))
        held = await store.session("held")
        for number in range(5):
            await store.session(f"s{number}")
        gc.collect()
        assert first() is None
        assert await store.session("held") is held

    asyncio.run(story())


def test_a_running_session_stays_in_memory_without_a_reference() -> None:
    async def story() -> None:
        store = Store(MemoryStore(), sessions_at_hand=1)
        run = await agent_run("Work.", session=await store.session("busy"), model=ScriptedModel(["Done."]))
        for number in range(5):
            await store.session(f"s{number}")
        gc.collect()
        again = await store.session("busy")
        assert again.run is run
        assert await again.cancel()

    asyncio.run(story())


def test_a_session_of_a_file_can_be_read_for_as_long_as_its_handle_is_held(tmp_path: Path) -> None:
    async def story() -> None:
        async with open_store(f"sqlite:///{tmp_path / 'store.db'}", sessions_at_hand=1) as store:
            session = await store.session("s")
            await session.remind("a fact")
            for number in range(5):
                await (await store.session(f"s{number}")).remind("another")
            assert [entry.reminder.body for entry in await session.pending()] == ["a fact"]

    asyncio.run(story())
