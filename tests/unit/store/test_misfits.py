"""A session that cannot be used does not affect other sessions."""

import asyncio

import pytest

from sideband.core.errors import NotStorable, StoreDamaged
from sideband.core.events import Revoked, Started
from sideband.store.codec import checksum, encode_event
from tests.unit.store.test_inspector import change
from tests.unit.store.twins import SqliteTwin, Twin, a_start, last_of, played, so_many, told, written_at

MISFIT = encode_event(Revoked(reminder_id="nobody"))
DAMAGED = r"'bad' do not fit together \(KeyError: 'nobody'\); run `sideband doctor --verify` to find the row"


def put_in(sqlite: SqliteTwin, sequence: int) -> None:
    """A row that is whole, and tells of something that cannot have happened."""
    total = checksum(sequence, "bad", MISFIT.body)
    values = sequence, "bad", MISFIT.word, total, MISFIT.body
    change(sqlite, "INSERT INTO journal VALUES (%s, %s, %s, %s, %s, 0)", *values)


def test_a_session_that_cannot_be_rebuilt_fails_alone(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            for name in ("good", "bad"):
                await store.commit(name, a_start)
        put_in(sqlite, 3)
        async with sqlite.open() as store:
            with pytest.raises(StoreDamaged, match=DAMAGED):
                await store.open("bad")
            bad, good = await asyncio.gather(
                store.commit("bad", a_start), store.commit("good", a_start), return_exceptions=True
            )
            assert isinstance(bad, StoreDamaged)
            assert good == (Started(),)
            assert await last_of(store) == 4

    played(story)


def test_what_another_process_writes_wrongly_fails_its_session_alone(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            for name in ("good", "bad"):
                await store.open(name)
                await store.commit(name, a_start)
            put_in(sqlite, 3)
            assert await written_at(store, "good", a_start) == 4
            with pytest.raises(StoreDamaged, match=DAMAGED):
                await store.commit("bad", a_start)
            with pytest.raises(LookupError, match="not open"):
                store.state("bad")
            assert [entry.sequence for entry in await told(store)] == [1, 2, 3, 4]
            assert store.state("good").running

    played(story)


@pytest.mark.parametrize("name", ["half \ud800", "nul \x00", "x" * 2_001, 5], ids=["half", "nul", "long", "number"])
def test_a_name_that_no_store_can_hold_is_refused_without_effect_on_others(twin: Twin, name: str) -> None:
    async def story() -> None:
        async with twin.open() as store:
            refused, made = await asyncio.gather(
                store.commit(name, a_start), store.commit("s", so_many(2)), return_exceptions=True
            )
            assert isinstance(refused, NotStorable)
            assert made == (Started(), Started())
            with pytest.raises(NotStorable, match="a session id"):
                await store.open(name)
            with pytest.raises(NotStorable, match="a session id"):
                await store.acquire(name, "me")

    played(story)
