"""Independent commits that share a transaction."""

import asyncio
from collections.abc import Iterable
from unittest.mock import patch

import psycopg
import pytest

from sideband.core.errors import NotStorable
from sideband.core.events import Event, Idled, Started
from sideband.core.state import SessionState
from sideband.store.codec import encode_event
from sideband.store.postgres import committer
from sideband.store.postgres.reader import row_sum
from tests.decisions import deciding, saying
from tests.unit.store.twins import PostgresTwin, a_start, last_of, played, so_many, told, written_at

IDLED = encode_event(Idled())
A_FEW_BYTES = 10 * len(encode_event(Started()).body)


def kinds(outcomes: Iterable[object]) -> list[type]:
    return [type(outcome) for outcome in outcomes]


def test_a_commit_that_is_too_large_fails_alone(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await asyncio.gather(*(store.open(name) for name in "abc"))
            asked = [("a", a_start), ("b", so_many(11)), ("a", a_start), ("c", so_many(9))]
            outcomes = await asyncio.gather(*(store.commit(*each) for each in asked), return_exceptions=True)
            assert kinds(outcomes) == [tuple, NotStorable, tuple, tuple]
            assert "too large" in str(outcomes[1])
            assert [entry.session_id for entry in await told(store)] == ["a"] * 2 + ["c"] * 9
            assert await written_at(store, "b", a_start) == 12

    with patch.object(committer, "MOST_BYTES", A_FEW_BYTES):
        played(story)


def test_many_that_are_too_large_only_together_are_all_made(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await store.open("s")
            await asyncio.gather(*(store.commit("s", so_many(6)) for _ in range(4)))
            assert [entry.sequence for entry in await told(store)] == [*range(1, 25)]

    with patch.object(committer, "MOST_BYTES", A_FEW_BYTES):
        played(story)


def test_events_that_the_server_cannot_store_do_not_block_other_commits(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await asyncio.gather(store.commit("a", a_start), store.commit("b", a_start))
            postgres.execute(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE program_limit_exceeded USING MESSAGE = 'far too much'; END $$"
            )
            postgres.execute(
                "CREATE TRIGGER refusing BEFORE INSERT ON sideband.journal FOR EACH ROW "
                "WHEN (NEW.session_id = 'b') EXECUTE FUNCTION refuse()"
            )
            outcomes = await asyncio.gather(
                *(store.commit(name, a_start) for name in ("a", "b", "c")), return_exceptions=True
            )
            assert kinds(outcomes) == [tuple, NotStorable, tuple]
            assert "far too much" in str(outcomes[1])

    try:
        played(story)
    finally:
        postgres.execute("DROP FUNCTION IF EXISTS refuse CASCADE")


@pytest.mark.parametrize("writes", [False, True], ids=["nothing-to-write", "something-to-write"])
def test_a_commit_follows_every_event_that_its_decision_has_read(
    postgres: PostgresTwin,
    writes: bool,  # noqa: FBT001 - a row
) -> None:
    seen: list[bool] = []

    def decide(state: SessionState) -> Iterable[Event]:
        seen.append(state.running)
        return (Started(),) if writes else ()

    async def story() -> None:
        async with postgres.open() as store:
            await store.commit("s", a_start)
            async with await psycopg.AsyncConnection.connect(postgres.url) as other:
                await other.execute("SELECT FROM sideband.session FOR UPDATE")
                asked = asyncio.ensure_future(store.commit("s", deciding(decide)))
                await asyncio.to_thread(postgres.is_waited_for)
                await other.execute("UPDATE sideband.counter SET last = 2")
                values = IDLED.word, row_sum("s", IDLED.body), IDLED.body
                await other.execute("INSERT INTO sideband.journal VALUES (2, 's', %s, %s, %s)", values)
            await asked
            assert await last_of(store) == 2 + writes
            assert await written_at(store, "s", a_start) == 3 + writes

    played(story)
    assert seen == [False]


def test_what_is_prepared_outlives_the_first_commit_that_has_nothing_to_write(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            # So often that the driver has prepared something by itself.
            for number in range(12):
                assert await written_at(store, f"s{number}", a_start) == number + 1
            await store.commit("s0", saying())
            assert await written_at(store, "s0", a_start) == 13

    played(story)
