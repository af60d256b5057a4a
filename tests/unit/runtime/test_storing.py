"""How a store behaves is said where it is opened, in the same words for every kind of store."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from sideband.core.errors import InvalidOption
from sideband.core.failures import CursorExpired
from sideband.ports import Journal
from sideband.runtime import storing
from sideband.runtime.agents import agent_run
from sideband.runtime.store import Store, open_store
from sideband.runtime.storing import StoreOptions
from sideband.store.postgres.committing import PostgresSettings
from sideband.store.sqlite.settings import SqliteSettings
from sideband.testing import MemoryStore, ScriptedModel
from tests.postgres import no_server_stays, the_server
from tests.unit.store.twins import a_start, played, so_many, told

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
    """The first place behind which all is kept."""
    try:
        await told(journal)
    except CursorExpired as expired:
        return expired.oldest
    return 0


def test_how_much_is_kept_is_configuration(url: str) -> None:
    async def story() -> None:
        async with open_store(url, snapshot_events=10, kept_events=5) as store:
            for _ in range(6):
                await store.journal.commit("s", so_many(10))
            # Snapshots are written when those who wait have their answer.
            await store.journal.commit("other", a_start)
            assert await oldest(store.journal) >= 40

    played(story)


def test_all_of_it_may_be_kept(url: str) -> None:
    async def story() -> None:
        async with open_store(url, snapshot_events=10, kept_events=None) as store:
            for _ in range(6):
                await store.journal.commit("s", so_many(10))
            await store.journal.commit("other", a_start)
            assert await oldest(store.journal) == 0

    played(story)


def test_how_long_a_lease_holds_is_configuration(url: str) -> None:
    async def story() -> None:
        async with open_store(url, lease_seconds=7.5) as store:
            assert (await store.journal.acquire("s", "me")).seconds == 7.5

    played(story)


def test_every_kind_takes_every_option(url: str) -> None:
    async def story() -> None:
        options = StoreOptions(
            snapshot_events=10,
            kept_events=5,
            lease_seconds=60,
            poll_seconds=1,
            patience_seconds=5,
            sessions_at_hand=7,
        )
        assert {*options} == {*StoreOptions.__optional_keys__}
        async with open_store(url, **options) as store:
            await (await store.session("s")).remind("a fact")

    played(story)


@pytest.mark.parametrize(
    ("names", "settings"),
    [
        pytest.param(storing.SQLITE, SqliteSettings, id="sqlite"),
        pytest.param(storing.POSTGRES, PostgresSettings, id="postgres"),
    ],
)
def test_what_a_kind_takes_is_what_it_has(
    names: dict[str, str], settings: type[SqliteSettings | PostgresSettings]
) -> None:
    assert {*names.values()} <= {*settings.__struct_fields__}
    assert {*names} - {"subscriber_events"} <= {*StoreOptions.__optional_keys__}


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
def test_a_value_that_makes_no_sense_is_refused_before_anything_is_opened(
    option: str, value: object, wanted: str
) -> None:
    given: Any = {option: value}
    with pytest.raises(InvalidOption, match=f"{option} must be {wanted}") as refused:
        open_store("sqlite:///never.db", **given)
    assert refused.value.field == option


def test_an_option_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    given: Any = {"retention": 5}
    with pytest.raises(TypeError, match="a store has no option 'retention'; there is snapshot_events, kept_events,"):
        open_store(**given)


# Sessions that nobody holds on to.


def test_sessions_that_nobody_holds_on_to_do_not_stay() -> None:
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


def test_a_session_that_runs_is_found_again_though_nobody_holds_on_to_it() -> None:
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
